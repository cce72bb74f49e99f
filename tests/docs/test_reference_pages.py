"""Pages that are written from the code: every program with every setting, every command."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from plot_attractors import cli
from plot_attractors.runs import registry
from plot_attractors.runs.settings import fields

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_pages", DOCS / "reference_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def written(pages: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    pages.write(folder)
    return folder


def test_every_program_has_a_page_with_its_settings(written: Path) -> None:
    for kind in registry.KINDS:
        index = (written / "programs" / kind / "index.md").read_text(encoding="utf-8")
        for name in registry.names(kind):
            assert f"[{name}]({name}.md)" in index
            page = (written / "programs" / kind / f"{name}.md").read_text(encoding="utf-8")
            settings, rest = page.partition("## The program")[::2]
            assert rest
            program = registry.load(kind, name)
            assert all(f"| `{key}` |" in settings for key in fields(program.Config))
            presets = [name.split("/") for name in getattr(program, "PRESETS", ())]
            assert all(" of ".join(f"`{n}`" for n in reversed(p)) in settings for p in presets)
            assert all(f"`{figure}`" in settings for figure in getattr(program, "CAPTIONS", ()))


def test_every_command_and_package_is_there(pages: ModuleType, written: Path) -> None:
    text = pages.commands()
    names = [c.name or c.callback.__name__ for c in cli.app.registered_commands if c.callback]
    assert len(names) > 7
    assert all(f"## `plot-attractors {name}`" in text for name in names)
    library = (written / "library" / "gflownet.md").read_text(encoding="utf-8")
    assert "automodule:: plot_attractors.gflownet.balance" in library
    assert "`DetailedBalance`" in library


def test_pages_that_are_as_they_were_are_left_alone(pages: ModuleType, written: Path) -> None:
    (written / "programs" / "models" / "gone.md").write_text("of a program that was removed")
    (written / "commands.md").write_text("old")
    before = (written / "programs" / "models" / "attractor.md").stat().st_mtime_ns
    pages.write(written)
    assert (written / "programs" / "models" / "attractor.md").stat().st_mtime_ns == before
    assert (written / "commands.md").read_text() == pages.commands()
    assert not (written / "programs" / "models" / "gone.md").exists()

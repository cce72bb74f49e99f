"""Pages that are written from the code: every program with every setting, every command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plot_attractors import cli
from plot_attractors.runs import registry
from plot_attractors.runs.settings import fields
from tests.small import module_at

PAGES: Any = module_at(Path(__file__).parents[2] / "docs" / "reference_pages.py")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "programs").mkdir()
    (folder / "programs" / "gone.md").write_text("of a program that was removed")
    PAGES.write(folder)
    assert not (folder / "programs" / "gone.md").exists()
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


def test_every_command_and_package_is_there(written: Path) -> None:
    text = (written / "commands.md").read_text(encoding="utf-8")
    names = [c.name or c.callback.__name__ for c in cli.app.registered_commands if c.callback]
    assert len(names) > 7
    assert all(f"## `plot-attractors {name}`" in text for name in names)
    library = (written / "library" / "gflownet.md").read_text(encoding="utf-8")
    assert "automodule:: plot_attractors.gflownet.balance" in library
    assert "`DetailedBalance`" in library

"""Pages that are written from the code: every program with every setting, every command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plot_attractors import cli
from plot_attractors.runs import registry
from plot_attractors.runs.settings import fields
from tests.small import module_at

PAGES: Any = module_at(Path(__file__).parents[2] / "docs" / "reference_pages.py")


def test_every_program_and_command_is_there(tmp_path: Path) -> None:
    (tmp_path / "programs").mkdir()
    PAGES.write(tmp_path)
    for kind in registry.KINDS:
        for name in registry.names(kind):
            page = (tmp_path / "programs" / kind / f"{name}.md").read_text(encoding="utf-8")
            settings = page.partition("## The program")[0]
            keys = fields(registry.load(kind, name).Config)
            assert all(f"| `{key}` |" in settings for key in keys)
    text = (tmp_path / "commands.md").read_text(encoding="utf-8")
    names = [c.name or c.callback.__name__ for c in cli.app.registered_commands if c.callback]
    assert all(f"## `plot-attractors {name}`" in text for name in names)

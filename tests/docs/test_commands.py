"""Commands and paths in README.md, CONTRIBUTING.md and the pages under docs/ are there today."""

from __future__ import annotations

import pkgutil
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from plot_attractors.analysis.ask import read_inputs
from plot_attractors.cli import app
from plot_attractors.cli.programs import kinds_of
from plot_attractors.cli.runs import _by_analysis
from plot_attractors.cli.shared import parse
from plot_attractors.paper.plan import planned
from plot_attractors.runs import Run, pretrained, registry, run, settings
from plot_attractors.runs.compare import TOPICS

from .test_links import PAGES, ROOT

FENCED = re.compile(r"^ *(```|~~~)(.*?)\n(.*?)^ *\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
COMMANDS: Any = typer.main.get_command(app).commands  # type: ignore[attr-defined]
USAGE: Any = typer.BadParameter.__base__  # what a command line is refused with
FOLDERS = ".ci analyses benchmarks datasets docs examples inference models plot_attractors tests"
# What is no file of the repository: a reader's own, words that stand for one, what programs write.
OWN = re.compile(
    r"\b(test_)?mine\b|^[\w-]+\.py$|\b(NAME|FILE)\b|^analyses/\w+(/\w+\.csv)?$|^docs/_build"
)


def written(page: Path, folder: Path) -> list[list[str]]:
    """The commands of a page: in blocks as bash reads them, and inline."""
    text, asked, found = page.read_text(), folder / "asked", list[list[str]]()
    record = "{0}() {{ printf '%s\\0' {0} \"$@\" $'\\n' >> \"$ASKED\"; }}\n"
    for _, kind, block in FENCED.findall(text):
        if kind == "sh":
            script = "".join(map(record.format, ("plot-attractors", "make", "python"))) + block
            asked.write_bytes(b"")
            nothing_else = {"PATH": str(folder / "nothing"), "ASKED": str(asked)}
            bash = str(shutil.which("bash"))
            subprocess.run([bash, "-c", script], cwd=folder, capture_output=True, env=nothing_else)
            found += [row.split("\0") for row in asked.read_text().split("\0\n\0")[:-1]]
    for code in CODE.findall(FENCED.sub("", text)):
        words = shlex.split(code) if code.count('"') % 2 == 0 == code.count("'") % 2 else []
        if len(words) > 1 and not {"…", "..."} & {*words}:
            if words[0] in COMMANDS:
                words = ["plot-attractors", *words]
            found += [words] if words[0] in ("plot-attractors", "make", "python") else []
    return found


def attempt(words: list[str]) -> None:
    """Everything of a command but its work: raises what refuses it."""
    program, name, *arguments = words
    if program == "python":
        assert name.startswith("-") or (ROOT / name).exists(), f"there is no {name}"
    elif program == "make":
        goals = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        goals += [f"bench-{path.stem}" for path in (ROOT / "benchmarks").glob("*.py")]
        assert name in goals, f"there is no target {name}"
    elif name != "--help" and arguments:
        assert name in COMMANDS, f"there is no command {name}"
        given = COMMANDS[name].make_context(name, [*arguments]).params
        changed = parse(given.get("set_") or [])
        if any(map(OWN.search, arguments)):
            return
        if name == "fit":
            kept = "program", "inference", "preset", "seed", "data"
            run.plan(**{key: given[key] for key in kept}, out=None, settings=changed)
        elif name == "analyze":
            names = given["names"] or list(registry.names("analyses"))
            of = _by_analysis(changed, names)
            for one in names:
                settings.from_table(registry.load("analyses", one).Config, of.get(one, {}))
        elif name == "settings":
            kinds_of(given["program"])
        elif name == "paper":
            planned(Path("paper"), given["preset"], only=given["only"] or ())
        elif name == "compare":
            assert given["topic"] in TOPICS, given["topic"]
        elif name == "ask" and str(given["run"]).startswith(pretrained.PREFIX):
            for text in given["inputs"]:
                read_inputs(Run(given["run"]), text)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_are_taken(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for name, shape in (("digits", (40, 8, 8)), ("digits-rows", (40, 6)), ("embeddings", (40, 6))):
        np.save(tmp_path / f"{name}.npy", np.zeros(shape))  # whose shape tells the kind of data
    wrong, commands = [], written(page, tmp_path)
    assert page != ROOT / "README.md" or len(commands) >= 12  # else none would be read
    for words in commands:
        try:
            attempt(words)
        except (AssertionError, ValueError, USAGE) as error:
            wrong.append(f"{shlex.join(words)}: {error}")
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_paths_and_names_are_there(page: Path) -> None:
    text, wrong = page.read_text(), []
    said = [*CODE.findall(FENCED.sub("", text))]
    said += [block for _, kind, block in FENCED.findall(text) if kind == "sh"]
    for word in " ".join(said).split():
        if "/" in word and word.partition("/")[0] in FOLDERS.split() and not OWN.search(word):
            wrong += [] if list(ROOT.glob(word)) else [word]
        if re.fullmatch(r"plot_attractors(\.\w+)+", word):
            try:
                pkgutil.resolve_name(word)
            except (ImportError, AttributeError):
                wrong.append(word)
    assert not wrong


def test_sizes_of_make_demo_are_settings() -> None:
    (sizes,) = re.findall(r"^SIZES := ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text(), re.M)
    words = sizes.replace("\\", " ").split()
    attempt(["plot-attractors", "analyze", "RUN", *(f"--set={word}" for word in words)])
    with pytest.raises(ValueError, match="no setting 'gone'"):
        attempt(["plot-attractors", "analyze", "RUN", "--set=basins.gone=1"])

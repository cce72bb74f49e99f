"""Shelves: programs by name and by path, imported so that dataclasses and pickling work."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from plot_attractors.runs import registry

TOYS = Path(__file__).parents[1] / "toy_programs"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_name_and_a_path_find_the_same_file() -> None:
    for shelf in registry.SHELVES:
        for name in registry.names(shelf):
            path = registry.find(shelf, name)
            assert path.is_file()
            assert registry.find(shelf, str(path)) == path
            assert registry.identifier(shelf, path) == name
            assert registry.describe(path)


def test_a_program_of_ones_own_pickles_and_is_imported_once() -> None:
    module = registry.load("models", TOYS / "toy_model.py")
    assert registry.load("models", str(TOYS / "toy_model.py")) is module
    config = module.Config(columns=2)
    assert pickle.loads(pickle.dumps(config)) == config
    assert registry.identifier("models", TOYS / "toy_model.py") == str((TOYS / "toy_model.py").resolve())


def test_a_changed_file_is_imported_anew(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.py", "def analyze(run, out): return 1\n")
    assert registry.load("analyses", path).analyze(None, None) == 1
    write(path, "def analyze(run, out): return 22\n")
    os.utime(path, ns=(1, 1))
    assert registry.load("analyses", path).analyze(None, None) == 22


def test_files_of_one_name_in_two_folders_stay_apart(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "mine.py", f"def analyze(run, out): return {folder!r}\n")
    assert [registry.load("analyses", tmp_path / f / "mine.py").analyze(None, None) for f in "ab"] == ["a", "b"]


def test_an_unknown_name_is_answered_with_close_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(registry, "folder", lambda shelf: tmp_path)
    write(tmp_path / "hbv.py", '"""Hierarchy."""\n')
    write(tmp_path / "_shared.py", "")
    with pytest.raises(ValueError, match=r"no program 'hvb' in models: did you mean 'hbv'\? It holds hbv; a file"):
        registry.find("models", "hvb")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1\n", "lacks Config: a program in models defines it as a frozen dataclass"),
        ("Config = 3\n", "Config in the program .* is not what"),
        ("def f(:\n", "cannot import the program .*SyntaxError"),
        ("1 / 0\n", "cannot import the program .*ZeroDivisionError"),
        ("import no_such_package\n", "cannot import the program .*no_such_package"),
    ],
)
def test_a_faulty_program_gets_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = write(tmp_path / "mine.py", text)
    for _ in range(2):  # the failed import leaves nothing behind
        with pytest.raises(ValueError, match=sentence):
            registry.load("models", path)


def test_missing_files_and_other_endings_get_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no program file .*nothing\.py"):
        registry.find("models", tmp_path / "nothing.py")
    with pytest.raises(ValueError, match=r"a program is a \.py file"):
        registry.find("models", write(tmp_path / "mine.txt", ""))

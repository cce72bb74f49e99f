"""The registry: programs by name and by path, imported so that dataclasses and pickling work."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from plot_attractors.cli.programs import kinds_of
from plot_attractors.runs import registry

TOY = Path(__file__).parents[1] / "toy_programs" / "toy_model.py"


def test_a_name_and_a_path_find_the_same_file() -> None:
    for kind in registry.KINDS:
        for name in registry.names(kind):
            path = registry.find(kind, name)
            assert registry.find(kind, str(path)) == path
            assert registry.identifier(kind, path) == name
            assert registry.describe(path)


def test_a_program_of_ones_own_pickles_and_is_imported_once() -> None:
    module = registry.load("models", TOY)
    assert registry.load("models", str(TOY)) is module
    config = module.Config(clip=2.0)
    assert pickle.loads(pickle.dumps(config)) == config
    assert registry.identifier("models", TOY) == str(TOY)


def test_a_changed_file_is_imported_anew_and_one_of_the_same_name_apart(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    path, other = tmp_path / "mine.py", tmp_path / "other" / "mine.py"
    for file, text in ((path, "A = 1\n"), (path, "A = 22\n"), (other, "A = 3\n")):
        file.write_text(TOY.read_text() + text)
        os.utime(file, ns=(1, len(text)))
        registry.load("models", file)
    assert [registry.load("models", file).A for file in (path, other)] == [22, 3]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1\n", "lacks Config, which a program in models defines"),
        ("Config = PRESETS = {}\ndef build(model, data, config): ...", "lacks build"),
        ("def f(:\n", "cannot import .*SyntaxError"),
        ("1 / 0\n", "cannot import .*ZeroDivisionError"),
    ],
)
def test_a_faulty_program_gets_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    for _ in range(2):  # the failed import leaves nothing behind
        with pytest.raises(ValueError, match=sentence):
            registry.load("models", path)


def test_kinds_of_a_name_or_a_file() -> None:
    assert kinds_of("vqvae") == ["models", "inference"]
    assert kinds_of("hbv") == ["datasets"]
    assert kinds_of(str(registry.find("inference", "gflownet_em"))) == ["inference"]
    with pytest.raises(ValueError, match="did you mean 'gflownet_em'"):
        kinds_of("gflownet_emm")
    with pytest.raises(ValueError, match=r"there is no program file .*nothing\.py"):
        kinds_of("nowhere/nothing.py")

"""The registry: programs by name and by path, imported so that dataclasses and pickling work."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from plot_attractors.runs import registry

TOYS = Path(__file__).parents[1] / "toy_programs"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def returned(path: Path) -> object:
    return registry.load("analyses", path).measure(None, None)


def program(value: int) -> str:
    return f"class Config: pass\ndef measure(run, config): return {value}\ndef draw(tables): ...\n"


def test_a_name_and_a_path_find_the_same_file() -> None:
    for kind in registry.KINDS:
        for name in registry.names(kind):
            path = registry.find(kind, name)
            assert registry.find(kind, str(path)) == path
            assert registry.identifier(kind, path) == name
            assert registry.describe(path)


def test_a_program_of_ones_own_pickles_and_is_imported_once() -> None:
    module = registry.load("models", TOYS / "toy_model.py")
    assert registry.load("models", str(TOYS / "toy_model.py")) is module
    config = module.Config(clip=2.0)
    assert pickle.loads(pickle.dumps(config)) == config
    assert registry.identifier("models", TOYS / "toy_model.py") == str(TOYS / "toy_model.py")


def test_a_changed_file_is_imported_anew_and_one_of_the_same_name_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.py", program(1))
    assert returned(path) == 1
    write(path, program(22))
    os.utime(path, ns=(1, 1))
    other = write(tmp_path / "other" / "mine.py", program(3))
    assert [returned(path), returned(other)] == [22, 3]


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
    path = write(tmp_path / "mine.py", text)
    for _ in range(2):  # the failed import leaves nothing behind
        with pytest.raises(ValueError, match=sentence):
            registry.load("models", path)


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("vqave", r"no program 'vqave' in models: did you mean 'vqvae'\? It"),
        ("nowhere/nothing.py", r"there is no program file .*nothing\.py"),
    ],
)
def test_what_is_not_there_gets_a_sentence(program: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        registry.find("models", program)


def test_kinds_of_a_name_or_a_file() -> None:
    assert registry.kinds_of("vqvae") == ["models", "inference"]
    assert registry.kinds_of("hbv") == ["datasets"]
    assert registry.kinds_of(str(registry.find("inference", "gflownet_em"))) == ["inference"]
    with pytest.raises(ValueError, match="did you mean 'gflownet_em'"):
        registry.kinds_of("gflownet_emm")
    with pytest.raises(ValueError, match="there is no program 'nothing'"):
        registry.kinds_of("nothing")

"""Corpora as files of JSON lines: written from a run, read from anybody.

The first line says how sentences are written; every other line is a sentence::

    {"language": {"ordered": false, "groups": [2, 2], "tokens": ["A", "B", "C", "D"],
     "max_length": 2}, "features": {"colour": ["red", "green"]}, "model": "my_model", "seed": 0}
    {"input": 0, "split": "train", "tokens": ["A", "D"], "sentence": "A·D",
     "labels": {"colour": "red"}, "meaning": [0.1, -2.5]}

(each on one line). Needed are ``language.ordered`` and, of a sentence, ``tokens``. Without
``groups`` every token is a group of its own; without ``tokens`` those that occur are all; without
``features`` a label is a number if one of its values has a fraction. ``meaning`` is a vector that
the sentence stands for. Whatever else stands there is kept and not read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from plot_attractors.analysis.corpora import Corpus, Writing, make
from plot_attractors.data import Feature

__all__ = ["CorpusFile", "metadata_of", "read", "to_lines"]

NONE = "∅"  # the empty sentence
EXAMPLE = '{"language": {"ordered": true}}'


class CorpusFile(NamedTuple):
    """What a file holds: a corpus of every split, and the object of its first line."""

    splits: dict[str, Corpus]
    metadata: dict[str, Any]


def metadata_of(run: Any) -> dict[str, Any]:
    """Program, data, settings, seed and versions of a run, for the first line of its corpus."""
    return {
        "model": run.program_name,
        "inference": run.inference_name,
        "data": type(run.data).__name__,
        "settings": {part: run.config[part] for part in ("model", "inference")},
        "seed": run.seed,
        "versions": run.environment.get("versions", {}),
    }


def to_lines(splits: Mapping[str, Corpus], metadata: Mapping[str, Any]) -> str:
    """The text of a file of corpora of one language, by split; ValueError where there is none."""
    if not splits:
        raise ValueError("a corpus file is of one split at least, and none was given")
    of = next(iter(splits.values()))
    writing = of.writing
    language = {
        "ordered": writing.ordered,
        "groups": list(writing.groups),
        "tokens": list(writing.names),
        "max_length": writing.longest,
    }
    head = {
        "language": language,
        "features": {f.name: list(f.outcomes) or None for f in of.features},
        "hierarchical": of.hierarchical,
        **_plain(metadata),
    }
    lines = [head, *(line for split, one in splits.items() for line in _sentences(split, one))]
    return "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)


def _plain(value: Any) -> Any:
    """As JSON has it: infinity, which a setting may be, as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _sentences(split: str, of: Corpus) -> Iterator[dict[str, Any]]:
    names = np.array(of.writing.names, dtype=object)
    sizes = np.array((0,) * of.symbols.shape[1] if of.writing.ordered else of.writing.groups)
    before = np.cumsum(sizes) - sizes  # number of the first token of a group
    tokens = of.symbols - 1 + before
    for i, row in enumerate(of.symbols > 0):
        said = names[tokens[i][row]].tolist()
        line: dict[str, Any] = {
            "input": i,
            "split": split,
            "tokens": said,
            "sentence": "·".join(said) or NONE,
            "labels": {f.name: _label(f, of.meaning[i, k]) for k, f in enumerate(of.features)},
        }
        if of.vectors is not None:  # the shortest text that gives back the same single precision
            line["meaning"] = [float(str(value)) for value in of.vectors[i]]
        yield line


def _label(feature: Feature, value: float) -> str | float | None:
    if math.isnan(value):
        return None
    return feature.outcomes[int(value)] if feature.categorical else float(value)


# Reading.


class _Line(NamedTuple):
    number: int
    split: str
    tokens: list[str]
    labels: dict[str, Any]
    meaning: list[float] | None


def read(file: str | Path) -> CorpusFile:
    """The corpora in a file of JSON lines; ValueError, with the number of the line, where it is
    malformed.
    """
    path = Path(file)
    try:
        texts = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text in UTF-8, and so no corpus of JSON lines") from None
    objects = [
        (number, _object(path, number, text))
        for number, text in enumerate(texts, 1)
        if text.strip()
    ]
    if not objects:
        raise ValueError(
            f"{path} is empty: its first line says how sentences are written: {EXAMPLE}"
        )
    (first, metadata), *rest = objects
    language = metadata.get("language")
    if not isinstance(language, dict) or not isinstance(language.get("ordered"), bool):
        raise _refusal(
            path, first, f"the first line does not say whether tokens are ordered: write {EXAMPLE}"
        )
    if not rest:
        raise ValueError(f'{path} has no sentences: write one a line, {{"tokens": ["A", "B"]}}')
    lines = [_line(path, number, found) for number, found in rest]
    writing = _writing(path, first, language, lines)
    features = _features(path, first, metadata.get("features"), lines)
    symbols = _symbols(path, writing, lines)
    meaning = _values(path, features, lines)
    vectors = _vectors(path, lines)
    split = np.array([line.split for line in lines], dtype=object)
    hierarchical = metadata.get("hierarchical") is True
    splits = {}
    for name in dict.fromkeys(split.tolist()):
        row = split == name
        own = None if vectors is None else vectors[row]
        splits[name] = make(writing, symbols[row], meaning[row], features, hierarchical, own)
    return CorpusFile(splits, metadata)


def _refusal(path: Path, number: int, what: str) -> ValueError:
    return ValueError(f"line {number} of {path.name}: {what}")


def _object(path: Path, number: int, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise _refusal(
            path, number, f"no JSON ({error.msg}, column {error.colno}): write one object a line"
        ) from None
    if not isinstance(found, dict):
        raise _refusal(path, number, 'no object: write {"tokens": [...]} with the names of tokens')
    return found


def _line(path: Path, number: int, found: Mapping[str, Any]) -> _Line:
    tokens = found.get("tokens")
    if not isinstance(tokens, list) or not all(map(_is_name, tokens)):
        raise _refusal(
            path, number, 'it has no "tokens": write a list of names or numbers, ["A", "D"]'
        )
    split, labels = found.get("split", "train"), found.get("labels", {})
    if not isinstance(split, str):
        raise _refusal(path, number, f'"split" is {json.dumps(split)}: write a name, "train"')
    if not isinstance(labels, dict) or not all(map(_is_label, labels.values())):
        raise _refusal(
            path, number, '"labels" are no plain values: write {"colour": "red", "size": 0.5}'
        )
    meaning = found.get("meaning")
    if meaning is not None and not (isinstance(meaning, list) and all(map(_is_number, meaning))):
        raise _refusal(path, number, '"meaning" is no list of finite numbers: write [0.5, -1.25]')
    return _Line(number, split, [_text(token) for token in tokens], labels, meaning)


def _is_name(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_label(value: Any) -> bool:
    return value is None or isinstance(value, str | bool) or _is_number(value)


def _text(value: Any) -> str:
    """The name of a token or of an outcome, which may be written as a number or as true."""
    return value if isinstance(value, str) else json.dumps(value)


def _writing(
    path: Path, first: int, language: Mapping[str, Any], lines: Sequence[_Line]
) -> Writing:
    names = language.get("tokens")
    if names is None:
        names = sorted({token for line in lines for token in line.tokens}, key=_natural)
    elif not isinstance(names, list) or not all(map(_is_name, names)):
        raise _refusal(path, first, '"tokens" of the language are no names: write ["A", "B"]')
    names = [_text(name) for name in names]
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise _refusal(path, first, f"the language has the token {twice!r} twice: name it once")
    groups = language.get("groups", [1] * len(names))
    sizes = isinstance(groups, list) and all(isinstance(g, int) and g > 0 for g in groups)
    if not sizes or sum(groups) != len(names):
        raise _refusal(
            path, first,
            f'"groups" do not add up to the {len(names)} tokens: write sizes such as [2, 2]',
        )  # fmt: skip
    longest = max(1, *(len(line.tokens) for line in lines))
    most = language.get("max_length", longest)
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise _refusal(path, first, '"max_length" is no whole number above 0: leave it out')
    return Writing(tuple(names), tuple(groups), language["ordered"], most)


def _natural(name: str) -> tuple[bool, float, str]:
    """Numbers by their size, then names."""
    return (False, int(name), name) if name.isdecimal() else (True, 0, name)


def _symbols(path: Path, writing: Writing, lines: Sequence[_Line]) -> np.ndarray:
    """(N, P) as of `Corpus`."""
    number = {name: k for k, name in enumerate(writing.names)}
    group = np.repeat(np.arange(len(writing.groups)), writing.groups)
    before = np.cumsum(writing.groups) - np.array(writing.groups)
    width = writing.longest if writing.ordered else len(writing.groups)
    symbols = np.zeros((len(lines), width), dtype=np.intp)
    for row, line in zip(symbols, lines, strict=True):
        if len(line.tokens) > writing.longest:
            raise _refusal(
                path, line.number,
                f"{len(line.tokens)} tokens, more than the max_length {writing.longest} of the "
                "first line: raise that, or shorten the sentence",
            )  # fmt: skip
        for place, token in enumerate(line.tokens):
            if token not in number:
                raise _refusal(
                    path, line.number,
                    f"the token {token!r} is not one of the language: add it to the tokens of the "
                    "first line, or leave those out",
                )  # fmt: skip
            k = number[token]
            if writing.ordered:
                row[place] = k + 1
                continue
            of = group[k]
            if row[of]:
                other = writing.names[row[of] - 1 + before[of]]
                what = (
                    f"{token!r} stands twice"
                    if other == token
                    else (f"{other!r} and {token!r} are of one group")
                )
                raise _refusal(
                    path, line.number,
                    f"{what}, and a bag of words has one token of a group at most: leave one out, "
                    'or say "ordered": true',
                )  # fmt: skip
            row[of] = k - before[of] + 1
    return symbols


def _features(path: Path, first: int, declared: Any, lines: Sequence[_Line]) -> tuple[Feature, ...]:
    if declared is None:
        names = dict.fromkeys(name for line in lines for name in line.labels)
        return tuple(_inferred(name, (line.labels.get(name) for line in lines)) for name in names)
    right = isinstance(declared, dict) and all(
        outcomes is None
        or (isinstance(outcomes, list) and outcomes and None not in outcomes
            and all(map(_is_label, outcomes)))
        for outcomes in declared.values()
    )  # fmt: skip
    if not right:
        raise _refusal(
            path, first,
            '"features" are no lists of outcomes: write {"colour": ["red", "green"], "size": null}',
        )  # fmt: skip
    return tuple(Feature(n, tuple(map(_text, outcomes or ()))) for n, outcomes in declared.items())


def _inferred(name: str, values: Iterable[Any]) -> Feature:
    known = [value for value in values if value is not None]
    if known and all(map(_is_number, known)) and any(value % 1 for value in known):
        return Feature(name)
    # of no value at all: one outcome, which never occurs
    return Feature(name, tuple(sorted({_text(value) for value in known}, key=_natural)) or ("?",))


def _values(path: Path, features: Sequence[Feature], lines: Sequence[_Line]) -> np.ndarray:
    """(N, F) outcomes' numbers, or numbers; NaN where there is none."""
    meaning = np.full((len(lines), len(features)), np.nan)
    names = {feature.name for feature in features}
    for line in lines:
        if unknown := [name for name in line.labels if name not in names]:
            raise _refusal(
                path, line.number,
                f"the label {unknown[0]!r} is not one of the features of the first line: add it "
                "there, or leave those out",
            )  # fmt: skip
    for k, feature in enumerate(features):
        number = {outcome: j for j, outcome in enumerate(feature.outcomes)}
        for i, line in enumerate(lines):
            value = line.labels.get(feature.name)
            if value is None:
                continue
            if feature.categorical and _text(value) not in number:
                known = ", ".join(feature.outcomes[:8])
                raise _refusal(
                    path, line.number,
                    f"{feature.name} is {_text(value)!r}, which is no outcome of the first line: "
                    f"write one of {known}, or null",
                )  # fmt: skip
            if not feature.categorical and not _is_number(value):
                raise _refusal(
                    path, line.number,
                    f"{feature.name} is {_text(value)!r}, and it is a number elsewhere: write one, "
                    "or null",
                )  # fmt: skip
            meaning[i, k] = number[_text(value)] if feature.categorical else value
    return meaning


def _vectors(path: Path, lines: Sequence[_Line]) -> np.ndarray | None:
    sizes = {None if line.meaning is None else len(line.meaning) for line in lines}
    if sizes == {None}:
        return None
    size = len(lines[0].meaning or ())
    for line in lines:
        if line.meaning is None or len(line.meaning) != size or not size:
            has = "no" if line.meaning is None else len(line.meaning)
            raise _refusal(
                path, line.number,
                f'"meaning" has {has} numbers, and line {lines[0].number} has {size}: give every '
                "sentence as many, or none",
            )  # fmt: skip
    return np.array([line.meaning for line in lines], dtype=np.float32)

"""Morphemes of corpora that were made of known ones."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from plot_attractors.measures.morphemes import Morpheme, morphemes


def pairs(found: list[Morpheme]) -> set[tuple[str, str]]:
    return {(" ".join(map(str, m.form)), " ".join(map(str, m.meaning))) for m in found}


def corpus(
    words: dict[str, list[str]], n: int = 400, seed: int = 0, shuffled: bool = True
) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences that say each of three features by a form of one or more tokens, in any order."""
    rng = np.random.default_rng(seed)
    sentences, meanings = [], []
    for _ in range(n):
        meaning = [f"f{j}={rng.integers(3)}" for j in range(3)]
        order = rng.permutation(3) if shuffled else range(3)
        sentences.append([token for j in order for token in words[meaning[j]]])
        meanings.append(meaning)
    return sentences, meanings


NAMES = [f"f{j}={k}" for j, k in product(range(3), range(3))]


@pytest.mark.parametrize("shuffled", [False, True])
def test_forms_of_several_tokens_are_recovered(shuffled: bool) -> None:
    words = {
        name: [f"w{i}", f"x{i}"] if i % 2 else [f"w{i}", "of", f"x{i}"]
        for i, name in enumerate(NAMES)
    }
    found = morphemes(*corpus(words, shuffled=shuffled))
    expected = {(" ".join(form), name) for name, form in words.items()}
    if shuffled:  # a token of a form says as much as the form, and longer ones win the tie
        assert pairs(found[:9]) == expected
    else:
        assert {meaning for _, meaning in pairs(found[:9])} == set(NAMES)


def test_weights_by_hand() -> None:
    """Boldt & Mortensen's four-word corpora: of parts, and of wholes."""
    meanings = [{"r", "x"}, {"r", "y"}, {"g", "x"}, {"g", "y"}]
    parts = morphemes([["red", "car"], ["red", "boat"], ["go", "car"], ["go", "boat"]], meanings)
    assert pairs(parts) == {("red", "r"), ("go", "g"), ("car", "x"), ("boat", "y")}
    assert [m.information for m in parts] == [1.0] * 4
    wholes = morphemes([["a"], ["b"], ["c"], ["d"]], meanings)
    assert {len(m.meaning) for m in wholes} == {2}
    entropy = -(0.25 * np.log2(0.25) + 0.75 * np.log2(0.75))
    assert [m.information for m in wholes] == pytest.approx([entropy] * 4)


def test_a_weight_never_rises() -> None:
    """After ("a b", ab) is taken out, a and b tell all that is left, and had told less before."""
    found = morphemes([["a"], ["b"], ["a", "b"]], [{"a"}, {"b"}, {"ab"}])
    assert found[0][:2] == (("a", "b"), ("ab",))
    assert [m.information for m in found] == pytest.approx([0.918296, 0.251629, 0.251629], abs=1e-5)


def test_a_form_is_taken_out_where_it_costs_others_least() -> None:
    """'x y' stands twice in the last sentence, the second time within 'z x y', which means B."""
    sentences = [["x", "y"], ["z", "x", "y"], ["z", "x", "y"], ["w"], ["x", "y", "z", "x", "y"]]
    found = morphemes(sentences, [{"A"}, {"B"}, {"B"}, {"C"}, {"A", "B"}])
    assert ("z x y", "B") in pairs(found)
    assert ("x y", "A") in pairs(found)
    (b,) = (m for m in found if m.meaning == ("B",) and m.form == ("z", "x", "y"))
    assert b.together == 3


def test_no_form_arises_across_a_gap() -> None:
    found = morphemes([["a", "m", "b"], ["m"], ["c"]] * 4, [{"1", "2"}, {"1"}, {"3"}] * 4)
    assert ("a", "b") not in {m.form for m in found}


def test_synonyms_and_homonyms() -> None:
    sentences = [["a"], ["b"], ["c"], ["c"]] * 5
    meanings = [{"x"}, {"x"}, {"y"}, {"z"}] * 5
    assert pairs(morphemes(sentences, meanings)) == {("a", "x"), ("b", "x"), ("c", "y"), ("c", "z")}


def test_sets_of_tokens_have_no_order() -> None:
    sentences = [["a", "q", "b"], ["b", "a"], ["q"], ["a"], ["b"]] * 3
    meanings = [{"x"}, {"x"}, {"n"}, {"n"}, {"n"}] * 3
    assert ("a b", "x") in pairs(morphemes(sentences, meanings, ordered=False))
    assert morphemes(sentences, meanings)[0].form != ("a", "b")


def test_sentences_shuffled_over_inputs_tell_nothing_sure() -> None:
    sentences, meanings = corpus({name: [name] for name in NAMES})
    order = np.random.default_rng(1).permutation(len(sentences))
    found = morphemes([sentences[k] for k in order], meanings)
    assert all(m.information < 0.05 for m in found)
    assert min(m.information for m in morphemes(sentences, meanings)) > 0.5


def test_edges() -> None:
    assert morphemes([], []) == []
    assert morphemes([[], []], [{"a"}, {"b"}]) == []
    assert morphemes([["a"], ["a"]], [{"x"}, {"x"}]) == []  # nothing to tell apart
    with pytest.raises(ValueError, match="1 sentences cannot have 2 meanings"):
        morphemes([["a"]], [{"x"}, {"y"}])

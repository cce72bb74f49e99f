"""The comparison with a language of thought, where the answer is known: grammars read by perfect
listeners.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import one_hot

from plot_attractors.data import Batch, HierarchicalBinaryVectors
from plot_attractors.evaluation import probes
from plot_attractors.language_of_thought.listening import all_classes, listen
from plot_attractors.runs import Run, fit, registry
from plot_attractors.runs.analyze import analyze

NAME = "compare_language_of_thought"
COLUMNS = (
    "split,inputs,source,opponent,reading,measure,feature,value,low,high,floor,shuffled,n,reason"
)


@dataclass(eq=False)
class Untrained:
    """What the analysis asks of a run."""

    model: Any
    data: Any
    seed: int = 0


class Listener:
    """Knows what each sentence tells: levels (S, D·3) of sentences (S, width)."""

    def __init__(self, sentences: Tensor, levels: Tensor) -> None:
        self.sentences, self.levels = sentences, levels

    def __call__(self, s: Tensor) -> Any:
        same = (s[..., None, :] == self.sentences).all(-1)
        assert bool(same.any(-1).all())
        return SimpleNamespace(flat=self.levels[same.int().argmax(-1)])


class InnerNodes(HierarchicalBinaryVectors):
    """A tree of which leaves are never shown."""

    def batch(self, n: int, split: str = "train") -> Batch:
        classes = self.train_classes[self.depths[self.train_classes] < self.depth]
        y = classes[torch.randint(len(classes), (n,))]
        return Batch(self.exemplars(y), y, self.paths[y])


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    loaded = registry.load("analyses", NAME)
    monkeypatch.setattr(loaded, "INPUTS", 300)
    monkeypatch.setattr(loaded, "_draw", lambda *_: None)
    monkeypatch.setattr(loaded, "save", lambda *_: None)
    return loaded


def grammar(data: HierarchicalBinaryVectors, program: str = "tree_grammar", **settings: str) -> Any:
    loaded = registry.load("models", program)
    return loaded.build(loaded.Config(depth=data.depth, bits=data.bits, **settings), data)


def analyzed(
    program: Any, monkeypatch: pytest.MonkeyPatch, run: Untrained, levels: Tensor, out: Path
) -> pd.DataFrame:
    """The summary, with listeners who know the levels that the model's sentences tell."""
    listener = Listener(run.model.sentences, levels)
    monkeypatch.setattr(probes, "feature_decoders", lambda run: (listener, listener))
    assert program.applies(run)
    program.analyze(run, out)
    table = pd.read_csv(
        out / "summary.csv", keep_default_na=False, na_values=[""], dtype={"reason": str}
    )
    assert ",".join(table.columns) == COLUMNS
    return table.fillna({"opponent": "", "feature": "", "reason": ""})


def only(table: pd.DataFrame, **keys: str) -> dict[Any, Any]:
    chosen = {
        "split": "train",
        "inputs": "all",
        "reading": "heard",
        "source": "learned",
        "feature": "",
    } | keys
    rows = table[np.logical_and.reduce([table[k] == v for k, v in chosen.items()])]
    assert len(rows) == 1, (keys, len(rows))
    return rows.iloc[0].to_dict()


def heard_levels(
    program: Any, model: Any, data: HierarchicalBinaryVectors, n: int = 8192
) -> Tensor:
    levels: Tensor = listen("", model, data.batch(n), data).readings["heard"].levels
    return levels


def test_a_grammar_is_itself(program: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = HierarchicalBinaryVectors(3, 16)
    model = grammar(data)
    levels = heard_levels(program, model, data)
    table = analyzed(program, monkeypatch, Untrained(model, data), levels, tmp_path)
    js = only(table, measure="js", opponent="paths", feature="node")
    assert js["value"] == pytest.approx(js["floor"], abs=0.005)
    assert js["low"] < js["value"] < js["high"]
    assert js["shuffled"] > 10 * js["value"]
    energy = only(table, measure="energy", opponent="paths")
    assert abs(energy["floor"]) < 0.01
    assert energy["value"] < 0.02 * energy["shuffled"]  # the listeners have heard other inputs
    tv = only(table, measure="translation_tv", opponent="paths")
    assert tv["value"] == pytest.approx(tv["floor"], abs=0.02)
    unsaid = only(table, measure="unsaid", opponent="paths")
    assert unsaid["value"] == pytest.approx(
        only(table, measure="unsaid", source="paths")["value"], abs=0.05
    )
    assert only(table, measure="unsaid_tv", opponent="paths")["value"] < 0.02
    residual = only(table, measure="residual", opponent="paths")["value"]
    assert residual < 0.01
    assert only(table, measure="residual", opponent="leaf paths")["value"] > 5 * residual
    assert only(table, measure="residual_dealt", opponent="paths")["value"] > 0.5
    assert only(table, measure="js", opponent="second listener", feature="node")["value"] == 0
    for other in ("node", "slots"):
        assert only(table, measure="js", opponent=other, feature="node")["value"] > 3 * js["value"]

    translations = pd.read_csv(tmp_path / "translations.csv")
    mine = translations[(translations["opponent"] == "paths") & (translations["split"] == "train")]
    assert mine["usage"].sum() == pytest.approx(1)
    assert mine["usage"].is_monotonic_decreasing
    letters = {
        "∅": "···",
        "A": "L··",
        "B": "R··",
        "A·D": "LR·",
        "B·C": "RL·",
        "A·C·F": "LLR",
        "B·D·E": "RRL",
    }
    own = {
        model.language.name(s): p for s, p in zip(model.sentences, patterns(model, 3), strict=True)
    }
    assert {name: own[name] for name in letters} == letters
    assert (mine["expression"] == mine["sentence"].map(own)).all()
    assert (mine["unsaid"] == mine["expression"].str.count("·")).all()

    laws = pd.read_csv(tmp_path / "specificity.csv")
    columns = ["learned", "grammar", "geometric"]
    sums = laws[laws["measure"] == "unsaid"].groupby(["split", "inputs", "opponent"])[columns].sum()
    assert np.allclose(sums, 1)
    exact = laws[(laws["opponent"] == "leaf paths") & (laws["measure"] == "unsaid")]
    assert np.allclose(exact["grammar"], exact["geometric"], atol=1e-6)


def patterns(model: Any, depth: int) -> list[str]:
    said = model.sentences.unflatten(-1, (depth, 2))
    return ["".join("L" if a else "R" if b else "·" for a, b in row) for row in said.tolist()]


def test_the_node_posterior_is_the_ceiling(
    program: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = HierarchicalBinaryVectors(3, 16)
    model = grammar(data, meaning="node")
    levels = (
        one_hot(data.paths + 1, 3).flatten(1).double()
    )  # in the order of the grammar's expressions, by depth
    order = [
        patterns(model, 3).index("".join("·LR"[b + 1] for b in path))
        for path in data.paths.tolist()
    ]
    by_expression = torch.empty_like(levels)
    by_expression[order] = levels
    monkeypatch.setattr(program, "DRAWS", 100)
    monkeypatch.setattr(probes, "INPUTS", 1000)
    table = analyzed(program, monkeypatch, Untrained(model, data), by_expression, tmp_path)
    for split in ("train", "held_out"):  # which this grammar knows, and this listener
        js = only(
            table, split=split, measure="js", opponent="node", reading="literal", feature="node"
        )
        assert js["value"] == pytest.approx(js["floor"], abs=0.005)
        for (
            level
        ) in data.label_names:  # who is given the words has heard them of held-out classes, too
            heard, literal = (
                only(
                    table,
                    split=split,
                    source="node",
                    measure="accuracy",
                    reading=reading,
                    feature=level,
                )["value"]
                for reading in ("heard", "literal")
            )
            assert heard > literal - 0.1
        for level in data.label_names:
            gap = only(table, split=split, measure="gap", opponent="node", feature=level)
            assert abs(gap["value"]) < 0.06
            one = only(table, split=split, measure="accuracy_one", feature=level)["value"]
            exact = only(
                table,
                split=split,
                source="node",
                measure="accuracy_one",
                reading="literal",
                feature=level,
            )
            assert one == pytest.approx(exact["value"], abs=0.03)
    assert only(table, measure="bits")["value"] == pytest.approx(0, abs=1e-9)


def test_hard_coded_paths_are_read_perfectly(
    program: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loaded = registry.load("models", "fully_compositional")
    config = loaded.Config(depth=3, bits=16)
    monkeypatch.setattr(probes, "INPUTS", 1000)
    data = loaded.load_data(config)
    model = loaded.build(config, data)
    nodes = one_hot(data.paths + 1, 3)
    model.sentences = nodes[..., 1:].flatten(1).float()
    table = analyzed(
        program, monkeypatch, Untrained(model, data), nodes.flatten(1).double(), tmp_path
    )
    for level in data.label_names:
        for measure in ("accuracy", "accuracy_one"):
            for inputs in ("all", "leaves"):
                assert only(table, measure=measure, feature=level, inputs=inputs)["value"] == 1
    assert (pd.read_csv(tmp_path / "translations.csv")["bits"] < 1e-9).all()


def test_no_leaves_no_number_but_a_reason(
    program: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = InnerNodes(2, 8)
    model = grammar(data)
    monkeypatch.setattr(program, "MOST_EXPRESSIONS", 8)
    monkeypatch.setattr(program, "INPUTS", 40)
    table = analyzed(
        program, monkeypatch, Untrained(model, data), heard_levels(program, model, data), tmp_path
    )
    assert set(table["split"]) == {"train"}
    leaves = table[table["inputs"] == "leaves"]
    assert leaves["value"].isna().all()
    assert (leaves["n"] == 0).all()
    assert (leaves["reason"] == "no exemplars of leaves among the inputs").all()
    assert table.loc[table["inputs"].eq("all") & table["reason"].eq(""), "value"].notna().all()
    slots = table[table["opponent"] == "slots"]
    assert slots["reason"].tolist() == ["9 expressions are too many"]


def test_other_data_is_refused(program: Any, tmp_path: Path) -> None:
    class Table:
        features, ordered = HierarchicalBinaryVectors(1, 2).features, False

        def feature_values(self, batch: Batch) -> Tensor:
            return batch.x

    data = HierarchicalBinaryVectors(1, 2)
    run: Any = Untrained(grammar(data), Table())
    assert not program.applies(run)
    with pytest.raises(ValueError, match="needs hierarchical binary vectors"):
        program.analyze(run, tmp_path)
    silent: Any = Untrained(object(), data)
    assert not program.applies(silent)
    with pytest.raises(ValueError, match="needs a model that says sentences"):
        program.analyze(silent, tmp_path)


def test_literal_leaf_paths_are_true_of_the_leaves_below_them(program: Any) -> None:
    data = HierarchicalBinaryVectors(2, 8)  # L, R, LL, LR, RL, RR
    found = listen("leaf paths", grammar(data, meaning="leaves"), data.batch(500), data)
    said = ["".join("·LR"[b + 1] for b in row) for row in found.branches.tolist()]
    nodes = found.readings["literal"].nodes
    assert nodes[said.index("L·")].tolist() == [0, 0, 0.5, 0.5, 0, 0]
    assert nodes[said.index("··")].tolist() == [0, 0, 0.25, 0.25, 0.25, 0.25]
    assert nodes[said.index("RL")].tolist() == [0, 0, 0, 0, 1, 0]


def test_all_classes_are_equally_likely_to_who_knows_them(program: Any) -> None:
    data = HierarchicalBinaryVectors(4, 16)
    mixed = all_classes(data, data.batch(30_000))
    share = torch.bincount(mixed.y, minlength=30) / 30_000
    assert len(mixed.y) == 30_000
    assert float((share - 1 / 30).abs().max()) < 0.006
    assert torch.equal(mixed.labels, data.paths[mixed.y])


def test_paths_go_through_their_prefixes(program: Any) -> None:
    data = HierarchicalBinaryVectors(2, 4)  # L, R, LL, LR, RL, RR
    below = program._below(data)
    assert below[0].tolist() == [1, 0, 1, 1, 0, 0]
    assert below[4].tolist() == [0, 0, 0, 0, 1, 0]


def test_on_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = fit("tree_grammar", preset="smoke", out=tmp_path / "run")
    program, drawn = registry.load("analyses", NAME), []
    monkeypatch.setattr(program, "INPUTS", 100)
    monkeypatch.setattr(
        program, "save", lambda figure, stem: drawn.append(stem.name)
    )  # rendering is slow, and
    monkeypatch.setattr(
        Figure, "draw_without_rendering", lambda figure: None
    )  # tested in test_analyses.py
    monkeypatch.setattr(probes, "UPDATES", 200)
    monkeypatch.setattr(probes, "INPUTS", 4000)
    (result,) = analyze(Run(path), [NAME])
    assert result.error is None, repr(result.error)
    assert drawn == ["compare", "held_out"]
    assert set(drawn) == set(program.CAPTIONS)
    assert {p.name for p in result.out.glob("*.csv")} == {
        "summary.csv",
        "translations.csv",
        "specificity.csv",
    }
    table = pd.read_csv(result.out / "summary.csv", keep_default_na=False, na_values=[""])
    table = table.fillna({"opponent": "", "feature": ""})
    found = {
        o: only(table, measure="js", opponent=o, feature="node")
        for o in ("node", "paths", "leaf paths", "slots")
    }
    assert found["paths"]["value"] < 0.1 * found["paths"]["shuffled"]
    assert min(found, key=lambda o: float(found[o]["value"])) == "paths"
    known = table[table["low"].notna()]
    assert (known["low"] <= known["high"]).all()

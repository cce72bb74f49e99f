"""What the trajectories analysis keeps for the interactive view, by an oracle whose trajectories
are known.
"""

from __future__ import annotations

import base64
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.data import read_table
from plot_attractors.data.dsprites import COLOURS
from plot_attractors.evaluation.sampling import is_listed
from plot_attractors.model.attractor import InputDecoder
from plot_attractors.plots.style import own_colours
from plot_attractors.report import viewer
from plot_attractors.report.viewer import Bits, Group, Label, Sentences, TrajectoryView
from plot_attractors.runs import registry, settings

program = registry.load("analyses", "trajectories")


class Oracle(nn.Module):
    """Dynamics that move to the nearest embedding at once."""

    def __init__(self, embeddings: Tensor) -> None:
        super().__init__()
        self.embeddings = embeddings

    def forward(self, z: Tensor, t: Tensor | float, context: Tensor | None = None) -> Normal:
        return Normal(self.embeddings[torch.cdist(z, self.embeddings).argmin(-1)], 1e-6)


@dataclasses.dataclass
class Untrained:
    """What the analysis asks of a run."""

    model: Any
    data: Any


@pytest.fixture
def oracle() -> Untrained:
    """The small model, with an oracle for dynamics, sure of its sentences, and a decoder that tells
    them apart.
    """
    hbv = registry.load("models", "hbv")
    config = settings.resolve({"model": hbv.Config}, {"model": hbv.PRESETS}, "smoke", {})["model"]
    data = hbv.load_data(config)
    model = hbv.build(config, data).eval()
    model.epsilon = 1e-3
    model.decoder = InputDecoder(model.latent, data.bits, layers=1)
    for parameter in model.decoder.parameters():
        parameter.data = torch.randn(parameter.shape)
    model.forward_dynamics = Oracle(model.embeddings().detach())
    return Untrained(model, data)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pictures, and few trajectories."""
    monkeypatch.setattr(program, "_animate", lambda *_: None)
    monkeypatch.setattr(program, "_draw", lambda *_: Figure())
    monkeypatch.setattr(program, "save", lambda *_: None)
    monkeypatch.setattr(program, "DRAWS", 6)
    monkeypatch.setattr(program, "VIEWED", 9)
    monkeypatch.setattr(program, "VIEWED_HELD_OUT", 7)


def words(text: str, *shape: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype="<u2").reshape(shape)


def unpacked(text: str, count: int, *shape: int) -> np.ndarray:
    packed = np.frombuffer(base64.b64decode(text), dtype=np.uint8).reshape(*shape, -1)
    return np.unpackbits(packed, axis=-1)[..., :count]


def view_of(run: Any, out: Path) -> dict[str, Any]:
    program.analyze(run, out)
    text = (out / viewer.FILE).read_text(encoding="utf-8")
    assert viewer.is_view(text)
    content: dict[str, Any] = json.loads(text)
    return content


def test_states_sentences_and_decoded_bits_are_the_oracles(
    oracle: Untrained, tmp_path: Path
) -> None:
    view = view_of(oracle, tmp_path)
    model = oracle.model
    times, n, names = view["times"], len(view["inputs"]), view["sentences"]["names"]
    assert times == [*range(2 * model.steps + 1)]
    points = words(view["points"], len(times), n, 2)
    places = words(view["sentences"]["points"], len(names), 2)
    read = words(view["read"], len(times), n)
    # from the first step on every state is at the embedding of the sentence that is read there
    assert np.abs(points[1:].astype(int) - places[read[1:]]).max() <= 1
    assert (read[1:] == read[1]).all()

    bits = view["bits"]["count"]
    assert bits == oracle.data.bits
    at_states = unpacked(view["bits"]["decoded"], bits, len(times), n)
    at_sentences = unpacked(view["sentences"]["bits"], bits, len(names))
    assert (
        at_states[1:] == at_sentences[read[1:]]
    ).mean() > 0.999  # noise of 1e-6 may move a logit across 0
    by_name = {model.language.name(s): s for s in model.language.sentences}
    s = torch.stack([by_name[name] for name in names])
    assert (at_sentences == (model.decoder(model.embed(s)).logits > 0).numpy()).all()


def test_groups_inputs_and_labels(oracle: Untrained, tmp_path: Path) -> None:
    view = view_of(oracle, tmp_path)
    model, data = oracle.model, oracle.data
    sizes = [group["end"] - group["start"] for group in view["groups"]]
    classes = min(program.CLASSES, int((data.depths[data.train_classes] == data.depth).sum()))
    assert sizes == [program.EXEMPLARS * classes, 6, 9, 7]
    assert view["groups"][-1]["end"] == len(view["inputs"])
    for group, split in zip(view["groups"][2:], data.splits, strict=True):
        members = {f"class {data.class_names[y]}" for y in getattr(data, f"{split}_classes")}
        assert set(view["inputs"][group["start"] : group["end"]]) <= members
    one = view["groups"][1]
    inputs = unpacked(view["bits"]["inputs"], data.bits, len(view["inputs"]))
    assert (inputs[one["start"] : one["end"]] == inputs[one["start"]]).all()

    labels = {
        label["name"]: [label["values"][code] for code in label["codes"]]
        for label in view["labels"]
    }
    tokens = [name for name in labels if name.startswith("token")]
    assert tokens == ["token A or B", "token C or D", "token E or F"]
    assert [label["of"] for label in view["labels"]] == ["input"] * (1 + data.depth) + [
        "sentence"
    ] * 4
    for i, name in enumerate(view["inputs"]):
        path = name.removeprefix("class ")
        assert labels["class"][i] == path
        branches = [
            {"left": "L", "right": "R", "none": ""}[labels[f"branch{d + 1}"][i]]
            for d in range(data.depth)
        ]
        assert "".join(branches) == path
        assert (
            "·".join(labels[token][i] for token in tokens if labels[token][i] != "none")
            == labels["sentence"][i]
        )
    read = words(view["read"], len(view["times"]), len(view["inputs"]))
    assert [view["sentences"]["names"][k] for k in read[model.steps]] == labels["sentence"]


def test_labels_of_a_table(oracle: Untrained, tmp_path: Path) -> None:
    rows = torch.bernoulli(torch.full((30, oracle.data.bits), 0.5)).int().numpy()
    frame = pd.DataFrame(rows, columns=[f"c{k}" for k in range(rows.shape[1])])
    frame["family"] = [("cats", "dogs", "")[k % 3] for k in range(len(frame))]
    frame.to_csv(tmp_path / "table.csv", index=False)
    view = view_of(
        Untrained(oracle.model, read_table(tmp_path / "table.csv", labels="family")), tmp_path
    )
    family = view["labels"][0]
    assert family["name"] == "family"
    for name, code in zip(view["inputs"], family["codes"], strict=True):
        assert (
            family["values"][code]
            == ("cats", "dogs", "missing")[int(name.removeprefix("row ")) % 3]
        )


def test_long_trajectories_keep_t_and_few_times(
    oracle: Untrained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "MOST_TIMES", 3)
    assert view_of(oracle, tmp_path)["times"] == [0, 7, 13, 20, 27, 33, 40]


def test_ranges_of_a_continuous_feature() -> None:
    column = torch.tensor([0.0, 1.0, 4.9, 9.99, 10.0, torch.nan])
    assert program._ranges(column) == ["0 to 2", "2 to 4", "4 to 6", "6 to 8", "8 to 10"]
    assert program._ranked(column).tolist()[:5] == [0, 0, 2, 4, 4]
    assert program._ranked(column)[5].isnan()


def test_a_view_keeps_its_numbers(tmp_path: Path) -> None:
    points = np.array([[[0.0, 5.0]], [[1.0, 5.0]], [[2.0, 5.0]]])
    TrajectoryView(
        steps=1,
        times=(0, 1, 2),
        points=points,
        shares=(0.6, 0.2),
        inputs=("</script>",),
        groups=(Group("all", 0, 1),),
        labels=(Label("kind", "input", ("a", "b"), np.array([1])),),
        sentences=Sentences(
            ("A", "∅"), np.array([[4.0, 5.0], [1.0, 5.0]]), np.array([True, False]), None
        ),
        read=np.array([[1], [1], [0]]),
        bits=Bits(np.array([[1, 0, 0, 0, 0, 0, 0, 0, 1]]), np.zeros((3, 1, 9))),
    ).save(tmp_path)
    content = json.loads((tmp_path / viewer.FILE).read_text(encoding="utf-8"))
    assert content["axes"] == [[0, 4], [5, 6]]  # an axis without range has one of 1
    assert words(content["points"], 3, 2).tolist() == [[0, 0], [16384, 0], [32768, 0]]
    assert words(content["sentences"]["points"], 2, 2).tolist() == [[65535, 0], [16384, 0]]
    assert words(content["read"], 3).tolist() == [1, 1, 0]
    assert base64.b64decode(content["bits"]["inputs"]) == b"\x80\x80"
    assert len(base64.b64decode(content["bits"]["decoded"])) == 6
    assert content["sentences"]["bits"] is None
    assert not viewer.is_view('{"format": "another"}')
    assert not viewer.is_view("nonsense")


@pytest.mark.parametrize(("side", "kept"), [(8, 8), (64, 32)])
def test_a_sheet_keeps_its_pictures(side: int, kept: int) -> None:
    images = np.random.default_rng(0).integers(0, 2, (33, 2, 3, 1, 1)) * np.ones((side, side))
    content = base64.b64decode(viewer._sheet(images).removeprefix("data:image/webp;base64,"))
    with Image.open(io.BytesIO(content)) as image:
        sheet = np.asarray(image.convert("RGB"))
    assert sheet.shape == (2 * kept, viewer.SHEET_COLUMNS * kept, 3)
    for place, (trajectory, k) in enumerate([(0, 0), (0, 1), (1, 0)]):
        assert (
            sheet[:kept, place * kept : (place + 1) * kept] == 255 * images[trajectory, k, :, 0, 0]
        ).all()
    assert (sheet[kept:, :kept] == 255 * images[32, 0, :, 0, 0]).all()
    assert (sheet[kept:, 2 * kept :] == 0).all()


def test_one_latent_dimension_has_no_plane(oracle: Untrained, tmp_path: Path) -> None:
    assert program.applies(oracle)
    oracle.model.latent = 1
    assert not program.applies(oracle)
    with pytest.raises(ValueError, match="a plane needs two"):
        program.analyze(oracle, tmp_path)


# Images, and sentences too many to list.


def images(tmp_path: Path, program: str, **overrides: Any) -> Untrained:
    """An untrained model of images, whose sentences the discretizer reads at random."""
    module = registry.load("models", program)
    small = {**module.PRESETS["smoke"], "steps": 3, "latent": 4, **overrides}
    config = module.Config(**small)
    data = module.load_data(config)
    model = module.build(config, data).eval().requires_grad_(False)
    model.sentence_readout = "discretizer"
    return Untrained(model, data)


@pytest.mark.parametrize("groups", [6, 40])
def test_a_view_of_sprites(tmp_path: Path, groups: int) -> None:
    run = images(tmp_path, "dsprites", groups=(1,) * groups, max_length=5)
    assert is_listed(run.model) is (groups == 6)
    assert program.applies(run)
    view = view_of(run, tmp_path)
    assert view["bits"] is None
    assert view["sentences"]["bits"] is None
    sizes = [group["end"] - group["start"] for group in view["groups"]]
    assert sizes == [7 * program.EXEMPLARS, 6, 9, 7, 7, 7]
    labels = {
        label["name"]: [label["values"][code] for code in label["codes"]]
        for label in view["labels"]
    }
    assert labels["colour"][: sizes[0]] == [
        colour for colour in COLOURS for _ in range(program.EXEMPLARS)
    ]
    own = {label["name"]: label["colours"] for label in view["labels"]}
    values = next(label["values"] for label in view["labels"] if label["name"] == "colour")
    assert dict(zip(values, own.pop("colour"), strict=True))["red"] == "#ff0000"
    assert not any(own.values())
    names, in_use = view["sentences"]["names"], view["sentences"]["in_use"]
    assert len(set(names)) == len(names) == len(in_use)
    assert any(in_use)
    assert view["pictures"]["names"][0] == "the input"
    assert view["pictures"]["sheet"].startswith("data:image/webp;base64,")
    read = words(view["read"], len(view["times"]), len(view["inputs"]))
    assert [names[k] for k in read[run.model.steps]] == labels["sentence"]
    table = pd.read_csv(tmp_path / "summary.csv")
    assert list(table["t"]) == [*range(16)] * 2
    assert (table["distance"] > 0).all()


def test_sentences_in_use_are_those_that_end_states_are_nearest_to(tmp_path: Path) -> None:
    run = images(tmp_path, "dsprites", groups=(1,) * 40, max_length=5, latent=40)
    model = run.model
    model.sentence_encoder.mean.weight.copy_(torch.eye(40))
    s = torch.zeros(3, 40)
    s[0, [1, 5]] = s[1, [7, 8, 9]] = s[2, 30] = 1
    z = torch.full((4, 5, 40), 50.0)
    z[3] = model.embed(s[[2, 0, 0, 1, 2]]) + 1e-4  # the states at T
    panel = program.Panel("", None, z, None, [], {})
    found = program._in_use(run, [panel, panel])
    assert [model.language.name(row) for row in found] == [
        model.language.name(s[k]) for k in (2, 0, 1)
    ]


def test_images_without_labels_have_exemplars_of_themselves(tmp_path: Path) -> None:
    np.save(tmp_path / "digits.npy", np.random.default_rng(0).random((30, 16, 16)))
    run = images(tmp_path, "images", images=tmp_path / "digits.npy")
    view = view_of(run, tmp_path)
    first = view["groups"][0]
    assert len(set(view["inputs"][: first["end"]])) == program.CLASSES
    assert len(view["groups"]) == 3
    assert {label["of"] for label in view["labels"]} == {"sentence"}


def test_exemplars_of_sprites_have_the_colours_of_their_sprites(tmp_path: Path) -> None:
    run = images(tmp_path, "dsprites")
    batch, colours, named = program._exemplars(run)
    assert [named[colour] for colour in colours] == [
        COLOURS[k] for k in batch.labels[:, 0].tolist()
    ]
    assert list(named.values()) == list(COLOURS)
    own = own_colours(run.data.features[0])
    assert set(named) == set(own)
    assert own[COLOURS.index("red")] == "#ff0000"
    assert own[COLOURS.index("white")] == "#9e9e9e"
    assert own_colours(run.data.features[1]) == ()


def test_exemplars_are_rows_where_the_first_label_is_missing_everywhere(tmp_path: Path) -> None:
    frame = pd.DataFrame(np.eye(8, dtype=int), columns=[f"c{k}" for k in range(8)])
    frame["family"] = ["", *["cat"] * 7]
    frame.to_csv(tmp_path / "table.csv", index=False)
    data = read_table(tmp_path / "table.csv", labels=["family"])
    data.labels[:] = -1
    batch, colours, named = program._exemplars(Untrained(None, data))
    assert named == {}
    assert set(batch.y.tolist()) == set(range(8))
    assert len(colours) == len(batch.y)
    assert len(set(colours)) == 8

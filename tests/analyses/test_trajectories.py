"""What the trajectories analysis keeps for the interactive view, by an oracle whose trajectories
are known.
"""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from plot_attractors.data.sprites import COLOURS
from plot_attractors.report import viewer
from plot_attractors.runs import registry

from ..small import ToNearest, Untrained, random_decoder, untrained

program = registry.load("analyses", "trajectories")

SMALL: dict[str, int] = {"draws": 6, "viewed": 9, "viewed_held_out": 7}


@pytest.fixture
def oracle() -> Untrained:
    """The small model, with dynamics that go to embeddings, sure of its sentences, and a decoder
    that tells them apart.
    """
    run = untrained()
    run.model.epsilon = 1e-3
    random_decoder(run)
    run.model.forward_dynamics = ToNearest(run.model.embeddings())
    return run


def uint16(text: str, *shape: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype="<u2").reshape(shape)


def unpacked(text: str, count: int, *shape: int) -> np.ndarray:
    packed = np.frombuffer(base64.b64decode(text), dtype=np.uint8).reshape(*shape, -1)
    return np.unpackbits(packed, axis=-1)[..., :count]


def view_of(run: Untrained) -> Any:
    text = program.measure(run, program.Config(**SMALL))[viewer.FILE]
    assert viewer.is_view(text)
    return json.loads(text)


def labels_of(view: dict[str, Any]) -> dict[str, list[str]]:
    """The value of each label, for each trajectory."""
    return {
        label["name"]: [label["values"][code] for code in label["codes"]]
        for label in view["labels"]
    }


def test_states_sentences_and_decoded_bits_are_the_oracles(oracle: Untrained) -> None:
    tables, model = program.measure(oracle, program.Config(**SMALL)), oracle.model
    view, planes = json.loads(tables[viewer.FILE]), tables["planes.npz"]
    times, n, names = view["times"], len(view["inputs"]), view["sentences"]["names"]
    assert times == [*range(2 * model.steps + 1)]
    points = uint16(view["points"], len(times), n, 2)
    low, high = np.array(view["axes"]).T
    panels = np.concatenate([planes["A"], planes["B"]], 1)
    shown = low + points[: model.steps + 1, : panels.shape[1]] / 65535 * (high - low)
    np.testing.assert_allclose(shown, panels, atol=1e-3)
    places = uint16(view["sentences"]["points"], len(names), 2)
    read = uint16(view["read"], len(times), n)
    # from the first step on every state is at the embedding of the sentence that is read there
    assert np.abs(points[1:].astype(int) - places[read[1:]]).max() <= 1
    assert (read[1:] == read[1]).all()

    bits = view["bits"]["count"]
    assert bits == oracle.data.bits
    at_states = unpacked(view["bits"]["decoded"], bits, len(times), n)
    at_sentences = unpacked(view["sentences"]["bits"], bits, len(names))
    # noise of 1e-6 may move a logit across 0
    assert (at_states[1:] == at_sentences[read[1:]]).mean() > 0.999
    by_name = {model.language.name(s): s for s in model.language.sentences}
    s = torch.stack([by_name[name] for name in names])
    assert (at_sentences == (model.decoder(model.embed(s)).logits > 0).numpy()).all()


def test_groups_inputs_and_labels(oracle: Untrained) -> None:
    view = view_of(oracle)
    model, data = oracle.model, oracle.data
    sizes = [group["end"] - group["start"] for group in view["groups"]]
    classes = min(10, int((data.depths[data.train_classes] == data.depth).sum()))
    assert sizes == [5 * classes, 6, 9, 7]
    for group, split in zip(view["groups"][2:], data.splits, strict=True):
        members = {f"class {data.class_names[y]}" for y in getattr(data, f"{split}_classes")}
        assert set(view["inputs"][group["start"] : group["end"]]) <= members
    one = view["groups"][1]
    inputs = unpacked(view["bits"]["inputs"], data.bits, len(view["inputs"]))
    assert (inputs[one["start"] : one["end"]] == inputs[one["start"]]).all()

    labels = labels_of(view)
    for i, name in enumerate(view["inputs"]):
        path = name.removeprefix("class ")
        assert labels["class"][i] == path
        names = {"left": "L", "right": "R", "none": ""}
        assert "".join(names[labels[f"branch{d + 1}"][i]] for d in range(data.depth)) == path
    read = uint16(view["read"], len(view["times"]), len(view["inputs"]))
    assert [view["sentences"]["names"][k] for k in read[model.steps]] == labels["sentence"]


def test_a_sheet_keeps_its_pictures() -> None:
    side, kept = 64, 32
    images = np.random.default_rng(0).integers(0, 2, (33, 2, 3, 1, 1)) * np.ones((side, side))
    content = base64.b64decode(viewer._sheet(images).removeprefix("data:image/webp;base64,"))
    with Image.open(io.BytesIO(content)) as image:
        sheet = np.asarray(image.convert("RGB"))
    assert sheet.shape == (2 * kept, viewer.SHEET_COLUMNS * kept, 3)
    for place, (trajectory, k) in enumerate([(0, 0), (0, 1), (1, 0)]):
        picture = sheet[:kept, place * kept : (place + 1) * kept]
        assert (picture == 255 * images[trajectory, k, :, 0, 0]).all()
    assert (sheet[kept:, :kept] == 255 * images[32, 0, :, 0, 0]).all()
    assert (sheet[kept:, 2 * kept :] == 0).all()


def test_a_view_of_sprites_whose_many_sentences_the_discretizer_reads_at_random() -> None:
    many = {"language.groups": (1,) * 40, "language.max_length": 5}
    run = untrained("dsprites", steps=3, latent=4, readout="discretizer", **many)
    view = view_of(run)
    assert view["bits"] is None
    assert view["sentences"]["bits"] is None
    sizes = [group["end"] - group["start"] for group in view["groups"]]
    assert sizes == [7 * 5, 6, 9, 7, 7, 7]
    labels = labels_of(view)
    assert labels["colour"][: sizes[0]] == [colour for colour in COLOURS for _ in range(5)]
    own = {label["name"]: label["colours"] for label in view["labels"]}
    assert "#ff0000" in own.pop("colour")
    assert not any(own.values())
    names, in_use = view["sentences"]["names"], view["sentences"]["in_use"]
    assert len(set(names)) == len(names) == len(in_use)
    assert view["pictures"]["names"][0] == "the input"
    read = uint16(view["read"], len(view["times"]), len(view["inputs"]))
    assert [names[k] for k in read[run.model.steps]] == labels["sentence"]

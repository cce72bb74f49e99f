"""Choices and times of known processes."""

from __future__ import annotations

import pytest
import torch
from pyro.distributions import Normal

from plot_attractors.analysis.responses import Choices, right, shares
from plot_attractors.model.attractor import Encoding
from plot_attractors.runs import registry

from ..small import ToNearest, measured, untrained

program = registry.load("analyses", "behaviour")


def test_shares_and_right_choices_leave_out_what_did_not_respond() -> None:
    choice = torch.tensor([[0, 1, 1, -1], [-1, -1, -1, -1]])
    assert shares(choice, 2)[0].tolist() == pytest.approx([1 / 3, 2 / 3])
    assert shares(choice, 2)[1].isnan().all()
    assert right(choice, torch.tensor([1, 0]))[0].nansum() == 2
    assert right(choice, torch.tensor([-1, 0])).isnan().all()


def test_dynamics_that_jump_are_not_moved_by_small_pushes_and_large_ones_move_them() -> None:
    run = untrained()
    model = run.model
    model.epsilon = 1e-3
    with torch.no_grad():
        for parameter in model.sentence_encoder.parameters():
            parameter.normal_()
    model.forward_dynamics = ToNearest(model.embeddings())
    z0 = model.embeddings()
    e = Encoding(Normal(z0, 1.0), z0)
    first = Choices("first", 0, ("a", "b"), lambda s: s[:, 0].long())
    table = program.by_push(model, e, first, 4)
    changed = table.groupby(["direction", "size"])["changed"].mean()
    for direction in ("random", "other choice"):
        assert changed[direction, 0.0] == 0
        assert changed[direction, 2.0] > changed[direction, 0.5]
    assert changed["other choice", 2.0] > changed["random", 2.0]


def test_the_way_to_another_choice() -> None:
    z, embedding = torch.zeros(2, 2), torch.tensor([[1.0, 0.0], [0.0, 3.0], [0.0, -2.0]])
    way = program.nearest_other(z, torch.tensor([0, 1]), embedding, torch.tensor([0, 1, 1]))
    assert way.tolist() == [[0.0, -1.0], [1.0, 0.0]]


def test_jumps_are_told() -> None:
    run = untrained()
    run.model.epsilon = 1e-3
    run.model.forward_dynamics = ToNearest(run.model.embeddings())
    tables = measured("behaviour", run, inputs=10, draws=8, decoder_inputs=200, decoder_updates=20)
    summary = tables["summary.csv"].set_index("statistic")["value"]
    assert (summary["responded"], summary["at_once"]) == (1, 1)


def test_an_unknown_feature_is_refused() -> None:
    with pytest.raises(ValueError, match="no categorical feature 'x': they have branch1"):
        program.measure(untrained(), program.Config(feature="x"))

"""Responses of trajectories whose course is known."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.testing import assert_close

from plot_attractors.analysis.responses import (
    HOLD,
    Choices,
    exact_choices,
    respond,
    simulate,
    trials,
)

from ..attractors import T, tiny


def path(model: object, rows: list[int], away: set[int] = frozenset()) -> Tensor:  # type: ignore[assignment]
    """(len, 1, d) states at embeddings of these rows, but far from all at some times."""
    z = model.embeddings()[rows][:, None]  # type: ignore[attr-defined]
    for t in away:
        z[t] += 100.0
    return z


def test_a_response_is_the_first_time_at_an_embedding_whose_sentence_lasts() -> None:
    model = tiny()
    model.epsilon = 1e-3
    long = [3, *[5] * (HOLD + 4)]
    assert float(respond(model, path(model, long)).time) == 1
    assert int(respond(model, path(model, long)).choice) == 5
    assert float(respond(model, path(model, long, {0, 1, 2})).time) == 3
    assert respond(model, path(model, [3, 5] * HOLD)).time.isnan().all()
    assert respond(model, path(model, [5] * HOLD)).time.isnan().all()  # none can have lasted


def test_a_choice_may_last_while_sentences_change() -> None:
    model = tiny()
    model.epsilon = 1e-3
    same = respond(model, path(model, [3, 5] * HOLD), lambda s: torch.zeros(len(s)).long())
    assert (float(same.time), int(same.choice)) == (0, 0)


def test_a_simulation_may_begin_elsewhere_or_go_on_from_a_later_time() -> None:
    model, z = tiny(), torch.randn(4, 3)
    trajectories = []
    for start in (None, z):
        torch.manual_seed(0)
        trajectories.append(simulate(model, z, T, start=start))
    assert_close(*trajectories)
    for state in (model.at_rest(z), trajectories[0][3]):
        to = model.transition(state, 3.0, z)
        torch.manual_seed(0)
        noise = torch.randn(state.shape)
        torch.manual_seed(0)
        later = simulate(model, z, 1, start=state, time=3)
        assert_close(later[1], to.mean + to.stddev * noise)


def test_trials_that_are_drawn_again_by_their_weights_are_nearer_to_the_posterior() -> None:
    """Where every path has about as much weight as others, thirty are enough."""
    torch.manual_seed(0)
    model = tiny({"epsilon": 1.0, "steps": 2}).requires_grad_(False)
    e = model.encode(torch.randint(2, (1, 8)).float())[torch.zeros(400, dtype=torch.long)]
    p = model.posterior.log_prob(e.distribution)[0].exp()
    off = []
    for resample in (1, 30):
        z, s = trials(model, e, resample)
        assert z.shape == (2 * model.steps + 1, 400, model.latent + model.memory.size)
        share = torch.bincount(model.language.row(s), minlength=len(p)) / 400
        off.append(float((share - p).abs().sum() / 2))
    assert off[1] < 0.15 < 0.3 < off[0]


def test_exact_choices_are_the_posterior_summed() -> None:
    model = tiny()
    q = model.encode(torch.randint(2, (5, 8)).float()).distribution
    chosen = Choices("first", 0, ("without", "with"), lambda s: s[:, 0].long())
    p = model.posterior.log_prob(q).exp()
    expected = (p * model.sentences[:, 0]).sum(-1).double()
    assert_close(exact_choices(model, q, chosen)[:, 1], expected, rtol=1e-5, atol=1e-6)

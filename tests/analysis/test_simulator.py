"""Participants: what each parameter does, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from plot_attractors.analysis.simulator import PARAMETERS, Simulator, program, summaries
from plot_attractors.runs import Run

NUMBER = {name: k for k, name in enumerate(PARAMETERS)}


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    return Simulator(Run("pretrained:hbv"), ("L", "R"), points=5)


def mean(simulator: Simulator, trials: int = 40, **changed: float) -> tuple[torch.Tensor, ...]:
    """Share of b, and mean time, of each morph."""
    theta = simulator.own.clone()
    for name, value in changed.items():
        theta[NUMBER[name]] = value
    torch.manual_seed(0)
    choice, time = simulator(theta[None], trials)[0].unbind(-1)
    return choice.mean(-1), time.mean(-1)


def test_choices_go_from_one_end_to_the_other(simulator: Simulator) -> None:
    p, time = mean(simulator)
    assert (float(p[0]), float(p[-1])) == (0, 1)
    assert (time >= 0.2 + 0.05).all()


def test_what_each_parameter_does(simulator: Simulator) -> None:
    p, time = mean(simulator)
    assert mean(simulator, noise=2.0)[1].mean() > time.mean()
    assert mean(simulator, beta=0.5)[1].mean() > time.mean()
    assert mean(simulator, threshold=4.0)[1].mean() < time.mean()
    assert mean(simulator, deadline=6.0)[1].max() <= 0.2 + 0.05 * 7
    assert torch.allclose(mean(simulator, t0=0.5)[1], time + 0.3)
    assert torch.allclose(mean(simulator, step=0.1)[1], 2 * time - 0.2)
    assert mean(simulator, bias=0.5)[0].mean() > p.mean() > mean(simulator, bias=-0.5)[0].mean()


def test_the_model_itself_is_the_analysis_of_responses(simulator: Simulator) -> None:
    """With its own parameters a participant is `simulate` and `respond`."""
    from plot_attractors.analysis.responses import respond, simulate

    torch.manual_seed(1)
    trials = simulator(simulator.own[None], 1000)[0]
    z0 = simulator.z0.repeat_interleave(1000, 0)
    result = respond(simulator.model, simulate(simulator.model, z0), simulator.category)
    time = result.time.view(5, -1).nanmean(-1)
    steps = (trials[..., 1].mean(-1) - 0.2) / 0.05 - 0.5
    assert torch.allclose(steps, time, atol=0.6)
    choice = (result.choice == 1).float().view(5, -1).mean(-1)
    assert torch.allclose(trials[..., 0].mean(-1), choice, atol=0.12)


def test_summaries() -> None:
    trials = torch.zeros(3, 2, 10, 2)
    trials[0, 1, :, 0] = 1
    trials[:, :, :, 1] = torch.arange(10.0)
    x = summaries(trials)
    assert x.shape == (3, 8)
    assert x[0].tolist() == pytest.approx([0, 0.9, 4.5, 8.1, 1, 0.9, 4.5, 8.1])


@pytest.mark.parametrize(
    ("theta", "sentence"),
    [
        (torch.zeros(5), "parameters are rows of noise, beta"),
        (torch.zeros(1, 4), "parameters are rows of noise, beta"),
        (torch.zeros(1, 7), "beyond their bounds: noise 0.5 to 2"),
    ],
)
def test_parameters_that_make_no_sense(
    simulator: Simulator, theta: torch.Tensor, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        simulator(theta)


def test_the_program_of_an_exported_simulator(tmp_path: Path) -> None:
    scope: dict[str, object] = {}
    exec(program(Run("pretrained:hbv"), ("L", "RR"), 3), scope)
    made = scope["simulator"]
    assert isinstance(made, Simulator)
    assert made.names == ("L", "RR")
    assert made(made.own[None], 2).shape == (1, 3, 2, 2)

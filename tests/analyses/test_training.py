"""Curves of a training: which have a logarithmic axis."""

from __future__ import annotations

import pandas as pd

from plot_attractors.runs import registry

program = registry.load("analyses", "training")


def test_losses_over_decades_have_a_log_axis_and_k_hat_never() -> None:
    curves = pd.DataFrame({
        "step": [1, 2], "phase": "policy", "cycle": 0, "seconds": [1.0, 2.0],
        "m_loss": [1.0, 100.0], "token_loss": [1.0, 2.0], "policy_k_hat": [0.1, 5.0],
    })  # fmt: skip
    summary = pd.DataFrame({"phase": ["policy"], "updates": [2]})
    figure = program.draw({"curves.csv": curves, "summary.csv": summary})["training"]
    scales = {axes.get_title(): axes.get_yscale() for axes in figure.axes[:3]}
    assert scales == {"m loss": "log", "token loss": "linear", "policy k hat": "linear"}

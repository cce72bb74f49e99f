"""The E-step by sleep: dynamics and discretizer learn from sentences of the posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from plot_attractors.gflownet.trajectories import Trajectories, score_backward
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.processes import per_rank
from plot_attractors.training.schedule import At, clipped_update, late_cosine, set_lr
from plot_attractors.training.sleep import Sleep, bridge_of, sleep_loss
from plot_attractors.training.stay import OffSentence

__all__ = ["EStep"]

WAKE_EVERY = 8  # updates of the forward dynamics for one of the backward dynamics
WAKE_TRAJECTORIES = 64  # in an update of the backward dynamics
DISCRETIZER_STATES = 256  # in an update of the discretizer


class EStep:
    """Updates of the dynamics and the discretizer.

    Args:
        model, inputs: the model, and n → n training inputs.
        pairs: n → n inputs and a sentence of P(s | x) each.
        sleep: of bridges to these sentences.
        off: inputs → states off all sentences, or None (`sleep.off_sentence`).
        lr: Adam's.
        discretizer_every: updates of the forward dynamics for one of the discretizer.
    """

    def __init__(
        self,
        model: AttractorModel,
        inputs: Callable[[int], Tensor],
        pairs: Callable[[int], tuple[Encoding, Tensor]],
        sleep: Sleep,
        off: Callable[[Encoding], OffSentence | None],
        lr: float,
        discretizer_every: int,
    ) -> None:
        self.model, self.inputs, self.pairs, self.off = model, inputs, pairs, off
        self.sleep, self.lr, self.discretizer_every = sleep, lr, discretizer_every
        self.bridge = bridge_of(model, sleep)
        self.of_discretizer = list(model.discretizer.parameters())
        self.theta, self.discretizer = (
            torch.optim.Adam(p, lr, fused=True) for p in (model.theta, self.of_discretizer)
        )

    @property
    def state(self) -> dict[str, Any]:
        """What must survive a stop."""
        return {"theta": self.theta, "discretizer": self.discretizer}

    def update(self, at: At, final: bool) -> dict[str, float]:
        """Sleep: forward dynamics on bridges. Wake: backward dynamics on forward trajectories.

        In a final E-step the learning rate falls in the second half.
        """
        model, metrics = self.model, {}
        if final:
            set_lr(late_cosine(at.progress) * self.lr, self.theta, self.discretizer)
        e, s = self.pairs(per_rank(self.sleep.trajectories))
        loss = sleep_loss(model, self.bridge, e, s, self.sleep, self.off)
        metrics["sleep_loss"] = float(loss.detach())
        if at.position % WAKE_EVERY == 0:
            n = per_rank(WAKE_TRAJECTORIES)
            e = model.encode(self.inputs(n))
            forward = Trajectories(model.whole_trajectories(e.z0), e.z0)
            log_pb = score_backward(model.backward_step, forward)  # 0 for the step to z0: given
            wake = -log_pb.sum() / (n * max(model.steps - 1, 1))
            loss, metrics["wake_loss"] = loss + wake, float(wake.detach())
        clipped_update(self.theta, model.theta, loss)
        if at.position % self.discretizer_every == 0:
            e, s = self.pairs(per_rank(DISCRETIZER_STATES))
            nll = -model.discretizer(model.terminal_kernel(s).sample(), e.z0).log_prob(s).mean()
            clipped_update(self.discretizer, self.of_discretizer, nll)
            metrics["discretizer_sleep_loss"] = float(nll.detach())
        return metrics

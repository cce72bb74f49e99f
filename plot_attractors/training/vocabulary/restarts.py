"""Random restarts of the tokens: the one with the greatest evidence is kept."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.model.attractor import AttractorModel
from plot_attractors.training.sentences import Sentences

__all__ = ["Restarts"]


class Restarts:
    """Of sentence encoders that learned on the same fixed encoder, the one whose mean log Z is
    greatest: log Z(x) = log Σ_s R(s; x), nats, which EM of sentences raises.

    `log_z` has one value a restart, all of the same inputs `q` (μ and σ, (n, d)).
    """

    def __init__(self) -> None:
        self.log_z = list[float]()
        self.best: dict[str, dict[str, Tensor]] = {}
        self.q: tuple[Tensor, ...] = ()

    @torch.no_grad()
    def add(self, model: AttractorModel, q: Normal, sentences: Sentences) -> float:
        """Judges the tokens of a model, at the costs that their shares say, by inputs with
        P(z0 | x) = q, or those of the first restart; returns the mean log Z.
        """
        self.q = self.q or (q.loc, q.scale)
        loc, scale = (part.to(model.device) for part in self.q)
        q = Normal(loc, scale)
        sentences.fit_costs(q)
        self.log_z.append(float(sentences.log_z(q).mean()))
        if self.log_z[-1] == max(self.log_z):
            self.best = {n: deepcopy(part.state_dict()) for n, part in _parts(model).items()}
        return self.log_z[-1]

    def take_best(self, model: AttractorModel) -> None:
        """Gives the model the tokens, and the token costs, of the best restart."""
        for name, part in _parts(model).items():
            part.load_state_dict(self.best[name])

    def state_dict(self) -> dict[str, Any]:
        return {"log_z": self.log_z, "best": self.best, "q": self.q}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.log_z, self.best = list(state["log_z"]), dict(state["best"])
        self.q = tuple(state["q"])


def _parts(model: AttractorModel) -> dict[str, torch.nn.Module]:
    return {"sentence_encoder": model.sentence_encoder, "prior": model.prior}

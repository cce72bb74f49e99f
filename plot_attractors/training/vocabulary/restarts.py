"""Random restarts of the tokens: a score of each, and the best of several, axis by axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from pyro.distributions import Normal
from scipy.stats import spearmanr
from torch import Tensor

from plot_attractors.model.attractor import AttractorModel
from plot_attractors.training.sentences import Sentences
from plot_attractors.training.vocabulary.rotate import used_axes
from plot_attractors.training.vocabulary.tokens import groups_of_tokens, unexplained_variance

__all__ = ["Restarts", "score", "similarity_to_states", "split_error"]

PAIRS = 200_000  # of inputs whose distances are compared, at most


@torch.no_grad()
def split_error(q: Normal, z_hat: Tensor) -> Tensor:
    """(d,) r / (p (1 − p)) of every used axis: how often the sentences, at z_hat (n, d), of inputs
    with P(z0 | x) = q = N(μ, σ²) err about the better half of the axis, by that bit's variance.

    The best split of μ in two leaves the least variance on its sides (2-means, exact in one
    dimension); p is the share of inputs on one side, r that of inputs on the other side than ẑ_s,
    by the threshold on ẑ_s that errs least. Few states lie between two humps, so that
    `unexplained_variance` hardly tells a token of one hump from one of a hump and a half. Source:
    Otsu (1979), "A threshold selection method from gray-level histograms".
    """
    used, error, n = used_axes(q), torch.zeros_like(q.loc[0]), len(q.loc)
    if not len(used) or n < 2:
        return error
    mu, z_hat = q.loc[:, used].double(), z_hat[:, used].double()
    below = torch.arange(1, n, device=mu.device, dtype=mu.dtype)[:, None]  # inputs below a split
    ordered = mu.sort(0).values
    between = (ordered - mu.mean(0)).cumsum(0)[:-1].square() / (below * (n - below))
    above = (mu > ordered.gather(0, between.argmax(0, keepdim=True))).double()
    p = above.mean(0)

    order = z_hat.argsort(0)
    z_hat, above = z_hat.gather(0, order), above.gather(0, order)
    above_below = above.cumsum(0)[:-1]
    wrong = above_below + (n - below) - (above.sum(0) - above_below)
    equal = z_hat.diff(dim=0) <= 1e-5 * mu.std(0)  # equal embeddings stay on one side
    wrong = wrong.masked_fill(equal, math.inf)
    r = torch.minimum(wrong.min(0).values / n, torch.minimum(p, 1 - p))  # or all on one side
    error[used] = (r / (p * (1 - p)).clamp(min=1e-12)).to(error)
    return error


def similarity_to_states(q: Normal, s: Tensor) -> float:
    """Topographic similarity: Spearman's ρ of the Hamming distances of sentences s (n, width) and
    the distances Σ_a |μ_a − μ'_a| / sd[μ_a], over used axes, of inputs with P(z0 | x) = N(μ, σ²).

    0 where all sentences or states are equal. Over 200,000 pairs of inputs at most.
    """
    used, n = used_axes(q), len(s)
    if not len(used) or n < 3:
        return 0.0
    states = (q.loc / q.loc.std(0))[:, used].double().cpu().numpy()
    sentences = s.cpu().numpy().astype(bool)
    total = n * (n - 1) // 2
    if total <= PAIRS:
        i, j = np.triu_indices(n, 1)
    else:  # pair number k is (i, j) with k = j (j − 1) / 2 + i
        rng = np.random.default_rng(0).spawn(1)[0]
        k = np.sort(rng.choice(total, PAIRS, replace=False, shuffle=False))
        j = ((1 + np.sqrt(8.0 * k + 1)) / 2).astype(np.intp)
        i = k - j * (j - 1) // 2
    hamming, distance = np.zeros(len(i), int), np.zeros(len(i))
    for column in sentences.T:
        hamming += column[i] != column[j]
    for column in states.T:
        distance += np.abs(column[i] - column[j])
    if np.ptp(hamming) == 0 or np.ptp(distance) == 0:
        return 0.0
    return float(spearmanr(hamming, distance).statistic)


def score(q: Normal, s: Tensor, z_hat: Tensor) -> float:
    """What tokens tell that make sentences s (n, width), at z_hat (n, d), of inputs with
    P(z0 | x) = q: `similarity_to_states` − Σ `unexplained_variance` − Σ `split_error`, without
    labels of inputs.
    """
    unexplained, error = unexplained_variance(q, z_hat).sum(), split_error(q, z_hat).sum()
    return similarity_to_states(q, s) - float(unexplained) - float(error)


class Restarts:
    """Sentence encoders that learned on the same fixed encoder, their token costs and scores.

    `q` (μ and σ, (n, d)) are the inputs that all are scored on.
    """

    def __init__(self) -> None:
        self.scores, self.tokens = list[float](), list[dict[str, Tensor]]()
        self.costs = list[Tensor]()  # (tokens,) nats, where these are found from shares
        self.q: tuple[Tensor, ...] = ()

    @torch.no_grad()
    def add(self, model: AttractorModel, q: Normal, sentences: Sentences) -> float:
        """Keeps the tokens of a model, scored for inputs with P(z0 | x) = q; returns the score."""
        self.q = self.q or (q.loc, q.scale)
        q = self._inputs(model)
        sentences.fit_costs(q)
        s = sentences.draw(q, beta=1.0)
        encoder = model.sentence_encoder
        self.scores.append(score(q, s, encoder(s).loc))
        self.tokens.append({name: part.clone() for name, part in encoder.state_dict().items()})
        if model.prior.odds_cost:
            self.costs.append(model.prior.token_costs.clone())
        return self.scores[-1]

    @torch.no_grad()
    def combine(self, model: AttractorModel, sentences: Sentences) -> float:
        """Gives the model the tokens of the restarts that score best together; returns the score.

        P(s | x) factors along the axes, so that the tokens along one are nearly independent of the
        others. From the restart with the best score, the tokens of one axis after another are
        exchanged for those of a restart that has as many there, with the same exclusive groups,
        wherever that scores higher, until no exchange does. Where the exchanges together do not
        score higher, the best restart stays. Tokens of several restarts cost what their shares
        then say (`SentencePrior.fit`).
        """
        encoder: Any = model.sentence_encoder
        q = self._inputs(model)
        self.tokens = [  # of a checkpoint, they are on the CPU
            {name: part.to(model.device) for name, part in of.items()} for of in self.tokens
        ]
        samples = {}
        for k in range(len(self.tokens)):
            self._take(model, k)
            s = sentences.draw(q, beta=1.0)
            samples[k] = encoder.mean.axes, s, encoder(s).loc
        alone = {k: score(q, s, z_hat) for k, (_, s, z_hat) in samples.items()}
        first = max(alone, key=alone.__getitem__)
        axes, s, z_hat = samples[first]
        chosen = {name: part.clone() for name, part in self.tokens[first].items()}
        group = groups_of_tokens(model).to(axes)

        def tokens_along(of: Tensor, axis: int) -> tuple[Tensor, list[int]]:
            """The tokens of an axis, and which of them exclude each other."""
            tokens = (of == axis).nonzero()[:, 0]
            return tokens, group[tokens].unique(return_inverse=True)[1].tolist()

        best, better = alone[first], True
        while better:
            better = False
            for axis in axes.unique().tolist():
                here, shape = tokens_along(axes, axis)
                for k, (of, other_s, other_z_hat) in samples.items():
                    there, other_shape = tokens_along(of, axis)
                    if other_shape != shape:
                        continue
                    s_new, z_hat_new = s.clone(), z_hat.clone()
                    s_new[:, here], z_hat_new[:, axis] = other_s[:, there], other_z_hat[:, axis]
                    if (value := score(q, s_new, z_hat_new)) <= best:
                        continue
                    best, better, s, z_hat = value, True, s_new, z_hat_new
                    for layer in ("mean", "sd"):
                        weight, bias = f"{layer}.weight", f"{layer}.bias"
                        chosen[weight][:, here] = self.tokens[k][weight][:, there]
                        chosen[bias][axis] = self.tokens[k][bias][axis]
        encoder.load_state_dict(chosen)
        sentences.fit_costs(q)
        s = sentences.draw(q, beta=1.0)
        if (together := score(q, s, encoder(s).loc)) > alone[first]:
            return together
        self._take(model, first)
        return alone[first]

    def _inputs(self, model: AttractorModel) -> Normal:
        loc, scale = (part.to(model.device) for part in self.q)
        return Normal(loc, scale)

    def _take(self, model: AttractorModel, k: int) -> None:
        model.sentence_encoder.load_state_dict(self.tokens[k])
        if self.costs:
            model.prior.set_costs(self.costs[k])

    def state_dict(self) -> dict[str, Any]:
        return {"scores": self.scores, "tokens": self.tokens, "costs": self.costs, "q": self.q}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.scores, self.tokens = list(state["scores"]), list(state["tokens"])
        self.costs, self.q = list(state["costs"]), tuple(state["q"])

"""What tokens are worth that have learned for themselves, and the best of several trials of them,
axis by axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.evaluation.metrics import topographic_similarity
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.training.vocabulary.rotate import groups_of_tokens, share_missed, used_axes

__all__ = ["combine", "sides_missed", "similarity_to_states", "worth"]

State = Mapping[str, Tensor]  # of a sentence encoder


@torch.no_grad()
def sides_missed(q: Normal, z_hat: Tensor) -> Tensor:
    """(d,) r / (p (1 − p)) of every axis that the encoder uses: what sentences, z_hat (n, d), miss
    of the bit that says on which side of the best split in two a state lies, by the bit's variance,
    up to 1 / max(p, 1 − p) where nothing is said; 0 along the others.

    The best split of μ of inputs with P(z0 | x) = q = N(μ, σ²), (n, d), leaves the least variance
    on its two sides (2-means, exact in one dimension); p is the share of inputs on one side, and r
    of those whose side is not that of ẑ_s, by the threshold on ẑ_s that errs least. Few states lie
    between two humps, so that `share_missed` hardly depends on what is said of them; a word for the
    whole of one hump and the edge of the other is seen here. Source: Otsu (1979), "A threshold
    selection method from gray-level histograms".
    """
    used, missed = used_axes(q), torch.zeros_like(q.loc[0])
    n = len(q.loc)
    if not len(used) or n < 2:
        return missed
    mu, said = q.loc[:, used].double(), z_hat[:, used].double()
    first = torch.arange(1, n, device=mu.device, dtype=mu.dtype)[
        :, None
    ]  # how many lie below a split
    ordered = mu.sort(0).values
    between = (ordered - mu.mean(0)).cumsum(0)[:-1].square() / (first * (n - first))
    above = (mu > ordered.gather(0, between.argmax(0, keepdim=True))).double()
    p = above.mean(0)

    by_said = said.argsort(0)
    said, above = said.gather(0, by_said), above.gather(0, by_said)
    below = above.cumsum(0)[:-1]
    wrong = below + (n - first) - (above.sum(0) - below)
    wrong = wrong.masked_fill(
        said.diff(dim=0) <= 1e-5 * mu.std(0), math.inf
    )  # equal sentences stay together
    r = torch.minimum(
        wrong.min(0).values / n, torch.minimum(p, 1 - p)
    )  # or one side is said of all
    missed[used] = (r / (p * (1 - p)).clamp(min=1e-12)).to(missed)
    return missed


def similarity_to_states(q: Normal, s: Tensor) -> float:
    """Topographic similarity, Spearman's ρ, of sentences s (n, width) and states of inputs with
    P(z0 | x) = q = N(μ, σ²), (n, d): the distance of two sentences is that of Hamming, that of two
    states Σ_a |μ_a − μ'_a| / sd[μ_a] over the axes that the encoder uses. 0 where sentences or
    states are all the same.

    What a sentence tells says nothing of how alike those of like inputs are: two words for shades
    of one shape miss
    less than one does, and set sentences of that shape apart.
    """
    used = used_axes(q)
    if not len(used):
        return 0.0
    states = (q.loc / q.loc.std(0))[:, used].double().cpu().numpy()
    value = topographic_similarity(s.cpu().numpy(), states, categorical=[False] * len(used)).value
    return 0.0 if math.isnan(value) else value


def worth(q: Normal, s: Tensor, z_hat: Tensor) -> float:
    """What the tokens are worth that say sentences s (n, width), embedded at z_hat (n, d), of
    inputs with P(z0 | x) = q (n, d): `similarity_to_states` − Σ `share_missed` − Σ `sides_missed`.
    No label of an input takes part.
    """
    return (
        similarity_to_states(q, s)
        - float(share_missed(q, z_hat).sum())
        - float(sides_missed(q, z_hat).sum())
    )


@torch.no_grad()
def combine(
    model: AttractorModel, q: Normal, trials: Sequence[State], costs: Sequence[Tensor] = ()
) -> float:
    """Gives a model the tokens of several trials that are worth most together; what they are worth.

    A trial is the state of the sentence encoder once tokens have learned on an encoder that stays
    as it is. Those count where P(s | x) factors along the axes (`AttractorModel.factored`), so that
    what is said along one is nearly independent of the others; it must in one of them. From the
    trial that is worth most for inputs with P(z0 | x) = q (n, d), the words of one axis after
    another are exchanged for those of another trial that has as many there, and as many in each
    exclusive group, wherever this is worth more, until no exchange is. What sentences of limited
    length say along one axis does depend a little on the others: where all exchanges together turn
    out not to be worth more, the best trial stays as it is. Tokens of a trial cost what `costs` of
    it says, (tokens,) nats, needed where the model's prices are by share; words of several cost
    what their shares say (`AttractorModel.learn_prior`).
    """
    encoder: Any = model.sentence_encoder
    trials = [{name: part.to(model.device) for name, part in trial.items()} for trial in trials]

    def take(k: int) -> None:
        encoder.load_state_dict(trials[k])
        if costs:
            model.charge(costs[k])

    said = {}
    for k in range(len(trials)):
        take(k)
        if model.factored:
            s = model.posterior(q).sample()
            said[k] = encoder.mean.axes, s, encoder(s).loc
    alone = {k: worth(q, s, z_hat) for k, (_, s, z_hat) in said.items()}
    first = max(alone, key=alone.__getitem__)
    axes, s, z_hat = said[first]
    chosen = {name: part.clone() for name, part in trials[first].items()}
    group = groups_of_tokens(model).to(axes)

    def words(of: Tensor, axis: int) -> tuple[Tensor, list[int]]:
        """The tokens of an axis, and which of them exclude each other."""
        tokens = (of == axis).nonzero()[:, 0]
        return tokens, group[tokens].unique(return_inverse=True)[1].tolist()

    most, better = alone[first], True
    while better:
        better = False
        for axis in axes.unique().tolist():
            here, shape = words(axes, axis)
            for k, (of, its_s, its_z_hat) in said.items():
                there, its_shape = words(of, axis)
                if its_shape != shape:
                    continue
                s_new, z_hat_new = s.clone(), z_hat.clone()
                s_new[:, here], z_hat_new[:, axis] = its_s[:, there], its_z_hat[:, axis]
                if (value := worth(q, s_new, z_hat_new)) <= most:
                    continue
                most, better, s, z_hat = value, True, s_new, z_hat_new
                for layer in ("mean", "sd"):
                    chosen[f"{layer}.weight"][:, here] = trials[k][f"{layer}.weight"][:, there]
                    chosen[f"{layer}.bias"][axis] = trials[k][f"{layer}.bias"][axis]
    encoder.load_state_dict(chosen)
    model.learn_prior(q)
    s = model.posterior(q).sample()
    if (together := worth(q, s, encoder(s).loc)) > alone[first]:
        return together
    take(first)
    return alone[first]

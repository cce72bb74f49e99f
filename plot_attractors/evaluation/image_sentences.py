"""Sentences of images: those sampled of an input, decoded, and what each token stands for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.data import Batch, Feature, Labelled
from plot_attractors.evaluation.sampling import best_sentences, require_attractors
from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.runs import Run

BEAMS, KEPT = 32, 256  # of the search for best sentences, where the posterior does not factor
SIMULATED = 4096  # trajectories simulated at once
READ = 4  # sentences of an input in the figure
LISTED = 10  # sentences of an input in the table
BINS = 8  # of equal counts, of a continuous feature
HOLDERS, EXAMPLES = 64, 4  # sentences with a token: of its mean change, and shown
MOST_TOKENS = 40  # in the figure
SOURCES = ("sampler", "posterior")


class Sampled(NamedTuple):
    """What a model samples of the B inputs of a split.

    - ``batch``: the inputs, and ``q`` their P(z0 | x), (B, d);
    - ``s``: (B, draws, width) sentences read off their trajectories;
    - ``posterior``: (B, draws, width) sentences drawn ∝ R(s; x), exactly where the posterior
      factors, else among the best that a beam search visited;
    - ``best``: (B, width) the sentence of the highest reward, of all or of those visited;
    - ``log_z``: (B,) log Σ_s R(s; x), nats, over all sentences or those visited.
    """

    split: str
    batch: Batch
    q: Normal
    s: Tensor
    posterior: Tensor
    best: Tensor
    log_z: Tensor


@torch.no_grad()
def sample(model: AttractorModel, batch: Batch, split: str, draws: int) -> Sampled:
    """`draws` sentences of each input, off its trajectories and of its posterior, and its best."""
    s = torch.cat([model.describe(x, draws).s for x in batch.x.split(max(1, SIMULATED // draws))])
    q = model.encode(batch.x).distribution
    if model.posterior.factored:
        exact = model.posterior(q)
        assert isinstance(exact, FactoredSentences)
        posterior = exact.sample(torch.Size([draws])).transpose(0, 1)
        return Sampled(split, batch, q, s, posterior, exact.mode, exact.log_z)
    found = best_sentences(model, q, BEAMS, KEPT)
    posterior = torch.stack([found.sample() for _ in range(draws)], 1)
    return Sampled(split, batch, q, s, posterior, found.s[:, 0], found.log_z)


@torch.no_grad()
def measure_images(
    run: Run, inputs: int, held_out_inputs: int, draws: int, images: int
) -> dict[str, Any]:
    """Tables of images: `draws` sentences of `inputs` training images and of `held_out_inputs` of
    each other split, read off trajectories (``sampler``) and drawn ∝ R(s; x) (``posterior``).

    - ``sentences.csv``, of the inputs in the figure: the sentences read most often and the best
      one: share of the draws, probability, log R(s; x), nats; row: in the data set.
    - ``tokens.csv``: the share of the source's sentences of training inputs that hold a token, and
      R² of its presence on each feature, see `variance_explained`.
    - ``summary.csv``: means over inputs of the number of tokens; of the entropy, nats, of the
      sampler, estimated from the shares of its draws, so not above log(draws), and of the
      posterior; the share of the commonest sentence; how many different sentences in all; mean
      log R of a sentence and of the best one; root mean squared error of a pixel (0 to 1) as
      decoded from z0, from a sentence, and from the best one.
    - ``images.npz``, ``changes.npz``: the pictures in the figures.

    Raises ValueError for models without attractors.
    """
    model, data = require_attractors(run.model), run.data
    sampled = []
    for split in data.splits:
        batch = data.batch(inputs if split == "train" else held_out_inputs, split)
        sampled.append(sample(model, batch, split, draws))
    others = len(sampled) - 1  # their headings take the room of some images
    shown = [images, *[max(1, (images - max(others - 1, 0)) // others) for _ in sampled[1:]]]
    pairs = [(of, min(n, len(of.s))) for of, n in zip(sampled, shown, strict=True)]
    pictures = {of.split: _decode(model, of, n) for of, n in pairs}
    labels = {f"{of.split} labels": _labels(data, of.batch, n) for of, n in pairs}
    tokens = count_tokens(model, data, sampled[0])
    return {
        "summary.csv": pd.DataFrame([_summarise(model, of) for of in sampled]),
        "sentences.csv": pd.concat([_list_sentences(model, of, n) for of, n in pairs]),
        "images.npz": pictures | labels,
        "tokens.csv": list_tokens(model.language, tokens),
        "changes.npz": _changes(model, sampled[0], tokens),
    }


def _shares(language: Language, s: Tensor) -> Tensor:
    """(B, draws) the share of an input's draws that are the same sentence; s (B, draws, width)."""
    key = language.key(s)
    return (key[:, :, None] == key[:, None]).float().mean(-1)


def _summarise(model: AttractorModel, of: Sampled) -> dict[str, Any]:
    """A row of ``summary.csv``."""
    x, s, best, drawn, q = of.batch.x, of.s, of.best, of.posterior, of.q
    language, share = model.language, _shares(model.language, s)
    each = Normal(q.loc[:, None], q.scale[:, None])
    decoded = {
        "rmse_reconstruction": model.reconstruct(x).mean,
        "rmse_sentence": model.decoder(model.embed(s[:, 0])).mean,
        "rmse_best": model.decoder(model.embed(best)).mean,
    }
    return {
        "split": of.split,
        "inputs": len(x),
        "draws": s.shape[1],
        "length": float(language.length(s).mean()),
        "length_posterior": float(language.length(drawn).mean()),
        "entropy": float(-share.log().mean()),
        "entropy_posterior": float((of.log_z[:, None] - model.reward(each, None, drawn)).mean()),
        "top": float(share.max(-1).values.mean()),
        "distinct": len(language.key(s).unique()),
        "log_reward": float(model.reward(q, None, s[:, 0]).mean()),
        "log_reward_best": float(model.reward(q, None, best).mean()),
        **{name: float((y - x).square().mean().sqrt()) for name, y in decoded.items()},
    }


def _rank(language: Language, s: Tensor) -> tuple[Tensor, Tensor]:
    """The n different sentences (n, width) among the draws s (draws, width) of an input, commonest
    first, and their shares (n,).
    """
    _, inverse, counts = language.key(s).unique(return_inverse=True, return_counts=True)
    first = torch.full((len(counts),), len(s))
    first = first.scatter_reduce(0, inverse, torch.arange(len(s)), "amin")
    order = counts.argsort(descending=True, stable=True)
    return s[first[order]], counts[order] / len(s)


def _list_sentences(model: AttractorModel, of: Sampled, inputs: int) -> pd.DataFrame:
    """Rows of ``sentences.csv`` for the first inputs."""
    language, q, parts = model.language, of.q, []
    for k in range(inputs):
        best = of.best[k : k + 1]
        s, share = (part[:LISTED] for part in _rank(language, of.s[k]))
        if not bool((language.key(s) == language.key(best)).any()):
            drawn = (language.key(of.s[k]) == language.key(best)).float().mean()
            s, share = torch.cat([s, best]), torch.cat([share, drawn[None]])
        log_reward = model.reward.log_pairs(Normal(q.loc[k : k + 1], q.scale[k : k + 1]), s)[0]
        part = {
            "split": of.split,
            "input": k,
            "row": int(of.batch.y[k]),
            "rank": range(1, len(s) + 1),
            "sentence": [language.name(row) for row in s],
            "sampler": share.numpy(),
            "posterior": (log_reward - of.log_z[k]).exp().numpy(),
            "log_reward": log_reward.numpy(),
            "best": (language.key(s) == language.key(best)).int().numpy(),
        }
        parts.append(pd.DataFrame(part))
    return pd.concat(parts)


def _pixels(images: Tensor) -> np.ndarray:
    """Images from 0 to 1 as bytes."""
    return (255 * images.detach().cpu().clamp(0, 1)).byte().numpy()


def _decode(model: AttractorModel, of: Sampled, inputs: int) -> np.ndarray:
    """(inputs, 3 + READ, channels, side, side) bytes: the input, its reconstruction, the best
    sentence, and the sentences read most often, white where there are fewer.
    """
    x = of.batch.x[:inputs]
    best = model.decoder(model.embed(of.best[:inputs])).mean
    columns = [x, model.reconstruct(x).mean, best, *[torch.ones_like(x)] * READ]
    pictures = torch.stack([part.cpu() for part in columns], 1)
    for k in range(inputs):
        s = _rank(model.language, of.s[k])[0][:READ]
        pictures[k, 3 : 3 + len(s)] = model.decoder(model.embed(s)).mean
    return _pixels(pictures)


def _labels(data: Labelled, batch: Batch, inputs: int) -> np.ndarray:
    """The first two categorical features of the first inputs, in lines of one text each."""
    named = [(k, f) for k, f in enumerate(data.features) if f.categorical][:2]
    rows = data.feature_values(batch)[:inputs].tolist()
    return np.array(
        ["\n".join(f.outcomes[int(row[k])] for k, f in named if row[k] == row[k]) for row in rows]
    )


def variance_explained(p: Tensor, values: Tensor, feature: Feature) -> Tensor:
    r"""(K,) R² on a feature of the presence of each of K tokens.

    .. math:: R^2 = \sum_g \frac{n_g}{n} \frac{(p_g - \bar p)^2}{\bar p (1 - \bar p)}

    with p_g the mean over the n_g inputs of group g: the share of the variance of a token's
    indicator that the groups explain. Groups are the outcomes of a categorical feature, the values
    of a continuous one that has at most `BINS`, or `BINS` bins of equal counts. A token that tells
    nothing of the feature has (groups − 1) / n by chance. NaN for tokens always or never present.

    Args:
        p: (n, K) P(the token is present | input).
        values: (n,) of the feature, NaN where missing; such inputs are left out.
    """
    known = ~values.isnan()
    p, values = p[known].double(), values[known]
    if not len(p):
        return torch.full((p.shape[1],), torch.nan)
    different, group = values.unique(return_inverse=True)
    if not feature.categorical and len(different) > BINS:
        edges = values.quantile(torch.linspace(0, 1, BINS + 1)[1:-1].to(values)).unique()
        group = torch.bucketize(values, edges, right=True)
    n = torch.bincount(group).double()
    mean = p.mean(0)
    total = torch.zeros(len(n), p.shape[1], dtype=p.dtype).index_add_(0, group, p)
    of_group = total / n.clamp(min=1)[:, None]
    between = (n[:, None] * (of_group - mean).square()).sum(0) / len(p)
    variance = mean * (1 - mean)
    explained = (between / variance).clamp(max=1.0)
    return torch.where(variance > 1e-9, explained, torch.nan).float()


class Tokens(NamedTuple):
    """Share (sources, K) of the sentences of each source with each of K tokens; R² (sources, K, F)
    on F features.
    """

    share: Tensor
    explained: Tensor
    features: tuple[Feature, ...]


def count_tokens(model: AttractorModel, data: Labelled, of: Sampled) -> Tokens:
    """How often each token is present, and what it depends on."""
    bag = model.language.bag
    present = bag(of.s).mean(1), bag(of.posterior).mean(1)  # (B, K) each
    features = data.features
    explained = torch.empty(len(present), model.language.tokens, len(features))
    columns = data.feature_values(of.batch).cpu().T
    for j, (values, feature) in enumerate(zip(columns, features, strict=True)):
        for k, p in enumerate(present):
            explained[k, :, j] = variance_explained(p, values, feature)
    return Tokens(torch.stack([p.mean(0) for p in present]), explained, features)


def list_tokens(language: Language, tokens: Tokens) -> pd.DataFrame:
    """Rows of ``tokens.csv``: (token, source, share), and R² on each feature."""
    parts = []
    for source, share, explained in zip(SOURCES, tokens.share, tokens.explained, strict=True):
        part = {
            "token": [language.token_name(j) for j in range(language.tokens)],
            "source": source,
            "share": share.numpy(),
        }
        part |= {f"r2_{f.name}": explained[:, j].numpy() for j, f in enumerate(tokens.features)}
        parts.append(pd.DataFrame(part))
    return pd.concat(parts)


def token_change(model: AttractorModel, s: Tensor, token: int) -> tuple[Tensor, Tensor]:
    """What a token changes, by taking it away from different sentences s (n, width) that hold it.

    Returns the mean (channels, side, side), from −1 to 1, of decoded images with it minus without
    it, and examples (n, 2, channels, side, side) without it and with it.
    """
    language = model.language
    place = s.unflatten(-1, (-1, language.tokens))[..., token].argmax(-1)  # 0 in a bag
    without = language.without(s, place * language.tokens + token)
    decoded = model.decoder(model.embed(torch.stack([without, s], 1))).mean
    return (decoded[:, 1] - decoded[:, 0]).mean(0), decoded[:EXAMPLES]


def _changes(model: AttractorModel, of: Sampled, tokens: Tokens) -> dict[str, np.ndarray]:
    """Of the tokens in use, ``mean`` (n, channels, side, side) change as strong as it can be shown,
    and ``examples`` (n, EXAMPLES, 2, channels, side, side), bytes; white where there are fewer.
    """
    language = model.language
    s = of.posterior.flatten(0, 1)
    s = s[np.unique(language.key(s).numpy(), return_index=True)[1]]
    s = s[torch.randperm(len(s))]
    held = language.bag(s) > 0
    in_use = _in_use(tokens, held)
    shape = of.batch.x.shape[1:]
    mean, examples = torch.ones(len(in_use), *shape), torch.ones(len(in_use), EXAMPLES, 2, *shape)
    for row, j in enumerate(in_use.tolist()):
        change, shown = token_change(model, s[held[:, j]][:HOLDERS], j)
        mean[row] = 0.5 + change / (2 * max(0.05, float(change.abs().max())))
        examples[row, : len(shown)] = shown
    names = np.array([language.token_name(j) for j in in_use.tolist()], dtype=str)
    return {"token": names, "mean": _pixels(mean), "examples": _pixels(examples)}


def _in_use(tokens: Tokens, held: Tensor) -> Tensor:
    """Tokens that are present more than a tenth as often as the average one, those of one feature
    together.
    """
    enough = (tokens.share > 0.1 * tokens.share.mean(-1, keepdim=True)).any(0) & held.any(0)
    j = enough.nonzero().flatten()
    j = j[tokens.share[1, j].argsort(descending=True)][:MOST_TOKENS]
    if tokens.features:
        r2, feature = tokens.explained[1, j].nan_to_num().max(-1)
        j = j[torch.from_numpy(np.lexsort((-r2.numpy(), feature.numpy())))]
    return j

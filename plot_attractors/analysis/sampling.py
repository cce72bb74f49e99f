"""What analyses draw from a trained attractor model: states, sentences and their distributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from pyro.distributions import Normal
from scipy.spatial import cKDTree
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, constraints

from plot_attractors.data import Batch, BinaryTable, Vectors, is_real
from plot_attractors.gflownet.trajectories import Trajectories, score_backward, score_forward
from plot_attractors.language import MOST_SENTENCES, Language, in_use_threshold
from plot_attractors.language.factored import FactoredSentences
from plot_attractors.language.moves import anneal
from plot_attractors.measures.attractors import nearest
from plot_attractors.model.attractor import ROWS, AttractorModel, Encoding
from plot_attractors.model.protocols import reconstructs
from plot_attractors.runs import Run

LENGTHS = (1, 2, 5)  # multiples of T at which samplers are judged
BEAMS = 32  # for a state's nearest sentence: 8 miss half of those within the embedding's noise
SEARCHED = 256  # beams over all states that grow at once: what fits into a core's cache
CHUNK = 65_536  # sentences of a sum over all that are held at once
CELLS = 4_000_000  # entries of a (draws, sentences) table held at once
MOST_SUMMED = 10_000_000  # sentences that are summed in chunks
HOTTEST, TEMPERATURES, MOVES = 0.002, 30, 2  # of populations where they are more
MOST_INDEXED = 10_000_000  # embeddings that a k-d tree holds: 1 GB for half of that
SEEN = 256  # inputs that tell what inputs are
AXIS_SENTENCES = 4096  # that tell which axes embeddings use, where they cannot be listed
LEAST_SPREAD = 2.0  # ε, standard deviation of embeddings along a latent axis that they use
MOST_AXES = 12  # of them: in more dimensions a tree is no faster than to compare all


def is_listed(model: Any) -> bool:
    """Whether this is an attractor model with sentences few enough to list, so that its posterior
    is known exactly.
    """
    return isinstance(model, AttractorModel) and model.language.count <= MOST_SENTENCES


def require_attractors(model: Any) -> AttractorModel:
    """The model, or a ValueError where it is no attractor model."""
    if not isinstance(model, AttractorModel):
        raise ValueError(f"this needs an attractor model, not {type(model).__name__}")
    return model


def number_sentences(model: AttractorModel, s: Tensor) -> Tensor:
    """(…) int64, the same number for the same sentence of s (…, width): its row where sentences can
    be listed, else the rank of its `Language.key` among those given.
    """
    if is_listed(model):
        return model.language.row(s)
    return model.language.key(s).unique(return_inverse=True)[1]


def first_rows(key: Tensor) -> Tensor:
    """The numbers of the rows that are the first of their key (n,), in increasing order."""
    return number_rows(key)[1].sort().values


def number_rows(key: Tensor) -> tuple[Tensor, Tensor]:
    """(n,) a number for each different key (n,), and (k,) the first row of each of the k."""
    _, row, number = np.unique(key.cpu(), return_index=True, return_inverse=True)
    return torch.from_numpy(number), torch.from_numpy(row)


@torch.no_grad()
def _decoded(run: Any) -> tuple[Tensor, Any]:
    """Some inputs x, and P(x | z0); the caller's random state is left alone."""
    with torch.random.fork_rng(devices=[]):
        x: Tensor = run.data.batch(SEEN).x
        return x, run.model.reconstruct(x)


def has_likelihood(run: Any) -> bool:
    """Whether inputs are numbers to which what is decoded gives a probability or a density each."""
    x, p = _decoded(run)
    return bool(p.batch_shape == x.shape and p.support.check(x.nan_to_num()).all())


BITS, REAL, NUMBERS, IMAGES = "bits", "real numbers", "numbers", "images"  # kinds of inputs


def kind_of_inputs(run: Any) -> str:
    """What the inputs of a run are, by some of them and by the distribution decoded for them.

    - `BITS`: vectors of 0, 1 and NaN (missing), decoded as Bernoulli;
    - `REAL`: vectors that are `is_real`, decoded as a density of all real numbers with a mean;
    - `NUMBERS`: other vectors, as of counts, decoded as anything with a mean;
    - `IMAGES`: of one channel or three, from 0 to 1, decoded as anything with a mean;

    and in words where they are nothing of these.
    """
    if not reconstructs(run.model):
        return "inputs that the model does not decode"
    x, p = _decoded(run)
    name = f"{type(run.data).__name__} decoded as {type(p).__name__}"
    known = x[~x.isnan()]
    if p.batch_shape != x.shape:  # of other numbers than the inputs, or of whole inputs
        return name
    if x.dim() == 2 and not is_real(run.data) and isinstance(p, Bernoulli):
        return BITS if bool(((known == 0) | (known == 1)).all()) else name
    try:
        if not p.mean.isfinite().all():
            return name
    except NotImplementedError:
        return name
    if x.dim() == 2:
        if is_real(run.data):
            return REAL if p.support is constraints.real else name
        return NUMBERS
    pixels = bool(((known >= 0) & (known <= 1)).all())
    return IMAGES if x.dim() == 4 and x.shape[1] in (1, 3) and pixels else name


@torch.no_grad()
def decoded_bits(model: AttractorModel, z: Tensor) -> Tensor:
    """(…, N) 0 or 1, the likelier value of each bit decoded at states z (…, d)."""
    return (model.decoder(z).logits > 0).float()


@torch.no_grad()
def used_axes(model: AttractorModel) -> Tensor:
    """(d,) whether embeddings use a latent axis: the standard deviation of ẑ_s over sentences is
    above 2 ε along it; all axes where there is no such axis.

    In the others ẑ_s says nothing, and a state's distance there is noise that any state has. Of
    sentences too many to list draws from P(s) tell it, always the same.
    """
    if is_listed(model):
        z_hat = model.embeddings()
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            z_hat = model.embed(model.draw_prior(AXIS_SENTENCES))
    used = z_hat.std(0) > LEAST_SPREAD * model.epsilon
    return used | ~used.any()


def noise_radius(model: AttractorModel) -> float:
    """ε√d, d the number of axes that embeddings use: about how far exact samples are from ẑ_s."""
    return model.epsilon * float(used_axes(model).sum()) ** 0.5


def random_directions(model: AttractorModel, like: Tensor) -> Tensor:
    """Uniformly random unit vectors of the shape of states (…, d),
    or with their memory, in the axes that embeddings use:
    in the others a push is away from no sentence.
    """
    used = torch.nn.functional.pad(used_axes(model), (0, like.shape[-1] - model.latent))
    return torch.nn.functional.normalize(torch.randn_like(like) * used, dim=-1)


def sampled_sentences(run: Run, n: int) -> Tensor:
    """(n, width) sentences read at z_T of a trajectory from each of n training inputs."""
    return run.model.describe(run.data.batch(n).x).s[:, 0]


@torch.no_grad()
def states_at(
    model: AttractorModel, encoding: Encoding, draws: int, times: Sequence[int]
) -> Tensor:
    """(len(times), B, draws, d) states at increasing times of forward trajectories, `draws` for
    each of B inputs.

    One simulation up to the last time serves all of them.
    """
    z0 = encoding.z0.repeat_interleave(draws, 0)
    chunks = [model.trajectories(z, times[-1])[list(times)] for z in z0.split(ROWS)]
    return torch.cat(chunks, 1)[..., : model.latent].unflatten(1, (-1, draws))


@torch.no_grad()
def exact_states(model: AttractorModel, encoding: Encoding, draws: int) -> tuple[Tensor, Tensor]:
    """End states of a perfect sampler: s ~ π(s | x) exactly, z_T ~ P←(z_T | ẑ_s) = N(ẑ_s, ε²).

    Returns z (B, draws, d) and the sentences (B, draws, width).
    """
    if is_listed(model):
        posterior = Categorical(logits=model.posterior.log_prob(encoding.distribution))
        s = model.sentences[posterior.sample(torch.Size([draws])).T]
    else:
        s = exact_draws(model, encoding.distribution, draws).s
    return model.terminal_kernel(s).sample(), s


class ExactDraws(NamedTuple):
    """Of B inputs: log Z(x) = log Σ_s R(s; x) (B,), nats, and s ~ π(s | x) (B, draws, width)."""

    log_z: Tensor
    s: Tensor


@torch.no_grad()
def exact_draws(model: AttractorModel, q: Normal, draws: int) -> ExactDraws:
    """Sums and draws from R(s; x) over all sentences, in chunks, for inputs with P(z0 | x) = q (B,
    d).

    Where the posterior does not factor, the first pass sums the chunks, the second draws within
    those that are hit. More than 10 million sentences are not summed: populations of as many
    sentences as draws, annealed from the prior, take their place, with the estimate of log Z that
    they give.
    """
    if model.posterior.factored:
        posterior = model.posterior(q)
        assert isinstance(posterior, FactoredSentences)
        s = posterior.sample(torch.Size([draws])).transpose(0, 1)
        return ExactDraws(posterior.log_z.double(), s)
    if model.language.count > MOST_SUMMED:
        return annealed_draws(model, q, draws)
    sums = [
        model.reward.log_pairs(q, s.to(model.device)).logsumexp(-1).double()
        for s in model.language.chunks(CHUNK)
    ]
    mass = torch.stack(sums, -1)
    chunk = Categorical(logits=mass).sample(torch.Size([draws])).T  # (B, draws)
    s = torch.zeros(*chunk.shape, model.language.width, device=model.device)
    for k, part in enumerate(model.language.chunks(CHUNK)):
        hit = (chunk == k).any(-1).nonzero()[:, 0]
        if len(hit):
            part = part.to(model.device)
            log_reward = model.reward.log_pairs(Normal(q.loc[hit], q.scale[hit]), part)
            within = Categorical(logits=log_reward)
            drawn = part[within.sample(torch.Size([draws])).T]
            s[hit] = torch.where((chunk[hit] == k)[..., None], drawn, s[hit])
    return ExactDraws(mass.logsumexp(-1), s)


def annealed_draws(model: AttractorModel, q: Normal, draws: int) -> ExactDraws:
    """Sequential Monte Carlo in the place of sums over all sentences (`language.moves.anneal`)."""
    language, parts = model.language.power(model.reward.beta), []
    powers = HOTTEST ** torch.linspace(1, 0, TEMPERATURES)
    for row in range(len(q.loc)):
        inputs = Normal(q.loc[row], q.scale[row])
        s = model.draw_prior(draws)[:, None]
        log_q = language.log_prior(s)
        drawn, summed = (
            anneal(
                language,
                s,
                log_q,
                partial(model.reward, inputs, None),
                powers.tolist(),
                MOVES,
                from_prior=way,
            )
            for way in (False, True)
        )
        parts.append((summed.log_z, drawn.s))
    log_z, sentences = zip(*parts, strict=True)
    return ExactDraws(torch.cat(log_z).double(), torch.cat(sentences, 1).transpose(0, 1))


@torch.no_grad()
def sentences_in_use(model: AttractorModel, x: Tensor) -> Tensor:
    """(S,) whether a sentence is in use for inputs x (B, …): its mean posterior is above a tenth of
    an equal share.
    """
    probability = model.posterior.log_prob(model.encode(x).distribution).exp()
    return probability.mean(0) > in_use_threshold(len(model.sentences))


@torch.no_grad()
def perturbed_trajectories(model: AttractorModel, z: Tensor, embedding: Tensor) -> Tensor:
    """(n, d) where states z (n, d) beside embeddings ẑ_s (n, d) are after 5T steps of the dynamics.

    The first step is that of t = T: states are beside embeddings at the end of a trajectory, and
    dynamics that see the time would choose a sentence anew before it. There is no input: parts that
    see one see ẑ_s as z0.
    """
    more = LENGTHS[-1] * model.steps
    return model.trajectories(z, more, context=embedding, start=model.steps)[-1, :, : model.latent]


class EndStates(NamedTuple):
    """Where n states end that started beside embeddings ẑ_s: distances (n,) to the original ẑ_s and
    to the nearest embedding, ẑ_s among them, in the axes that embeddings use, and the sentence (n,
    width) of that one.
    """

    original: Tensor
    nearest: Tensor
    sentence: Tensor


@torch.no_grad()
def end_states(model: AttractorModel, s: Tensor, z: Tensor) -> EndStates:
    """The ends of `perturbed_trajectories` from states z (n, d) beside ẑ_s of s (n, width)."""
    embedding = model.embed(s)
    parts = zip(z.split(ROWS), embedding.split(ROWS), strict=True)
    z = torch.cat([perturbed_trajectories(model, *part) for part in parts])
    original = (z - embedding)[:, used_axes(model)].norm(dim=-1)
    near = nearest_sentence(model, z, indexed=True)
    sentence = torch.where((original <= near.distance)[:, None], s, near.s)
    return EndStates(original, near.distance.minimum(original), sentence)


@torch.no_grad()
def sentence_distribution(model: AttractorModel, z: Tensor) -> Tensor:
    """(B, S) the mean over draws of P(s | z), the exact readout; z (B, draws, d)."""
    rows = max(1, CELLS // max(1, z.shape[1] * len(model.sentences)))  # of no draws: NaN
    return torch.cat([model.readout.log_prob(part).exp().mean(1) for part in z.split(rows)])


class NearestSentence(NamedTuple):
    """Of states (…): the sentence (…, width) whose embedding is nearest, and its distance (…), in
    the axes that embeddings use (`used_axes`).
    """

    s: Tensor
    distance: Tensor


@torch.no_grad()
def nearest_sentence(model: AttractorModel, z: Tensor, indexed: bool = False) -> NearestSentence:
    """The sentence whose ẑ_s is nearest to each state z (…, d), or with its memory.

    Exact for listed sentences, or where ẑ_s factors; else a beam search, which may miss the
    nearest. For thousands of states, `indexed` puts all embeddings into a k-d tree instead, which
    misses none: 4,514,872 in 8 dimensions take 7 seconds, 1 GB of memory, and then 1 ms a state or
    less. More than `MOST_INDEXED` sentences and more than `MOST_AXES` dimensions are searched all
    the same.
    """
    language, axes = model.language, used_axes(model)
    few = language.count <= MOST_INDEXED and int(axes.sum()) <= MOST_AXES
    states = z[..., : model.latent].flatten(0, -2)
    flat = states[:, axes]

    def embed(s: Tensor) -> Tensor:
        return model.embed(s)[..., axes]

    if is_listed(model):
        s = model.sentences[nearest(flat, embed(model.sentences)).row]
    elif model.posterior.factors() is not None:
        s = torch.cat([model.readout.nearest(part) for part in states.split(ROWS)])
    elif indexed and few:
        chunks = language.chunks()
        kept = [(embed(part.to(model.device)).cpu(), part.bool()) for part in chunks]
        embeddings, sentences = (torch.cat(part) for part in zip(*kept, strict=True))
        # neither balanced nor compact: built in a quarter of the time
        tree = cKDTree(embeddings.numpy(), balanced_tree=False, compact_nodes=False)
        s = sentences[torch.from_numpy(tree.query(flat.cpu().numpy())[1])].to(flat)
    else:
        s = torch.cat([_search(language, embed, part) for part in flat.split(SEARCHED // BEAMS)])
    distance = (embed(s) - flat).norm(dim=-1)
    return NearestSentence(s.unflatten(0, z.shape[:-1]), distance.unflatten(0, z.shape[:-1]))


def _search(language: Language, embed: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """(n, width) the sentence nearest to each of states z (n, d) of those visited while the `BEAMS`
    nearest of each length grow by a token.

    A token may be added anywhere: a sentence has many ways to be found, and counts once. Where
    embeddings are sums of tokens this is matching pursuit with several hypotheses.
    """
    tokens = torch.eye(language.width, device=z.device)
    s = torch.zeros(len(z), 1, language.width, device=z.device)
    score = -(embed(s) - z[:, None]).square().sum(-1)
    nearest, best = s[:, 0], score[:, 0] if language.min_length == 0 else score[:, 0] - torch.inf
    for length in range(1, language.longest + 1):
        allowed = language.allowed(s, canonical=False)[..., :-1] & score.isfinite()[..., None]
        never = ~allowed.flatten(1)
        grown = (s[:, :, None] + tokens).clamp(max=1).flatten(1, 2)  # (n, beams · width, width)
        score = -(embed(grown) - z[:, None]).square().sum(-1)
        # of equal sentences the first counts; those never allowed sort before all
        key, order = language.key(grown).masked_fill(never, 0).sort(1)
        score = score.masked_fill(never, -torch.inf).gather(1, order)
        score[:, 1:][key[:, 1:] == key[:, :-1]] = -torch.inf
        score, place = score.topk(min(BEAMS, score.shape[1]), 1)
        rows = order.gather(1, place)[..., None].expand(-1, -1, language.width)
        s = grown.gather(1, rows)
        if length >= language.min_length:
            nearest = torch.where((score[:, 0] > best)[:, None], s[:, 0], nearest)
            best = best.maximum(score[:, 0])
    return nearest


@torch.no_grad()
def path_log_weight(model: AttractorModel, encoding: Encoding, z: Tensor, s: Tensor) -> Tensor:
    r"""(B,) log w, nats, of trajectories z (T + 1, B, d) from `encoding.z0`, and sentences s (B,
    width).

    .. math:: \log w = \log R(s; x) P_\leftarrow(z_T | \hat z_s)
        \prod_{t=1}^{T-1} P_\leftarrow(z_t | z_{t+1}, t+1, x)
        - \log P(s | z_T) \prod_{t=0}^{T-1} P_\theta(z_{t+1} | z_t)

    z0 is given, so the backward factor at t = 0 is 1. E[w] under the guide is Z(x) = Σ_s R(s; x);
    E[log w] under the guide is a lower and under the normalised model an upper bound of log Z(x).
    Source: Eqs. *traj_prob_forward* and *traj_prob_backward*.
    """
    trajectories = Trajectories(z, encoding.z0)
    forward = score_forward(model.forward_step, trajectories).sum(0)
    backward = score_backward(model.backward_step, trajectories).sum(0)
    log_reward = model.reward(encoding.distribution, None, s)
    first = model.terminal_kernel(s, encoding.z0).log_prob(z[-1]).sum(-1)
    readout = model.readout(z[-1], encoding.z0).log_prob(s)
    return log_reward + first + backward - forward - readout


def numbered_rows(data: BinaryTable | Vectors, most: int) -> tuple[Tensor, list[str]]:
    """The numbers of the first rows, increasing, and the split of each."""
    rows, order = torch.cat(list(data.members.values())).sort()
    split = [name for name, members in data.members.items() for _ in members]
    return rows[:most], [split[k] for k in order[:most].tolist()]


def row_names(data: Any, rows: Tensor) -> list[str]:
    """Names of rows of a data set, or their numbers where it knows none."""
    names = getattr(data, "row_names", ())
    return [names[k] if names else f"row {k}" for k in rows.tolist()]


def labels_of(data: Any, batch: Batch) -> np.ndarray:
    """Of each input its name and its first two categorical features, where known, a line each."""
    named = [(k, f) for k, f in enumerate(data.features) if f.categorical][:2]
    names, labels = getattr(data, "row_names", ()), []
    for y, row in zip(batch.y.tolist(), data.feature_values(batch).tolist(), strict=True):
        known = [f.outcomes[int(row[k])] for k, f in named if row[k] == row[k]]
        labels.append("\n".join([names[y], *known] if names else known))
    return np.array(labels, dtype=str)

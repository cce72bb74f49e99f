"""Questions to a trained model: what it says of an input, how sure, and how fast."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.analysis import responses, sampling
from plot_attractors.data import Batch, Labelled
from plot_attractors.data.checks import ARRAYS, array_kind, read_array
from plot_attractors.language_of_thought import GrammarModel
from plot_attractors.measures.attractors import binomial_interval
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.model.protocols import SentenceModel, reconstructs
from plot_attractors.runs import Run
from plot_attractors.runs.registry import suggestion

REFERENCE = 2000, 8000  # training inputs that tell what sentences mean, at least and at most
IN_WORDS = 4  # columns, or inputs, by which a sentence is told
LIKELY = 0.5  # of a label, given a sentence, that is told
EACH = 8  # sentences of an input that tell what they mean, of models without attractors,
FEWEST = 20  # where as many inputs' are the same
FEATURE_TRIES = 5000  # inputs among which one with given features is looked for


class Inputs(NamedTuple):
    """Inputs x (n, …) as the model sees them, and a name for each; their numbers (n,) and values of
    features (n, F) in the data set, −1 and NaN of others.
    """

    x: Tensor
    names: list[str]
    y: Tensor
    values: Tensor


def read_inputs(run: Run, what: Any) -> Inputs:
    """Inputs of a run's data set, by whatever stands for them:

    - a row's name, or its number, from 0; a class of the tree, as LRR, of which an exemplar is
      drawn; features, as "colour=red shape=heart", of which a training input is drawn, without
      its noise where the data know it so;
    - an array or a list, of one input or of several, as in a file;
    - a file of the same kind: a table (CSV, Parquet), an array (npy), an image, a folder of images;
    - a `Batch`, as of ``run.data.batch``, which is all that data without `at` and `as_inputs` have.

    Raises ValueError, in a sentence, for what is nothing of these.
    """
    data = run.data
    if isinstance(what, Batch):
        return _members(data, what)
    if isinstance(what, int | np.integer):
        return _numbered(data, int(what))
    if isinstance(what, str | Path):
        return _named(run, str(what).strip())
    values: Any = np.asarray(what.detach().cpu() if isinstance(what, Tensor) else what)
    axes, channels = len(data.input_shape), data.input_shape[0]
    one = values.ndim < axes if axes == 3 else values.ndim == 1
    if axes == 3 and values.ndim == 3:  # an image with channels, or several without
        one = values.shape[-1] in (1, 3) or values.shape[0] == channels
    return _given(data, values[None] if one else values)


def at_random(run: Run, n: int, seed: int) -> Batch:
    """n training inputs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        batch: Batch = run.data.batch(n)
        return batch


def _members(data: Any, batch: Batch) -> Inputs:
    return Inputs(batch.x, _names(data, batch.y), batch.y, _values_of(data, batch))


def _given(data: Any, values: Any) -> Inputs:
    x = data.as_inputs(values)
    return _new(data, x, [f"input {k}" for k in range(len(x))] if len(x) > 1 else ["input"])


def _new(data: Any, x: Tensor, names: list[str]) -> Inputs:
    unknown = torch.full((len(x), len(getattr(data, "features", ()))), torch.nan)
    return Inputs(x, names, torch.full((len(x),), -1), unknown)


def _values_of(data: Any, batch: Batch) -> Tensor:
    """(n, F) of the features that the data set knows of."""
    if not isinstance(data, Labelled):
        return batch.x.new_empty(len(batch.x), 0)
    return data.feature_values(batch)


def _names(data: Any, y: Tensor) -> list[str]:
    """Names of members of a data set: classes, rows, or their categorical features and number."""
    if classes := getattr(data, "class_names", ()):
        return [classes[k] for k in y.tolist()]
    names = sampling.row_names(data, y)
    if getattr(data, "row_names", ()) or not getattr(data, "features", ()):
        return names
    values = data.feature_values(data.at(y)).T
    for feature, column in list(zip(data.features, values, strict=True))[::-1]:
        if feature.categorical:
            texts = ["" if v != v else feature.outcomes[int(v)] for v in column.tolist()]
            names = [f"{text} {name}".strip() for text, name in zip(texts, names, strict=True)]
    return names


def _numbered(data: Any, number: int) -> Inputs:
    count = sum(len(members) for members in data.members.values())
    if not 0 <= number < count:
        raise ValueError(f"there is no row {number}: rows have the numbers 0 to {count - 1}")
    return _members(data, data.at(torch.tensor([number])))


def _named(run: Run, text: str) -> Inputs:
    data, path = run.data, Path(text).expanduser()
    known = list(getattr(data, "class_names", ()) or getattr(data, "row_names", ()))
    if text in known:
        if known.count(text) > 1:
            raise ValueError(f"{known.count(text)} rows are called {text!r}: give a number")
        return _numbered(data, known.index(text))
    if text.lstrip("-").isdigit() and not any(name.isdigit() for name in known):
        return _numbered(data, int(text))
    if "=" in text and not path.exists():
        return _with_features(data, text)
    if path.exists() or path.suffix:
        return _read(run, path)
    raise ValueError(
        f"there is no input {text!r}: {suggestion(text, known)}"
        "an input is a name, a number, features, or a file"
    )


def _read(run: Run, path: Path) -> Inputs:
    data = run.data
    if not path.exists():
        raise ValueError(f"there is no file {str(path)!r}")
    if array_kind(path) in ARRAYS:
        return _given(data, read_array(path))
    if not hasattr(data, "read"):
        raise ValueError(f"inputs of {run.data_name} are read from an array alone, saved as npy")
    x, names = data.read(path, getattr(run.data_config, "names", ""))
    return _new(data, x, list(names) or [f"row {k}" for k in range(len(x))])


def _with_features(data: Any, text: str) -> Inputs:
    """A training input with features such as "colour=red shape=heart", without its noise, where the
    data know it so: noise may give a red sprite a look of yellow.
    """
    batch = data.batch(FEATURE_TRIES)
    row = having(data, batch, text).nonzero()[0]
    result = _members(data, Batch(*(part[row] for part in batch)))
    pure = getattr(data, "prototypes", None)
    if pure is None:
        return result
    return result._replace(x=pure(result.y) if callable(pure) else pure[result.y])


def having(data: Any, batch: Batch, text: str) -> Tensor:
    """(n,) which inputs of a batch have features such as "colour=red shape=heart"; ValueError for
    features and values that the data do not have, or where no input has them.
    """
    features = {f.name: f for f in getattr(data, "features", ()) if f.categorical}
    values = _values_of(data, batch)
    kept = torch.ones(len(batch.x), dtype=torch.bool)
    for part in text.replace(",", " ").split():
        name, _, value = part.partition("=")
        if name not in features:
            raise ValueError(f"there is no feature {name!r}: there are {', '.join(features)}")
        if value not in features[name].outcomes:
            known = ", ".join(features[name].outcomes)
            raise ValueError(f"{name} is never {value!r}: it is one of {known}")
        column = [f.name for f in data.features].index(name)
        kept &= values[:, column] == features[name].outcomes.index(value)
    if not kept.any():
        raise ValueError(f"no training input has {text}")
    return kept


class Answer(NamedTuple):
    """What a model says of inputs: see `ask`."""

    inputs: pd.DataFrame
    sentences: pd.DataFrame


@torch.no_grad()
def ask(
    run: Run, what: Any, draws: int = 1000, most: int = 5, seed: int = 0, resample: int = 1
) -> Answer:
    """What a trained model says of inputs (`read_inputs`): a model with attractors by `draws`
    trajectories, each one of `resample` by their weights (`responses.trials`), another by as many
    sentences of its own.

    ``inputs``, a row each:

    - ``input``: its name;
    - ``sentences``: exp of the entropy of P(s | x), the number of equally frequent sentences that
      would be as uncertain; ``entropy``, nats; ``known``: whether it is of P(s | x), else of the
      draws, and then too low;
    - ``near``: the training inputs whose states, z0 of attractors, are nearest;
    - with attractors ``responded``: share of trajectories with a response (`responses.respond`)
      within 2T steps; ``time``, ``time_q1``, ``time_q3``: median and quartiles of the time of
      these, in steps.

    ``sentences``, at most `most` of each input, the most frequent first: ``input``, ``sentence``;
    ``probability``, the share of the draws that are it, read at T, and its 95 % interval (Wilson),
    ``low`` and ``high``, of a sentence chosen beforehand; ``exact``, P(s | x) ∝ R(s; x), NaN where
    it is not known; ``meaning`` (`meanings`).
    """
    if not isinstance(run.model, SentenceModel):
        raise ValueError(f"a {type(run.model).__name__} says no sentences")
    model: Any = run.model
    attractors = isinstance(run.model, AttractorModel)
    if resample > 1:
        sampling.require_attractors(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inputs, train = read_inputs(run, what), getattr(run.data, "members", {}).get("train", ())
        reference = run.data.batch(sorted((*REFERENCE, len(train)))[1])
        if attractors:
            e, known = model.encode(inputs.x), model.encode(reference.x)
            entropy, z, near = exact_entropy(model, e.distribution), e.z0, known.z0
            weigh = partial(_by_bayes, model, known.distribution)
        else:
            said, known = model.describe(inputs.x, draws), model.describe(reference.x, EACH)
            entropy, z, near = None, said.z.mean(1), known.z.mean(1)
            if isinstance(model, GrammarModel):
                entropy = model.posterior(inputs.x).entropy
            weigh = partial(_by_draws, model, known.s)
        tables, rows = [], []
        for k, name in enumerate(inputs.names):
            row: dict[str, Any] = {}
            if attractors:
                read, trials = _trials(model, e[k : k + 1], draws, resample)
                quartiles = trials.time.nanquantile(torch.tensor([0.25, 0.5, 0.75])).tolist()
                row = dict(zip(("time_q1", "time", "time_q3"), quartiles, strict=True))
                row["responded"] = float((~trials.time.isnan()).float().mean())
            else:
                read = said.s[k]
            number, first = sampling.number_rows(model.language.key(read))
            counts = torch.bincount(number)
            order = counts.argsort(descending=True, stable=True)[:most]
            s, p = read[first[order]], counts / draws
            low, high = binomial_interval(counts[order], draws)
            exact = torch.full((len(s), 1), torch.nan)
            if attractors:
                exact = log_posterior(model, e[k : k + 1].distribution, s).exp()
            tables.append(pd.DataFrame({
                "input": name,
                "sentence": [model.language.name(one) for one in s],
                "probability": p[order].tolist(), "low": low.tolist(), "high": high.tolist(),
                "exact": exact[:, 0].tolist(), "meaning": meanings(run, s, reference, weigh(s)),
            }))  # fmt: skip
            nats = float(entropy[k]) if entropy is not None else float(-(p * p.log()).sum()) + 0.0
            distance = (near - z[k]).norm(dim=-1)
            order = distance.masked_fill(reference.y == inputs.y[k], math.inf).argsort()
            names = _names(run.data, reference.y[order[: 50 * IN_WORDS]])
            row |= {"input": name, "sentences": math.exp(nats), "entropy": nats}
            row["known"] = entropy is not None
            rows.append(row | {"near": ", ".join(list(dict.fromkeys(names))[:IN_WORDS])})
    return Answer(pd.DataFrame(rows), pd.concat(tables, ignore_index=True))


def _trials(
    model: AttractorModel,
    e: Encoding,
    draws: int,
    resample: int,
    category: responses.Category | None = None,
) -> tuple[Tensor, responses.Responses]:
    """Of trajectories of an input e (1,): the sentences read at T (draws, width), and the
    responses.
    """
    z, s = responses.trials(model, e[torch.zeros(draws, dtype=torch.long)], resample)
    return s, responses.respond(model, z, category)


def log_posterior(model: AttractorModel, q: Normal, s: Tensor) -> Tensor:
    """(m, n) log P(s | x), nats, of m sentences s (m, width) and n inputs q (n, d); NaN where log Z
    is not known: where sentences neither factor nor can be listed.
    """
    log_r = model.reward.log_pairs(q, s).T
    if model.posterior.factored:
        return log_r - model.posterior(q).log_z
    if not sampling.is_listed(model):
        return torch.full_like(log_r, torch.nan)
    return log_r - model.reward.log_pairs(q, model.sentences).logsumexp(-1)


def exact_entropy(model: AttractorModel, q: Normal) -> Tensor | None:
    """(n,) entropy of P(s | x), nats, of inputs q (n, d), where sentences can be listed; where they
    factor, its estimate by 1,000 exact draws; else None.
    """
    if sampling.is_listed(model):
        log_p = model.posterior.log_prob(q)
        return -(log_p.exp() * log_p).sum(-1)
    if model.posterior.factored:
        posterior = model.posterior(q)
        return -posterior.log_prob(posterior.sample(torch.Size([1000]))).mean(0)
    return None


def _by_bayes(model: AttractorModel, q: Normal, s: Tensor) -> Tensor:
    """(m, n) P(x | s) of sentences s (m, width) and inputs q (n, d), each as likely."""
    log_p = log_posterior(model, q, s)
    return (model.reward.log_pairs(q, s).T if log_p.isnan().any() else log_p).softmax(-1)


def _by_draws(model: SentenceModel, said: Tensor, s: Tensor) -> Tensor:
    """(m, n) counts of s (m, width) among sentences said (n, draws, width); 0 where few."""
    key = model.language.key
    weight = (key(said)[..., None] == key(s)).double().sum(1).T
    return torch.where(weight.sum(-1, keepdim=True) < FEWEST, 0.0, weight)


def meanings(run: Run, s: Tensor, reference: Batch, weight: Tensor) -> list[str]:
    """What sentences s (m, width) mean, in words, by reference inputs with a weight (m, n) ∝
    P(s | x) each:

    - of the tree, the class whose prototype is nearest to the bits decoded at ẑ_s, or, of a model
      that decodes none, that is likeliest; of columns of 0 and 1, those decoded as likelier, or
      less likely, than among the inputs; of real-valued ones, those farthest from their mean, in
      standard deviations;
    - values of categorical features with P(value | s) ≥ ½, Σ_{x has it} P(s | x) / Σ_x P(s | x);
    - rows with names of which it is likeliest.

    Nothing of a sentence without weight, which too few reference inputs have.
    """
    model: Any = run.model
    data = run.data
    weight = weight / weight.sum(-1, keepdim=True)
    kind = sampling.kind_of_inputs(run)
    words: list[list[str]] = [[] for _ in s]
    decoded = model.decoder(model.embed(s)).mean if reconstructs(run.model) else None
    if hasattr(data, "prototypes") and hasattr(data, "class_names"):
        if decoded is not None:
            nearest = torch.cdist((decoded > 0.5).float(), data.prototypes, p=1).argmin(-1)
            return [f"class {data.class_names[k]}" for k in nearest.tolist()]
        share = weight @ torch.nn.functional.one_hot(reference.y).to(weight)
        classes = [f"class {data.class_names[k]}" for k in share.argmax(-1).tolist()]
        return [c if part.sum() > 0 else "" for c, part in zip(classes, share, strict=True)]
    if decoded is not None and kind in (sampling.BITS, sampling.REAL):
        columns = getattr(data, "columns", ())
        for k, row in enumerate(decoded):
            words[k].append(_columns(row, reference.x.nanmean(0), columns, kind == sampling.BITS))
    features, values = getattr(data, "features", ()), _values_of(data, reference)
    for j, feature in enumerate(features):
        for v, outcome in enumerate(feature.outcomes):
            share = weight @ (values[:, j] == v).to(weight)
            for k in (share >= LIKELY).nonzero().flatten().tolist():
                words[k].append(f"{feature.name} {outcome} ({float(share[k]):.2f})")
    if getattr(data, "row_names", ()):
        for k, row in enumerate(weight):
            best = reference.y[row.argsort(descending=True)[: int((row > 0).sum())]]
            names = dict.fromkeys(sampling.row_names(data, best[: 50 * IN_WORDS]))
            words[k] += [f"as {', '.join(list(names)[:IN_WORDS])}"] if names else []
    return ["; ".join(filter(None, parts)) for parts in words]


def _columns(p: Tensor, mean: Tensor, names: tuple[str, ...], bits: bool) -> str:
    """The columns in which decoded numbers p (N,) are farthest from the mean (N,) of the inputs."""
    if bits:
        effect = torch.special.xlogy(p, p / mean.clamp(1e-6)) * (p > 0.5)
        effect -= torch.special.xlogy(1 - p, (1 - p) / (1 - mean).clamp(1e-6)) * (p <= 0.5)
    else:
        effect = p - mean
    chosen = effect.abs().topk(min(IN_WORDS, len(p))).indices.tolist()
    if bits:
        return ", ".join(names[k] if effect[k] > 0 else f"not {names[k]}" for k in chosen)
    return ", ".join(f"{names[k]} {float(effect[k]):+.1f}" for k in chosen)


@torch.no_grad()
def samples(
    run: Run,
    inputs: Inputs,
    draws: int = 100,
    chosen: responses.Choices | None = None,
    seed: int = 0,
    resample: int = 1,
) -> pd.DataFrame:
    """A row for each input and draw: every trajectory, as a participant's trial,
    one of `resample` by their weights (`responses.trials`).

    - ``input``, ``draw``, from 0; ``sentence``: read at T;
    - ``time``: of the response, in steps, NaN where there is none within 2T (`respond`), and
      ``choice`` at this time: the sentence nearest, or the value of a feature (`Choices`);
      ``correct``: whether that is the input's own value, where it is known;
    - ``last_change``: the last step up to T at which the choice changes, which every draw has;
    - ``log_p``: exact log P(s | x) of the sentence read at T, nats; NaN where it is not known.
    """
    model, parts = sampling.require_attractors(run.model), []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        e = model.encode(inputs.x)
        for k, name in enumerate(inputs.names):
            category = None if chosen is None else chosen.category
            s, trials = _trials(model, e[k : k + 1], draws, resample, category)
            row = {"input": name, "draw": range(draws)}
            row |= {"sentence": [model.language.name(one) for one in s]}
            row |= {"time": trials.time.tolist(), "last_change": trials.last_change.tolist()}
            if chosen is not None:
                row["choice"] = [chosen.names[c] if c >= 0 else "" for c in trials.choice.tolist()]
                own = inputs.values[k, [chosen.column]].nan_to_num(-1)
                row["correct"] = responses.right(trials.choice[None], own)[0].tolist()
            number, first = sampling.number_rows(model.language.key(s))
            log_p = log_posterior(model, e[k : k + 1].distribution, s[first])
            row["log_p"] = log_p[number, 0].tolist()
            parts.append(pd.DataFrame(row))
    return pd.concat(parts, ignore_index=True)


def as_hssm(
    table: pd.DataFrame, chosen: responses.Choices | None, seconds: float, participant: int
) -> pd.DataFrame:
    """The table of `samples` as HSSM (hierarchical sequential sampling models) reads trials: ``rt``
    in seconds, a step lasting so many and a response at step t coming after t + 1; ``response``,
    the number of the value, of two values −1 or 1; ``participant_id``; ``stimulus``, the input.
    Trials without a response have rt and response −999, HSSM's sign of what is missing.

    Raises ValueError without choices, since sentences are too many for responses.
    """
    if chosen is None:
        raise ValueError("HSSM needs choices: name a feature with --feature")
    number = table["choice"].map({name: k for k, name in enumerate(chosen.names)})
    if len(chosen.names) == 2:
        number = 2 * number - 1
    return pd.DataFrame({
        "rt": ((table["time"] + 1) * seconds).fillna(-999.0),
        "response": number.fillna(-999).astype(int),
        "participant_id": participant, "stimulus": table["input"],
    })  # fmt: skip

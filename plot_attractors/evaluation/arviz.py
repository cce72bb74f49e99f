"""Samples of fitted runs in the layout of ArviZ, a chain for each training seed, and the
diagnostics that fit them.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import tomlkit
import torch
import xarray as xr
from torch import Tensor

from plot_attractors.data import Batch
from plot_attractors.evaluation.metrics import correct_bits, pareto_smoothed
from plot_attractors.evaluation.sampling import path_log_weight
from plot_attractors.gflownet.trajectories import Trajectories, score_forward
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.runs import Run

__all__ = [
    "LABEL_FREE",
    "label_free",
    "label_free_rhat",
    "predictive_checks",
    "psis",
    "save",
    "to_datatree",
    "to_inferencedata",
]

LABEL_FREE = {
    "info_loss": ("posterior", "info_loss"),
    "length": ("sample_stats", "length"),
    "log_reward": ("sample_stats", "log_reward"),
    "log_weight": ("sample_stats", "log_weight"),
    "log_likelihood": ("log_likelihood", "x"),
}
"""Quantities that mean the same in every training seed, and where they are: (group, variable)."""

ROWS = 2048  # trajectories drawn and scored at once
LEAST_DRAWS = 25  # fewer leave a tail of less than five weights, too short to fit a Pareto law to
MAY_DIFFER = (
    "seed",
    "preset",
    "log_every",
)  # settings of a run that change no law; presets only name settings


class _Draws(NamedTuple):
    """What is drawn of one run; every field has the leading shape (B, draws)."""

    z: Tensor  # (…, steps kept, d)
    s: Tensor  # (…, width)
    info_loss: Tensor
    log_q: Tensor
    log_reward: Tensor
    log_weight: Tensor
    log_likelihood: Tensor
    x: Tensor  # (…, bits) drawn from the decoder at z_T
    correct: Tensor
    log_likelihood_of_x: Tensor


def to_datatree(
    runs: Run | str | Path | Sequence[Run | str | Path],
    *,
    inputs: int = 64,
    draws: int = 100,
    split: str = "train",
    states: bool = False,
    seed: int = 0,
) -> xr.DataTree:
    """Sentences and states drawn for the same inputs by runs that differ in their training seed.

    A *chain* is a training seed, a *draw* a trajectory z_0, …, z_T from the forward dynamics with a
    sentence s read from z_T; draws of a chain are independent. The groups, with B = `inputs`:

    - ``posterior``: ``z`` (chain, draw, input, step, latent), steps 0 and T, or all of them with
      `states`; ``tokens`` (chain, draw, input, token) 0 or 1, for ordered languages (chain, draw,
      input, position, token); ``info_loss`` (chain, draw, input), d = c0 − cT in bits, as in the
      analysis `information_loss`;
    - ``sample_stats`` (chain, draw, input): ``log_q`` = log P(s | z_T) + Σ_t log P(z_{t+1} | z_t),
      ``log_reward`` = log R(z_T, s; x) and ``log_weight`` = `sampling.path_log_weight`, nats;
      ``length``, the tokens of s;
    - ``log_likelihood``: ``x`` (chain, draw, input) = log P(x | z_T), nats, summed over bits;
    - ``posterior_predictive``: ``x`` (chain, draw, input, bit), a replicate drawn from P(x | z_T),
      and what is told of it (chain, draw, input): ``ones``, the number of its 1s; ``correct``, how
      many of its bits the decoder at z_T predicts right; ``log_likelihood`` = log P(replicate |
      z_T), nats;
    - ``observed_data``: ``x`` (input, bit), ``ones`` (input);
    - ``constant_data``: ``c0`` (chain, input), bits predicted right from z_0; ``split``, ``y``, the
      class or the row of the table (input), ``class_name`` where classes have names, ``labels``
      (input, label) where there are any, -1 where unspecified.

    The root's attributes are text: ``config`` (TOML, shared by all runs); ``seeds``, ``commits``
    and ``versions`` (JSON lists, an entry a run); ``split``, ``sampling_seed``,
    ``inference_library`` and its version.

    Args:
        runs: one fitted run or several, as runs or as directories.
        inputs: B, drawn once, from the data of the first run.
        draws: trajectories of each input in each chain.
        split: which inputs, as `data.batch` takes it.
        states: keep the states of all steps.
        seed: of inputs and draws; a chain's draws depend on this seed and on its training seed
            alone, so that chains are independent of each other. The caller's random state is left
            alone.

    Raises:
        ValueError: no runs, two of one seed, runs that differ in more than the seed, a model
            without attractor dynamics, an unknown split, or a number of inputs or draws below 1.
    """
    chains = _load(runs)
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise ValueError(
            f"the number of draws for each input must be a positive whole number, not {draws!r}"
        )
    batch = _inputs(chains, inputs, split, seed)
    model: AttractorModel = chains[0].model
    steps = tuple(range(model.steps + 1)) if states else (0, model.steps)
    best, drawn = zip(*(_sample(run, batch.x, draws, steps, seed) for run in chains), strict=True)
    # every field (chain, draw, input, …)
    found = _Draws(
        *(torch.stack(field).transpose(1, 2).cpu() for field in zip(*drawn, strict=True))
    )

    language, data = model.language, chains[0].data
    ordered = ("position",) if language.ordered else ()
    tokens = (
        found.s.unflatten(-1, (language.longest, language.tokens)) if language.ordered else found.s
    )
    coords: dict[str, Any] = {
        "chain": [run.seed for run in chains],
        "draw": np.arange(draws),
        "input": np.arange(inputs),
        "step": list(steps),
        "latent": np.arange(model.latent),
        "position": np.arange(language.longest),
        "token": [language.token_name(k) for k in range(language.tokens)],
        "bit": list(getattr(data, "columns", range(data.bits))),
        "label": list(data.label_names),
    }
    each = ("chain", "draw", "input")
    observed = batch.x.to(torch.int8)
    constant: dict[str, Any] = {
        "c0": (("chain", "input"), torch.stack(best), {"units": "bits"}),
        "split": ("input", np.full(inputs, split)),
        "y": ("input", batch.y),
    }
    if hasattr(data, "class_names"):
        constant["class_name"] = ("input", [data.class_names[k] for k in batch.y.tolist()])
    if data.label_names:
        constant["labels"] = (("input", "label"), batch.labels)
    groups: dict[str, dict[str, Any]] = {
        "posterior": {
            "z": ((*each, "step", "latent"), found.z),
            "tokens": ((*each, *ordered, "token"), tokens.to(torch.int8)),
            "info_loss": (each, found.info_loss, {"units": "bits"}),
        },
        "sample_stats": {
            "log_q": (each, found.log_q, {"units": "nats"}),
            "log_reward": (each, found.log_reward, {"units": "nats"}),
            "log_weight": (each, found.log_weight, {"units": "nats"}),
            "length": (each, language.length(found.s).to(torch.int64), {"units": "tokens"}),
        },
        "log_likelihood": {"x": (each, found.log_likelihood, {"units": "nats"})},
        "posterior_predictive": {
            "x": ((*each, "bit"), found.x.to(torch.int8)),
            "ones": (each, found.x.sum(-1).to(torch.int64)),
            "correct": (each, found.correct, {"units": "bits"}),
            "log_likelihood": (each, found.log_likelihood_of_x, {"units": "nats"}),
        },
        "observed_data": {
            "x": (("input", "bit"), observed),
            "ones": ("input", observed.sum(-1, dtype=torch.int64)),
        },
        "constant_data": constant,
    }
    attributes = _attributes(chains, split, seed)
    library = {
        name: attributes[name] for name in ("inference_library", "inference_library_version")
    }
    tree = xr.DataTree.from_dict(
        {name: _dataset(group, coords, library) for name, group in groups.items()}
    )
    tree.attrs = attributes
    return tree


def to_inferencedata(
    runs: xr.DataTree | Run | str | Path | Sequence[Run | str | Path], **options: Any
) -> Any:
    """What the functions of the installed ArviZ take: InferenceData before its version 1, the tree
    itself since.

    Args:
        runs: runs, as in `to_datatree`, or a tree that it made.
        options: of `to_datatree`, where runs are given.
    """
    tree = runs if isinstance(runs, xr.DataTree) else to_datatree(runs, **options)
    az = _arviz()
    return az.from_datatree(tree) if hasattr(az, "from_datatree") else tree


def save(tree: xr.DataTree, path: str | Path) -> Path:
    """Write a tree as netCDF, all groups and attributes, as ``arviz.from_netcdf(path)`` reads it;
    returns the path.

    A file that is there is replaced at once, so that one who reads it never sees a part.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp")
    encoding = {
        group.path: {
            name: {"zlib": True}
            for name, variable in group.data_vars.items()
            if variable.dtype.kind in "fiu"
        }
        for group in tree.subtree
    }
    try:
        tree.to_netcdf(temporary, engine="h5netcdf", encoding=encoding)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


# What can be diagnosed. All take a tree, or the InferenceData that ArviZ reads from a file.


def psis(tree: Any) -> xr.Dataset:
    """Pareto-smoothed importance sampling with the path weights, for every seed and input.

    - ``pareto_k`` (chain, input): k̂, the shape of the Pareto law of the greatest weights. Up to
      0.5 the weights have a finite variance; above 0.7 neither they nor ``ess`` can be trusted.
      Infinite where next to all of the weight lies on fewer than five draws; NaN below 25 draws,
      with a warning, as no tail can be fitted to them.
    - ``ess`` (chain, input): 1 / Σ w² of the smoothed weights, Σ w = 1: between 1 and the number of
    draws.

    Weights are R(z_T, s; x) P←(path) / P(path, s), from target to sampler, so they are smoothed as
    they are (leave-one-out smooths 1 / P(x | z)). Each seed has weights of its own: they are never
    pooled.

    Source: Vehtari et al. (2024), "Pareto smoothed importance sampling".
    """
    log_weight = tree["sample_stats"]["log_weight"].astype(np.float64).drop_attrs()
    log_weight = log_weight.transpose("chain", "input", "draw")
    smoothed, shape = pareto_smoothed(torch.from_numpy(log_weight.values))
    k = log_weight.isel(draw=0, drop=True).copy(data=shape.numpy())
    draws = log_weight.sizes["draw"]
    if draws < LEAST_DRAWS:
        warnings.warn(
            f"k-hat is NaN for {draws} draw{'s' * (draws != 1)} of an input, too few to fit a tail "
            f"of weights to: "
            f"take {LEAST_DRAWS} or more",
            stacklevel=2,
        )
        k = xr.full_like(k, np.nan)
    weight = log_weight.copy(data=smoothed.exp().numpy())
    return xr.Dataset({"pareto_k": k, "ess": 1 / (weight**2).sum("draw")})


def label_free(tree: Any) -> xr.Dataset:
    """The quantities (chain, draw, input) that mean the same in every seed, those of `LABEL_FREE`.

    They do not change when tokens are renamed or the latent space is transformed; ``log_q`` does,
    as a density of states, and so it is not among them.
    """
    return xr.Dataset(
        {name: tree[group][variable] for name, (group, variable) in LABEL_FREE.items()}
    )


def label_free_rhat(tree: Any) -> xr.Dataset:
    """(input) rank-normalised R̂ across training seeds, by ``arviz.rhat``, of every label-free
    quantity.

    Near 1 where the seeds agree on how an input is described: how much is lost, in how many tokens,
    how well. Draws of
    a chain are independent, so R̂ says nothing of mixing here: it compares trained models. Its
    noise falls with the draws: of five chains that share a law, one input in twenty exceeds 1.02 at
    50 draws, and 1.006 at 200.

    Not offered for ``z`` and ``tokens``: a seed is free to rotate its latent space and to exchange
    its tokens, so
    codes that say the same differ between seeds, and R̂ of them is large whether or not the models
    agree.

    NaN for a single chain, with a warning: ArviZ would split it and compare its halves, which are
    draws of one
    law whatever the model, so the value would be near 1 for good and bad models alike. NaN too
    where a quantity never varies, and below 4 draws.
    """
    quantities = label_free(tree).drop_attrs()
    if quantities.sizes["chain"] < 2:
        warnings.warn(
            "R-hat across seeds is NaN for a single chain: give runs of two or more training seeds",
            stacklevel=2,
        )
        return xr.full_like(quantities.isel(chain=0, draw=0, drop=True), np.nan, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):  # of quantities that never vary
        rhat: xr.Dataset = _arviz().rhat(quantities)
    return rhat


def predictive_checks(tree: Any) -> xr.Dataset:
    """Bayesian p-values of test statistics T: P(T(replicate) < T(x)) + ½ P(T(replicate) = T(x)),
    over draws.

    A replicate is drawn from P(x | z_T), z_T from the sampler for the same input, so a p-value near
    0 or 1 means that what is decoded from z_T differs from the input in T. Statistics (dimension
    ``statistic``):

    - ``ones``: the number of 1s;
    - ``correct``: bits that the decoder at z_T predicts right. T depends on z_T, so it is compared
      draw by draw; p near 0 means that the decoder is surer of the bits than it is right;
    - ``log_likelihood``: log P(· | z_T), nats; read as ``correct``.

    Returns: ``p_value`` (statistic, chain, input); ``p_total`` (statistic, chain), of T summed over
    inputs;
    ``observed`` and ``replicated`` (statistic, chain), means over inputs and draws.
    ``arviz.plot_ppc`` and ``arviz.plot_bpv``, whose p-values have the same direction, draw what
    does not depend on z_T: the variables ``x`` and ``ones``.
    """
    statistics = ("ones", "correct", "log_likelihood")
    replicates = xr.Dataset({name: tree["posterior_predictive"][name] for name in statistics})
    originals = xr.Dataset(
        {
            "ones": tree["observed_data"]["ones"],
            "correct": tree["constant_data"]["c0"] - tree["posterior"]["info_loss"],
            "log_likelihood": tree["log_likelihood"]["x"],
        }
    )
    replicated, observed = (
        part.to_dataarray("statistic").astype(np.float64).drop_attrs()
        for part in (replicates, originals)
    )

    def p_value(replicate: xr.DataArray, of: xr.DataArray) -> xr.DataArray:
        return ((replicate < of) + 0.5 * (replicate == of)).mean("draw")

    return xr.Dataset(
        {
            "p_value": p_value(replicated, observed),
            "p_total": p_value(replicated.sum("input"), observed.sum("input")),
            "observed": observed.mean(["draw", "input"]),
            "replicated": replicated.mean(["draw", "input"]),
        }
    )


# Drawing.


def _load(runs: Run | str | Path | Sequence[Run | str | Path]) -> list[Run]:
    """Runs of one model, no two of a seed; a ValueError says what differs."""
    several = [runs] if isinstance(runs, Run | str | Path) else list(runs)
    if not several:
        raise ValueError("there are no runs: give one or more, of different training seeds")
    chains = [run if isinstance(run, Run) else Run(run) for run in several]
    first = chains[0]
    by_seed: dict[int, Run] = {}
    for run in chains:
        if run.seed in by_seed:
            raise ValueError(
                f"{by_seed[run.seed].path} and {run.path} both have the training seed {run.seed}: "
                f"give each seed once, "
                "as chains must be independent"
            )
        by_seed[run.seed] = run
        for table in ("run", "model", "inference"):
            for key in sorted(
                (first.config[table].keys() | run.config[table].keys()) - {*MAY_DIFFER}
            ):
                here, there = (of.config[table].get(key, "absent") for of in (first, run))
                if here != there:
                    raise ValueError(
                        f"{key} is {here!r} in {first.path} and {there!r} in {run.path}: chains "
                        f"must be runs that "
                        "differ in their training seed alone"
                    )
        if not isinstance(run.model, AttractorModel):
            raise ValueError(
                f"{run.path} holds a {type(run.model).__name__}, which has no trajectories and "
                f"path weights: give runs "
                "of an attractor model"
            )
        # what tokens cost may be found in training
        here, there = (
            replace(model.language, token_costs=()) for model in (run.model, first.model)
        )
        if here != there:
            raise ValueError(
                f"{first.path} and {run.path} speak different languages ({first.model.language} "
                f"and "
                f"{run.model.language}): chains must be of the same model"
            )
    return chains


def _inputs(chains: Sequence[Run], inputs: int, split: str, seed: int) -> Batch:
    """Inputs that all runs see, drawn from the data of the first; drawn from each, to find out data
    that differ.
    """
    batches = []
    for run in chains:
        data = run.data  # outside, as it may be drawn itself
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            batches.append(data.batch(inputs, split))
        if not torch.equal(batches[0].x, batches[-1].x):
            raise ValueError(
                f"the data of {chains[0].path} and {run.path} differ, although their settings do "
                f"not: chains must be "
                "runs on the same data"
            )
    first: Batch = batches[0]
    return first


@torch.no_grad()
def _sample(
    run: Run, x: Tensor, draws: int, steps: Sequence[int], seed: int
) -> tuple[Tensor, _Draws]:
    """c0 (B,), and the draws of a run for inputs x (B, bits)."""
    model: AttractorModel = run.model
    own = int(np.random.SeedSequence([seed % 2**64, run.seed % 2**64]).generate_state(1)[0])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(own)
        encoding = model.encode(x)
        best = correct_bits(model.decoder(encoding.distribution.loc).logits, x)
        parts = []
        for some in torch.arange(len(x)).split(max(1, ROWS // draws)):
            rows = some.repeat_interleave(draws)
            parts.append(_draw(model, encoding[rows], x[rows], best[rows], steps))
    return best, _Draws(
        *(torch.cat(field).unflatten(0, (-1, draws)) for field in zip(*parts, strict=True))
    )


def _draw(
    model: AttractorModel, encoding: Encoding, x: Tensor, best: Tensor, steps: Sequence[int]
) -> _Draws:
    """One draw for each row of `encoding` and x."""
    z = model.trajectories(encoding.z0, model.steps, encoding.context)
    reading = model.sentence_given_state(z[-1], encoding.context)
    s = reading.sample()
    decoder = model.decoder(z[-1])
    replicate = decoder.sample()
    path = score_forward(model.forward_step, Trajectories(z, encoding.context)).sum(0)
    return _Draws(
        z=z[list(steps)].movedim(0, 1),
        s=s,
        info_loss=best - correct_bits(decoder.logits, x),
        log_q=path + reading.log_prob(s),
        log_reward=model.log_reward(encoding.distribution, s) + model.log_decodability(z[-1], s),
        log_weight=path_log_weight(model, encoding, z, s),
        log_likelihood=decoder.log_prob(x).sum(-1),
        x=replicate,
        correct=correct_bits(decoder.logits, replicate),
        log_likelihood_of_x=decoder.log_prob(replicate).sum(-1),
    )


# The layout.


def _dataset(
    variables: dict[str, Any], coords: dict[str, Any], attributes: dict[str, str]
) -> xr.Dataset:
    """Variables, given as (dimensions, values) or (dimensions, values, attributes), with the
    coordinates they have.
    """
    arrays = {
        name: xr.Variable(dims, np.asarray(values), *more)
        for name, (dims, values, *more) in variables.items()
    }
    used = {str(dim): coords[str(dim)] for array in arrays.values() for dim in array.dims}
    return xr.Dataset(arrays, used, attributes)


def _attributes(chains: Sequence[Run], split: str, seed: int) -> dict[str, str]:
    tables = {
        table: {
            key: value for key, value in chains[0].config[table].items() if key not in MAY_DIFFER
        }
        for table in ("run", "model", "inference")
    }
    environments = [run.environment for run in chains]
    return {
        "inference_library": "plot_attractors",
        "inference_library_version": metadata.version("plot-attractors"),
        "config": tomlkit.dumps(tables),
        "seeds": json.dumps([run.seed for run in chains]),
        "commits": json.dumps([environment.get("commit", "") for environment in environments]),
        "versions": json.dumps([environment.get("versions", {}) for environment in environments]),
        "split": split,
        "sampling_seed": str(seed),
    }


def _arviz() -> ModuleType:
    """ArviZ, imported when it is first needed, without the announcement of its version 1 that it
    makes once a day.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz  # type: ignore[no-any-return]

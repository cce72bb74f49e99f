"""Samples of fitted runs in the layout of ArviZ, a chain for each training seed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import tomlkit
import torch
import xarray as xr
from torch import Tensor

from plot_attractors.analysis.sampling import (
    has_likelihood,
    path_log_weight,
    require_attractors,
    shows_bits,
)
from plot_attractors.data import Batch
from plot_attractors.data.checks import check_whole
from plot_attractors.gflownet.trajectories import Trajectories, score_forward
from plot_attractors.measures.information_loss import correct_bits
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.model.bits import filled
from plot_attractors.runs import Run, store
from plot_attractors.runs.settings import flatten

__all__ = ["sample_runs"]

ROWS = 2048  # trajectories drawn and scored at once
MAY_DIFFER = ("seed", "preset", "log_every")  # settings that change nothing that is sampled

Runs = Run | str | Path | Sequence[Run | str | Path]
Variables = dict[str, tuple[Any, ...]]  # (dimensions, values) or (dimensions, values, attributes)


def sample_runs(
    runs: Runs,
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
      input, position, token); ``info_loss``ᵇ (chain, draw, input), d = c0 − cT in bits;
    - ``sample_stats`` (chain, draw, input): ``log_q`` = log P(s | z_T) + Σ_t log P(z_{t+1} | z_t),
      ``log_reward`` = log R(s; x) and ``log_weight`` = `sampling.path_log_weight`, nats;
      ``length``, the tokens of s;
    - ``log_likelihood``: ``x`` (chain, draw, input) = log P(x | z_T), nats, summed over an input;
    - ``posterior_predictive``ᵇ: ``x`` (chain, draw, input, bit), a replicate from P(x | z_T), and
      of it (chain, draw, input): ``ones``, the number of its 1s; ``correct``, how many of its bits
      the decoder at z_T predicts right; ``log_likelihood`` = log P(replicate | z_T), nats;
    - ``observed_data``ᵇ: ``x`` (input, bit), ``ones`` (input);
    - ``constant_data``: ``c0``ᵇ (chain, input), bits predicted right from z_0; ``split``; ``y``,
      the number of the input's class, row or image (input); ``class_name`` where classes have
      names; ``name`` (input) of rows that have one; ``labels`` (input, label) where there are any,
      -1 where unspecified, and ``label_value``, the same as text.

    ᵇ of inputs that are vectors of bits, and not images.

    The root's attributes are text: ``config`` (TOML, shared by all runs); ``seeds``, ``commits``
    and ``versions`` (JSON lists, an entry a run); ``split``, ``sampling_seed``,
    ``inference_library`` and its version.

    Args:
        runs: one fitted run or several, as runs or as directories.
        inputs: B, drawn once, from the data of the first run.
        draws: trajectories of each input in each chain.
        split: which inputs, as `data.batch` takes it.
        states: keep the states of all steps.
        seed: of inputs and draws. A chain's draws depend on this seed and on its training seed
            alone. The caller's random state is left alone.

    Raises ValueError: no runs, two of one seed, runs that differ in more than the seed, a model
    without attractor dynamics, an unknown split, or a number of inputs or draws below 1.
    """
    chains = _load(runs)
    check_whole("the number of draws for each input", draws)
    for run in chains:
        if not has_likelihood(run):
            raise ValueError("inputs have no probability in what the decoder gives")
    batch, data = _inputs(chains, inputs, split, seed), chains[0].data
    model: AttractorModel = chains[0].model
    language, bits = model.language, shows_bits(chains[0])
    steps = tuple(range(model.steps + 1)) if states else (0, model.steps)
    sampled = [_sample(run, batch.x, draws, steps, seed, bits) for run in chains]
    # every field (chain, draw, input, …)
    fields = {
        name: torch.stack([chain[name] for chain in sampled]).transpose(1, 2).cpu()
        for name in sampled[0]
    }
    coords: dict[str, Any] = {
        "chain": [run.seed for run in chains],
        "draw": np.arange(draws),
        "input": np.arange(inputs),
        "step": list(steps),
        "latent": np.arange(model.latent),
        "position": np.arange(language.longest),
        "token": [language.token_name(k) for k in range(language.tokens)],
        "bit": list(getattr(data, "columns", range(batch.x.shape[1]))) if bits else [],
        "label": list(data.label_names),
    }
    attributes = _attributes(chains, split, seed)
    library = {k: attributes[k] for k in ("inference_library", "inference_library_version")}
    groups = _groups(model, fields)
    groups["constant_data"] = _constants(data, batch, split)
    if bits:
        _add_bits(groups, fields, batch.x)
    tree = xr.DataTree.from_dict(
        {name: _dataset(group, coords, library) for name, group in groups.items()}
    )
    tree.attrs = attributes
    return tree


def _load(runs: Runs) -> list[Run]:
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
                "give each seed once, as chains must be independent"
            )
        by_seed[run.seed] = run
        for table in store.TABLES:
            ours, theirs = (flatten(one.config[table]) for one in (first, run))
            for key in sorted((ours.keys() | theirs.keys()) - {*MAY_DIFFER}):
                here, there = (one.get(key, "absent") for one in (ours, theirs))
                if here != there:
                    raise ValueError(
                        f"{key} is {here!r} in {first.path} and {there!r} in {run.path}: chains "
                        "must be runs that differ in their training seed alone"
                    )
        require_attractors(run.model)
        if first.model.language != run.model.language:
            raise ValueError(
                f"{first.path} and {run.path} have different languages ({first.model.language} "
                f"and {run.model.language}): chains must be of the same model"
            )
    return chains


def _inputs(chains: Sequence[Run], inputs: int, split: str, seed: int) -> Batch:
    """Inputs that all runs see, drawn from the data of each, to refuse data that differ."""
    batches: list[Batch] = []
    for run in chains:
        data = run.data  # outside, as it may be drawn itself
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            batches.append(data.batch(inputs, split))
        if not torch.equal(*(filled(batches[k].x) for k in (0, -1))):
            raise ValueError(
                f"the data of {chains[0].path} and {run.path} differ, although their settings do "
                "not: chains must be runs on the same data"
            )
    return batches[0]


@torch.no_grad()
def _sample(
    run: Run, x: Tensor, draws: int, steps: Sequence[int], seed: int, bits: bool
) -> dict[str, Tensor]:
    """What a run draws for inputs x (B, …), every field (B, draws, …)."""
    model: AttractorModel = run.model
    own = int(np.random.SeedSequence([seed % 2**64, run.seed % 2**64]).generate_state(1)[0])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(own)
        encoding = model.encode(x)
        parts = []
        for some in torch.arange(len(x)).split(max(1, ROWS // draws)):
            rows = some.repeat_interleave(draws)
            parts.append(_draw(model, encoding[rows], x[rows], steps, bits))
    return {
        name: torch.cat([part[name] for part in parts]).unflatten(0, (-1, draws))
        for name in parts[0]
    }


def _draw(
    model: AttractorModel, encoding: Encoding, x: Tensor, steps: Sequence[int], bits: bool
) -> dict[str, Tensor]:
    """One draw for each row of `encoding` and x."""
    z = model.trajectories(encoding.z0, model.steps)
    readout = model.readout(z[-1], encoding.z0)
    s = readout.sample()
    decoder = model.decoder(z[-1])
    path = score_forward(model.forward_step, Trajectories(z, encoding.z0)).sum(0)
    fields = {
        "z": z[list(steps)].movedim(0, 1),
        "s": s,
        "log_q": path + readout.log_prob(s),
        "log_reward": model.reward(encoding.distribution, None, s),
        "log_weight": path_log_weight(model, encoding, z, s),
        "log_likelihood": decoder.log_prob(x).flatten(1).sum(-1),
    }
    if bits:
        replicate = torch.where(x.isnan(), torch.nan, decoder.sample())
        best = correct_bits(model.decoder(encoding.distribution.loc).logits, x)
        fields |= {
            "c0": best,
            "info_loss": best - correct_bits(decoder.logits, x),
            "x": replicate,
            "correct": correct_bits(decoder.logits, replicate),
            "log_likelihood_of_x": decoder.log_prob(replicate).sum(-1),
        }
    return fields


# The layout.

EACH, NATS, BITS = ("chain", "draw", "input"), {"units": "nats"}, {"units": "bits"}


def _groups(model: AttractorModel, fields: dict[str, Tensor]) -> dict[str, Variables]:
    language, tokens = model.language, fields["s"]
    dims: tuple[str, ...] = (*EACH, "token")
    if language.ordered:
        tokens = tokens.unflatten(-1, (language.longest, language.tokens))
        dims = (*EACH, "position", "token")
    stats = {name: (EACH, fields[name], NATS) for name in ("log_q", "log_reward", "log_weight")}
    length = (EACH, language.length(fields["s"]).to(torch.int64), {"units": "tokens"})
    return {
        "posterior": {
            "z": ((*EACH, "step", "latent"), fields["z"]),
            "tokens": (dims, tokens.to(torch.int8)),
        },
        "sample_stats": {**stats, "length": length},
        "log_likelihood": {"x": (EACH, fields["log_likelihood"], NATS)},
    }


def _constants(data: Any, batch: Batch, split: str) -> Variables:
    known: Variables = {"split": ("input", np.full(len(batch.x), split)), "y": ("input", batch.y)}
    if hasattr(data, "class_names"):
        known["class_name"] = ("input", [data.class_names[k] for k in batch.y.tolist()])
    if names := getattr(data, "row_names", ()):
        known["name"] = ("input", [names[k] for k in batch.y.tolist()])
    if data.label_names:
        known["labels"] = (("input", "label"), batch.labels)
        outcomes = [f.outcomes if f.categorical else () for f in getattr(data, "features", ())]
        if len(outcomes) == batch.labels.shape[1]:
            texts = [
                [of[k] if 0 <= k < len(of) else "" for k, of in zip(row, outcomes, strict=True)]
                for row in batch.labels.tolist()
            ]
            known["label_value"] = (("input", "label"), texts)
    return known


def _add_bits(groups: dict[str, Variables], fields: dict[str, Tensor], x: Tensor) -> None:
    """What is known of vectors of bits x (B, bits) only."""
    groups["posterior"]["info_loss"] = (EACH, fields["info_loss"], BITS)
    groups["constant_data"]["c0"] = (("chain", "input"), fields["c0"][:, 0], BITS)
    groups["posterior_predictive"] = {
        "x": ((*EACH, "bit"), _codes(fields["x"])),
        "ones": (EACH, fields["x"].nansum(-1).to(torch.int64)),
        "correct": (EACH, fields["correct"], BITS),
        "log_likelihood": (EACH, fields["log_likelihood_of_x"], NATS),
    }
    groups["observed_data"] = {
        "x": (("input", "bit"), _codes(x)),
        "ones": ("input", x.nansum(-1).to(torch.int64)),
    }


def _codes(x: Tensor) -> Tensor:
    """int8 bits, −1 where they are missing."""
    return x.nan_to_num(-1).to(torch.int8)


def _dataset(
    variables: Variables, coords: dict[str, Any], attributes: dict[str, str]
) -> xr.Dataset:
    """Variables with the coordinates of the dimensions that they have."""
    arrays = {
        name: xr.Variable(dims, np.asarray(values), *more)
        for name, (dims, values, *more) in variables.items()
    }
    for array in arrays.values():
        if array.dtype.kind in "fiu":  # texts cannot be compressed
            array.encoding["zlib"] = True
    used = {str(dim): coords[str(dim)] for array in arrays.values() for dim in array.dims}
    return xr.Dataset(arrays, used, attributes)


def _attributes(chains: Sequence[Run], split: str, seed: int) -> dict[str, str]:
    tables = {
        table: {
            key: value for key, value in chains[0].config[table].items() if key not in MAY_DIFFER
        }
        for table in store.TABLES
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

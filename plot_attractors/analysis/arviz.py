"""Samples of fitted runs in the layout of ArviZ, a chain for each training seed, and checks."""

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

from plot_attractors.analysis import sampling
from plot_attractors.gflownet.trajectories import Trajectories, score_forward
from plot_attractors.measures.information_loss import correct_bits
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.pareto import arviz
from plot_attractors.runs import Run, store
from plot_attractors.runs.settings import flatten

__all__ = ["label_free", "label_free_rhat", "predictive_check", "sample_runs"]

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
    - ``posterior_predictive``ᵇ: ``x`` (chain, draw, input, bit), a replicate from P(x | z_T), −1
      where x is missing, and ``ones`` (chain, draw, input), the number of its 1s;
    - ``observed_data``ᵇ: ``x`` (input, bit), ``ones`` (input);
    - ``constant_data`` (input): ``y``, the number of the input's class, row or image; ``name`` of
      classes and rows that have one; ``labels`` (input, label) where there are any, -1 where
      unspecified.

    ᵇ of inputs that are vectors of bits, and not images.

    The root's attributes are text: ``config`` (TOML, shared by all runs), ``seeds`` (a JSON list),
    ``split``, ``sampling_seed``, ``inference_library`` and its version.

    Args:
        runs: one fitted run or several, as runs or as directories.
        inputs: B, drawn once, from the data of the first run.
        draws: trajectories of each input in each chain.
        split: which inputs, as `data.batch` takes it.
        states: keep the states of all steps.
        seed: of inputs and draws. A chain's draws depend on this seed and on its training seed
            alone. The caller's random state is left alone.

    Raises ValueError: two runs of one seed, runs that differ in more than the seed, or inputs that
    have no probability in what the decoder gives.
    """
    several = [runs] if isinstance(runs, Run | str | Path) else runs
    chains = [run if isinstance(run, Run) else Run(run) for run in several]
    _require_chains(chains)
    data, model = chains[0].data, chains[0].model
    language, bits = model.language, sampling.shows_bits(chains[0])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        batch = data.batch(inputs, split)
    steps = tuple(range(model.steps + 1)) if states else (0, model.steps)
    sampled = [_sample(run, batch.x, draws, steps, seed, bits) for run in chains]
    # every field (chain, draw, input, …)
    fields = {
        name: torch.stack([chain[name] for chain in sampled]).transpose(1, 2).cpu()
        for name in sampled[0]
    }
    coords: dict[str, Any] = {
        "chain": [run.seed for run in chains],
        "step": list(steps),
        "token": [language.token_name(k) for k in range(language.tokens)],
        "bit": list(getattr(data, "columns", range(batch.x.shape[1]))) if bits else [],
        "label": list(data.label_names),
    }
    groups = _groups(model, fields, batch.x, bits)
    known: Variables = {"y": ("input", batch.y)}
    if names := getattr(data, "class_names", ()) or getattr(data, "row_names", ()):
        known["name"] = ("input", [names[k] for k in batch.y.tolist()])
    if data.label_names:
        known["labels"] = (("input", "label"), batch.labels)
    groups["constant_data"] = known
    tree = xr.DataTree.from_dict({name: _dataset(group, coords) for name, group in groups.items()})
    tree.attrs = {
        "inference_library": "plot_attractors",
        "inference_library_version": metadata.version("plot-attractors"),
        "config": tomlkit.dumps(_settings(chains[0])),
        "seeds": json.dumps(coords["chain"]),
        "split": split,
        "sampling_seed": str(seed),
    }
    return tree


def _settings(run: Run) -> dict[str, dict[str, Any]]:
    """Those of the tables of config.toml that chains share."""
    return {
        table: {key: value for key, value in run.config[table].items() if key not in MAY_DIFFER}
        for table in store.TABLES
    }


def _require_chains(chains: Sequence[Run]) -> None:
    """Refuse runs of one seed, and of models that are not the same."""
    if len({run.seed for run in chains}) < len(chains):
        raise ValueError("two runs have the same training seed: chains must be independent")
    first = flatten(_settings(chains[0]))
    for run in chains:
        if not sampling.has_likelihood(run):
            raise ValueError("inputs have no probability in what the decoder gives")
        own = flatten(_settings(run))
        for key in sorted(first.keys() | own.keys()):
            here, there = (settings.get(key, "absent") for settings in (first, own))
            if here != there:
                raise ValueError(
                    f"{key} is {here!r} in {chains[0].path} and {there!r} in {run.path}: chains "
                    "must be runs that differ in their training seed alone"
                )


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
        "log_weight": sampling.path_log_weight(model, encoding, z, s),
        "log_likelihood": decoder.log_prob(x).flatten(1).sum(-1),
    }
    if bits:
        best = correct_bits(model.decoder(encoding.distribution.loc).logits, x)
        fields["info_loss"] = best - correct_bits(decoder.logits, x)
        fields["x"] = torch.where(x.isnan(), torch.nan, decoder.sample())
    return fields


# The layout.

EACH, NATS = ("chain", "draw", "input"), {"units": "nats"}


def _groups(
    model: AttractorModel, fields: dict[str, Tensor], x: Tensor, bits: bool
) -> dict[str, Variables]:
    """The groups of what was drawn, fields (chain, draw, input, …), for inputs x (B, …)."""
    language, tokens = model.language, fields["s"].to(torch.int8)
    dims: tuple[str, ...] = (*EACH, "token")
    if language.ordered:
        tokens = tokens.unflatten(-1, (language.longest, language.tokens))
        dims = (*EACH, "position", "token")
    posterior: Variables = {"z": ((*EACH, "step", "latent"), fields["z"]), "tokens": (dims, tokens)}
    stats = {name: (EACH, fields[name], NATS) for name in ("log_q", "log_reward", "log_weight")}
    length = (EACH, language.length(fields["s"]).to(torch.int64), {"units": "tokens"})
    groups: dict[str, Variables] = {
        "posterior": posterior,
        "sample_stats": {**stats, "length": length},
        "log_likelihood": {"x": (EACH, fields["log_likelihood"], NATS)},
    }
    if bits:
        posterior["info_loss"] = (EACH, fields["info_loss"], {"units": "bits"})
        groups["posterior_predictive"] = _bits(EACH, fields["x"])
        groups["observed_data"] = _bits(("input",), x)
    return groups


def _bits(dims: tuple[str, ...], x: Tensor) -> Variables:
    return {
        "x": ((*dims, "bit"), x.nan_to_num(-1).to(torch.int8)),
        "ones": (dims, x.nansum(-1).to(torch.int64)),
    }


def _dataset(variables: Variables, coords: dict[str, Any]) -> xr.Dataset:
    """Variables with the coordinates of the dimensions that they have, else numbers from 0."""
    arrays = {
        name: xr.Variable(dims, np.asarray(values), *more)
        for name, (dims, values, *more) in variables.items()
    }
    sizes = {str(dim): n for array in arrays.values() for dim, n in array.sizes.items()}
    return xr.Dataset(arrays, {dim: coords.get(dim, np.arange(n)) for dim, n in sizes.items()})


# Of a tree, or of what ArviZ reads from its file.


def label_free(tree: Any) -> xr.Dataset:
    """The quantities (chain, draw, input) that mean the same in every training seed: ``info_loss``
    of bits, ``length``, ``log_reward``, ``log_weight``, and ``log_likelihood``.

    They do not change when tokens are renamed or the latent space is transformed; ``log_q``, a
    density of states, does.
    """
    stats, posterior = tree["sample_stats"], tree["posterior"]
    lost = {"info_loss": posterior["info_loss"]} if "info_loss" in posterior else {}
    known = {name: stats[name] for name in ("length", "log_reward", "log_weight")}
    return xr.Dataset(lost | known | {"log_likelihood": tree["log_likelihood"]["x"]})


def label_free_rhat(tree: Any) -> xr.Dataset:
    """(input) rank-normalised R̂ across training seeds, by ``arviz.rhat``, of label-free quantities.

    Near 1 where the seeds agree on how an input is described: how much is lost, in how many tokens,
    how well. This compares trained models and is no test of mixing, as draws of a chain are
    independent. Of five chains of one distribution, one input in twenty exceeds 1.02 at 50 draws,
    and 1.006 at 200. Not offered for ``z`` and ``tokens``: a seed is free to rotate its latent
    space and to exchange its tokens. NaN where a quantity never varies, and below 4 draws.

    Raises ValueError for a single chain, whose halves ArviZ would compare.
    """
    quantities = label_free(tree).drop_attrs()
    if quantities.sizes["chain"] < 2:
        raise ValueError("R-hat across seeds needs runs of two or more training seeds")
    with np.errstate(invalid="ignore", divide="ignore"):  # of quantities that never vary
        rhat: xr.Dataset = arviz().rhat(quantities)
    return rhat


def predictive_check(tree: Any) -> xr.Dataset:
    """The Bayesian p-value ``p_total`` (chain) of the number T of 1s, summed over inputs,
    P(T(replicate) < T(x)) + ½ P(T(replicate) = T(x)); beside it ``observed`` () and ``replicated``
    (chain), means over inputs and draws.

    A replicate is drawn from P(x | z_T), z_T from the sampler for the same input, so a p-value near
    0 or 1 means that what is decoded from z_T differs from the input. Needs vectors of bits.
    """
    replicated = tree["posterior_predictive"]["ones"].astype(float).drop_attrs()
    observed = tree["observed_data"]["ones"].astype(float).drop_attrs()
    sums, total = replicated.sum("input"), observed.sum("input")
    return xr.Dataset(
        {
            "p_total": ((sums < total) + 0.5 * (sums == total)).mean("draw"),
            "observed": observed.mean("input"),
            "replicated": replicated.mean(["draw", "input"]),
        }
    )

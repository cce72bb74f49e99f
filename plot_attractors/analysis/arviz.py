"""Samples of a fitted run in the layout of ArviZ, and a check of what is decoded from them."""

from __future__ import annotations

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
from plot_attractors.runs import Run, store

__all__ = ["label_free", "predictive_check", "sample_run"]

ROWS = 2048  # trajectories drawn and scored at once
EACH, NATS = ("chain", "draw", "input"), {"units": "nats"}

Variables = dict[str, tuple[Any, ...]]  # (dimensions, values) or (dimensions, values, attributes)


def sample_run(run: Run, *, inputs: int = 64, draws: int = 100, seed: int = 0) -> xr.DataTree:
    """Sentences and states drawn for training inputs of a run.

    The *chain* is the run, by its training seed, a *draw* a trajectory z_0, …, z_T from the forward
    dynamics with a sentence s read from z_T; draws are independent. The groups, with B = `inputs`:

    - ``posterior``: ``z`` (chain, draw, input, step, latent), steps 0 and T; ``tokens`` (chain,
      draw, input, token) 0 or 1; ``info_loss``ᵇ (chain, draw, input), d = c0 − cT in bits;
    - ``sample_stats`` (chain, draw, input): ``log_q`` = log P(s | z_T) + Σ_t log P(z_{t+1} | z_t),
      ``log_reward`` = log R(s; x) and ``log_weight`` = `sampling.path_log_weight`, nats;
      ``length``, the tokens of s;
    - ``log_likelihood``: ``x`` (chain, draw, input) = log P(x | z_T), nats, summed over an input;
    - ``posterior_predictive``ᵇ: ``x`` (chain, draw, input, bit), a replicate from P(x | z_T), −1
      where x is missing, and ``ones`` (chain, draw, input), the number of its 1s;
    - ``observed_data``ᵇ: ``x`` (input, bit), ``ones`` (input);
    - ``constant_data`` (input): ``y``, the number of the input's class, row or image.

    ᵇ of inputs that are vectors of bits, and not images. The root's attribute ``config`` is TOML.

    Args:
        inputs: B, drawn once.
        draws: trajectories of each input.
        seed: of inputs and draws: runs on the same data see the same inputs, and the draws of a run
            depend on this seed and on its training seed. The caller's random state is left alone.

    Raises ValueError where inputs have no probability in what the decoder gives.
    """
    if not sampling.has_likelihood(run):
        raise ValueError("inputs have no probability in what the decoder gives")
    language, bits = run.model.language, sampling.kind_of_inputs(run) == sampling.BITS
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        batch = run.data.batch(inputs)
    # every field (chain, draw, input, …)
    fields = _sample(run, batch.x, draws, seed, bits)
    tokens = fields["s"].to(torch.int8)
    length = fields["s"].sum(-1).to(torch.int64)
    stats = {name: (EACH, fields[name], NATS) for name in ("log_q", "log_reward", "log_weight")}
    groups: dict[str, Variables] = {
        "posterior": {
            "z": ((*EACH, "step", "latent"), fields["z"]),
            "tokens": ((*EACH, "token"), tokens),
        },
        "sample_stats": {**stats, "length": (EACH, length, {"units": "tokens"})},
        "log_likelihood": {"x": (EACH, fields["log_likelihood"], NATS)},
        "constant_data": {"y": ("input", batch.y)},
    }
    coords: dict[str, Any] = {
        "chain": [run.seed],
        "step": [0, run.model.steps],
        "token": [language.token_name(k) for k in range(language.tokens)],
    }
    if bits:
        groups["posterior"]["info_loss"] = (EACH, fields["info_loss"], {"units": "bits"})
        groups["posterior_predictive"] = _bits(EACH, fields["x"])
        groups["observed_data"] = _bits(("input",), batch.x)
        coords["bit"] = list(getattr(run.data, "columns", range(batch.x.shape[1])))
    tree = xr.DataTree.from_dict({name: _dataset(group, coords) for name, group in groups.items()})
    tree.attrs = {"config": tomlkit.dumps({table: run.config[table] for table in store.TABLES})}
    return tree


@torch.no_grad()
def _sample(run: Run, x: Tensor, draws: int, seed: int, bits: bool) -> dict[str, Tensor]:
    """What a run draws for inputs x (B, …), every field (1, draws, B, …)."""
    model: AttractorModel = run.model
    own = int(np.random.SeedSequence([seed % 2**64, run.seed % 2**64]).generate_state(1)[0])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(own)
        encoding = model.encode(x)
        parts = []
        for some in torch.arange(len(x)).split(max(1, ROWS // draws)):
            rows = some.repeat_interleave(draws)
            parts.append(_draw(model, encoding[rows], x[rows], bits))
    fields = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return {k: v.unflatten(0, (-1, draws)).transpose(0, 1)[None].cpu() for k, v in fields.items()}


def _draw(model: AttractorModel, encoding: Encoding, x: Tensor, bits: bool) -> dict[str, Tensor]:
    """One draw for each row of `encoding` and x."""
    z = model.trajectories(encoding.z0, model.steps)
    readout = model.readout(z[-1], encoding.z0)
    s = readout.sample()
    latent = z[..., : model.latent]
    decoder = model.decoder(latent[-1])
    path = score_forward(model.forward_step, Trajectories(z, encoding.z0)).sum(0)
    fields = {
        "z": latent[[0, -1]].movedim(0, 1),
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

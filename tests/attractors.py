"""Small attractor models, and what tests of their programs share."""

from __future__ import annotations

import io
from collections.abc import Callable, Container, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.testing import assert_close

from plot_attractors.runs import registry
from plot_attractors.runs.settings import flatten, from_table

from .small import as_built

BITS, D, T, B = 8, 3, 4, 5
HBV = {
    "depth": 3, "bits": BITS, "language.groups": (2, 2, 2), "latent": D, "steps": T, "units": 16,
}  # fmt: skip

Settings = Mapping[str, Any]


def with_data(settings: Settings, name: str = "hbv", of: str | None = None) -> tuple[Any, Any]:
    """A model as it is built, and its data, `of` a data set by its name; that of the algorithms
    where the settings are its own.
    """
    own = {"reward.decodability", "dynamics.max_sd", "dynamics.features"}
    if name != "algorithms" and (own & {*settings} or settings.get("readout") == "any_order"):
        name, of = "algorithms", of or name
    return as_built(name, data=of, preset="smoke", settings=settings)


def tiny(settings: Settings | None = None, name: str = "hbv") -> Any:
    """A model of 26 sentences in three dimensions, none of its parameters at 0."""
    model, _ = with_data(HBV | dict(settings or {}), name)
    with torch.no_grad():  # what starts at zero would hide whether it is used
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return model


def sprites(settings: Settings | None = None) -> tuple[Any, Any]:
    """A model of sentences of up to three of six tokens, each along one of eight axes, and data."""
    torch.manual_seed(1)
    model, data = with_data(settings or {}, "dsprites")
    for p in model.sentence_encoder.parameters():
        torch.nn.init.normal_(p)
    return model, data


def inputs(n: int = B) -> Tensor:
    return torch.randint(2, (n, BITS)).float()


def schedule(name: str, model: Any, data: Any, settings: Settings) -> Any:
    """The schedule of an inference program: the preset smoke, with settings by dotted names."""
    program = registry.load("inference", name)
    table = flatten(program.PRESETS["smoke"]) | dict(settings)
    return program.build(model, data, from_table(program.Config, table))


def run_to(fit: Any, name: str, cycle: int = 0) -> Any:
    """The schedule before the first update of a phase."""
    while (fit.phase.name, fit.phase.cycle) != (name, cycle):
        fit.step()
    return fit


def changed(model: Any, before: Mapping[str, Tensor]) -> set[str]:
    """The parts of a model whose state differs from an earlier one."""
    return {
        name.split(".")[0]
        for name, now in model.state_dict().items()
        if name not in before or not torch.equal(now, before[name])
    }


def snapshot(model: Any) -> dict[str, Tensor]:
    return {name: part.clone() for name, part in model.state_dict().items()}


def assert_resumes(build: Callable[[], Any], stops: Container[int]) -> None:
    """A schedule that is stopped at such positions goes on as if nothing had happened."""
    torch.manual_seed(1)
    whole, files, metrics = build(), {}, []
    while not whole.done:
        if whole.position in stops:
            file = files[whole.position] = io.BytesIO()
            torch.save((whole.state_dict(), torch.get_rng_state()), file)
        metrics.append(whole.step())
    for position, file in files.items():
        torch.manual_seed(99)  # another model and random state, which are overwritten
        resumed = build()
        file.seek(0)
        state, rng = torch.load(file, weights_only=True)
        resumed.load_state_dict(state)
        torch.set_rng_state(rng)
        assert resumed.position == position
        rest = []
        while not resumed.done:
            rest.append(resumed.step())
        assert rest == metrics[position:], f"stopped at {position}"
        assert_close(resumed.state_dict(), whole.state_dict(), rtol=0, atol=0)

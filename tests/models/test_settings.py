"""Settings of every model program: copies and variants train as their originals, all are listed,
and each of them does something or is refused.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch
from torch.overrides import TorchFunctionMode
from typer.testing import CliRunner

from plot_attractors.cli import shared
from plot_attractors.ranges import range_of
from plot_attractors.runs import fit, registry
from plot_attractors.runs.run import plan, programs
from plot_attractors.runs.settings import as_text, fields, from_table

MODELS, INFERENCE = registry.names("models"), registry.names("inference")
DATA = registry.names("datasets")
PRESETS = {
    name.rpartition("/")[2]
    for kind, names in (("models", MODELS), ("datasets", DATA), ("inference", INFERENCE))
    for program in names
    for name in registry.load(kind, program).PRESETS  # type: ignore[arg-type]
}


# -- copies and variants


def planned(program: Any, inference: Any, preset: str, data: Any = None) -> Any:
    """What would be trained, or the sentence that refuses it; without names of programs."""
    try:
        config = dict(plan(program, inference, preset=preset, data=data).config)
    except ValueError as error:
        return re.sub(r"(?<= program )\S+", "", str(error))
    return {part: table for part, table in config.items() if part != "run"}


def copied(kind: Any, name: str, folder: Path) -> Path:
    """A copy of a program, of another name."""
    copy = folder / f"my_{kind}_{name}.py"
    copy.write_bytes(registry.find(kind, name).read_bytes())
    return copy


@pytest.mark.parametrize("model", ["attractor", "algorithms", "vqvae", "grammar"])
def test_a_copy_trains_as_its_original(model: str, tmp_path: Path) -> None:
    """With every inference program, copied too, and every preset."""
    copy, trained = copied("models", model, tmp_path), 0
    inference = {name: copied("inference", name, tmp_path) for name in INFERENCE}
    for preset in PRESETS:
        for data in (None, *DATA):
            assert planned(copy, None, preset, data) == planned(model, None, preset, data)
        for name in INFERENCE:
            original = planned(model, name, preset)
            assert planned(copy, inference[name], preset) == original
            trained += isinstance(original, dict)
    assert trained > len(INFERENCE)
    run = plan(copy).config["run"]
    assert run["inference"] == plan(model).config["run"]["inference"]


# -- the list


@pytest.mark.parametrize("model", ["hbv", "table", "algorithms", "vqvae", "grammar"])
def test_all_settings_of_a_fit_are_listed_with_their_values(model: str) -> None:
    printed = CliRunner().invoke(shared.app, ["settings", model]).stdout
    lines = re.findall(r"^  (\S+) += ?(.*?)  \(", printed, flags=re.MULTILINE)
    configs = plan(model).configs.values()
    values = {n: as_text(attrgetter(n)(c)) for c in configs for n in fields(type(c))}
    assert sorted(lines) == sorted(values.items())


# -- every setting does something, or is refused


class SameDraws(TorchFunctionMode):
    """Every random tensor depends on its own size and distribution alone, and not on what was drawn
    before, so that two models differ by what they are made of.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        torch.default_generator.manual_seed(0)
        return func(*args, **(kwargs or {}))


BESIDE: dict[str, dict[str, Any]] = {  # what a setting needs to have an effect
    "split_seed": {"held_out_fraction": 0.5},
    "names": {"ignore": ("legs",)},
    "labels": {"ignore": ("animal",)},
}
SMALL = {"units": 16, "latent": 4, "steps": 3, "dynamics.features": 8}
OTHER: dict[str, Any] = {  # values that change what is there
    "language.length_cost": 0.25, "language.groups": (1,) * 5, "language.max_length": 2,
    "side": 8, "depth": 2, "bits": 32, "labels": ("family", "legs"), "names": "animal",
    "ignore": ("legs", "animal", "new"), "held_out": "new", "held_out_fraction": 0.5,
    "continuous": ("legs",), "missing": "ignore",
}  # fmt: skip


def changed(config: type, name: str, base: Any) -> Any:
    """Another value of a setting than that of the base, or its default."""
    if name in OTHER:
        return OTHER[name]
    head, _, rest = name.partition(".")
    hints = get_type_hints(config, include_extras=True)
    part = hints[head] if rest else config
    hint, _ = range_of(get_type_hints(part, include_extras=True)[rest or head])
    default = base.get(name, fields(config)[name].default)
    if isinstance(default, str):
        return next(option for option in get_args(hint) if option != default)
    if isinstance(default, bool):
        return not default
    return default + 1 if isinstance(default, int) else default * 0.75


def observed(model: Any, data: Any) -> Iterator[Any]:
    """Parameters, and what the parts do with the same random numbers; the data."""
    yield from model.state_dict().items()
    x = data.batch(6).x
    torch.manual_seed(0)
    with torch.no_grad():
        e = model.encode(x)
        s, z = model.draw_prior(6), model.trajectories(e.z0)
        end = z[-1, :, : model.latent]
        yield s, z, model.reward(e.distribution, end, s)
        yield model.terminal_kernel(s).scale, model.backward_dynamics(z[1], 2, e.z0).scale
        yield model.decoder(end).variance
    torch.manual_seed(0)
    yield tuple(model.describe(x, 3))


# Paths, without which there are no such data; and what to do with missing values: there are none.
OF_FILES = {"path", "table", "missing"}


@pytest.mark.parametrize("model", ["hbv", "table", "images", "algorithms"])
def test_every_setting_of_an_attractor_model_has_an_effect_or_is_refused(
    model: str, files: Any
) -> None:
    of = programs(model)
    configs = {part: of.configs[part] for part in ("data", "model")}
    full = {name: v for part in configs for name, v in of.presets[part].get("smoke", {}).items()}
    base = full | SMALL | files.get("complete" if model == "table" else model, {})

    def made(settings: Any) -> Any:
        """What is observed; None where the settings are refused with a sentence."""
        with SameDraws(), suppress(ValueError), torch.random.fork_rng():
            result = {
                part: from_table(c, {n: v for n, v in settings.items() if n in fields(c)})
                for part, c in configs.items()
            }
            data = of.data.load(result["data"])
            return pickle.dumps((*observed(of.model.build(result["model"], data), data), data))
        return None

    plain, same, refused = made(base), set(), set()
    known = {name: config for config in configs.values() for name in fields(config)}
    for name in set(known) - OF_FILES:
        rest = base | BESIDE.get(name, {})
        before = plain if rest == base else made(rest)
        after = made(rest | {name: changed(known[name], name, base)})
        if after is None:
            refused.add(name)
        elif before == after:
            same.add(name)
    assert not refused
    assert same <= {"pixel_noise"}  # of what is no image


@pytest.mark.parametrize(
    ("model", "inference", "settings", "reason"),
    [
        ("hbv", None, {"cycles": 0, "e_updates": 7}, "there are no cycles"),
        ("dsprites", None, {"readout": "discretizer"}, ""),
        ("table", None, {"split_seed": 1}, "held_out_fraction is 0"),
        ("grammar", None, {"hold_out_seed": 1, "hold_out": False}, "nothing is held out"),
    ],
)
def test_settings_without_effect_beside_the_others_are_refused(
    model: str, inference: str | None, settings: Any, reason: str
) -> None:
    if not reason:
        plan(model, inference, settings=settings)
        return
    with pytest.raises(ValueError, match=f"has no effect here: .*{reason}"):
        plan(model, inference, settings=settings)


def test_a_width_that_a_replaced_part_ignores_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "from plot_attractors.model.networks import InputEncoder\n"
        "from plot_attractors.runs import registry\n"
        "vqvae = registry.load('models', 'vqvae')\n"
        "Config, PRESETS = vqvae.Config, vqvae.PRESETS\n"
        "def build(config, data):\n"
        "    return InputEncoder(data.input_shape, config.latent, 16)\n"
    )
    for program, settings in ((own, {"units": 32, "latent": 3}), (own, {"units": 32})):
        with pytest.raises(ValueError, match="the setting 'units' has no effect here: no param"):
            fit(program, "vqvae", preset="smoke", settings=settings, out=tmp_path / "run")
    with pytest.raises(ValueError, match="fits models of the kind VQVAE"):  # built, and no more
        fit(own, "vqvae", preset="smoke", settings={"latent": 3}, out=tmp_path / "other")

"""The model of the paper's text and algorithms: `attractor` with g_θ and Z_θ, and what differs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from plot_attractors.data import DataSet
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.networks import Discretizer, Dynamics, FlowCorrection, LogPartition
from plot_attractors.model.nn import Fourier
from plot_attractors.model.reward import Decodability
from plot_attractors.ranges import Features, Positive, setting
from plot_attractors.runs import registry

attractor = registry.load("models", "attractor")
language = attractor.language


@dataclass(frozen=True)
class DynamicsConfig(attractor.DynamicsConfig):  # type: ignore[misc, name-defined]
    features: Features = setting(256, "random Fourier features of z; 0: plain networks (the paper)")
    max_sd: Positive = setting(0.2, "bound of a transition's standard deviation")

    patterns: ClassVar[int] = 1  # of what is replaced
    min_sd: ClassVar[float] = 0.001


@dataclass(frozen=True)
class RewardConfig(attractor.RewardConfig):  # type: ignore[misc, name-defined]
    decodability: Decodability = setting("none", "the factor in z_T")


@dataclass(frozen=True)
class Config(attractor.Config):  # type: ignore[misc, name-defined]
    readout: Literal["exact", "discretizer", "any_order"] = setting(
        "exact",
        "P(s | z) where it can be exact, or the learned one: of z with one order of tokens, or "
        "P(s | z, x) with any order, a backward policy that takes a token away, and z0 ~ P(z0 | "
        "x)",
    )
    dynamics: DynamicsConfig = field(default_factory=DynamicsConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)

    pixel_noise: ClassVar[float] = 0.15
    INFERENCE: ClassVar[str] = "detailed_balance_em"


# The reward with P(s | z_T), P(s | z, x), tokens in any order, a sampled z0, plain networks of z.
PAPER = {
    "reward.decodability": "posterior", "readout": "any_order", "dynamics.memory": 0.0,
    "dynamics.features": 0, "dynamics.max_sd": 0.1, "epsilon": 0.05,
}  # fmt: skip
# The text, with the ε of the authors' code, and its density N(ẑ_s, σ_s²) in the place of a
# posterior P(s | z_T) over sentences that nobody lists.
OF_IMAGES: dict[str, Any] = attractor.IMAGES | PAPER | {
    "reward.decodability": "density", "latent": 32, "language.length_cost": 0.0,
    "token_axes": False, "epsilon": 0.025,
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = (
    {
        name: {key: value for key, value in preset.items() if key != "dynamics.patterns"}
        for name, preset in attractor.PRESETS.items()
    }
    | {"paper": PAPER}
    | {f"{data}/paper": OF_IMAGES for data in attractor.LATENT}
)


def build(config: Config, data: DataSet) -> AttractorModel:
    """The parts of `attractor`, but with dynamics that are plain networks, both learned; g_θ, Z_θ;
    with any order of tokens, the algorithms' discretizer.
    """
    c, d, units = config, config.latent, attractor.auxiliary_units(config, data)
    model: AttractorModel = attractor.build(c, data)
    images = len(data.input_shape) == 3  # whose embeddings lie close together along each axis
    kind: dict[str, Any] = {
        "memory": model.memory.size,
        "fourier": Fourier(c.dynamics.features, 10.0 if images else 3.0, images),
        "max_step": c.dynamics.max_step, "sd_range": (c.dynamics.min_sd, c.dynamics.max_sd),
    }  # fmt: skip
    model.forward_dynamics = Dynamics(d, c.steps, last=c.steps - 1, units=c.units, **kind)
    model.backward_dynamics = Dynamics(d, c.steps, context=True, time=True, units=units, **kind)
    model.flow_correction = FlowCorrection(d, c.steps, units)  # g_θ(z, t, x)
    model.log_partition = LogPartition(d, units)  # Z_θ(z, x)
    if c.readout == "any_order":
        model.discretizer = Discretizer(
            model.language, d, context=True, canonical=False, units=units
        )
        model.sample_z0 = True
    return model

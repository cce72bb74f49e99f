"""The attractor model on hierarchical binary vectors (the section of that name)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from plot_attractors.data import DataSet, HierarchicalBinaryVectors
from plot_attractors.language import Language
from plot_attractors.model.attractor import (
    AttractorModel,
    Discretizer,
    Dynamics,
    FlowCorrection,
    ImageDecoder,
    InputDecoder,
    InputEncoder,
    LogPartition,
    SentenceEncoder,
    input_decoder,
)


@dataclass(frozen=True)
class ModelConfig:
    """What holds for any table of 0/1 columns."""

    # the language
    groups: tuple[int, ...] = (2, 2, 2, 2, 2, 2)  # sizes of exclusive groups of tokens
    min_length: int = 1  # fewest tokens in a sentence; 0 adds the empty sentence
    max_length: int | None = None  # most tokens; empty: one of every group
    ordered: bool = False  # sequences with an end token instead of bags of words
    # the discretizer builds a bag in one order; False: any order, and a backward token policy
    canonical: bool = True
    length_cost: float = 0.0  # nats a token costs in log P(s); 0 is the uniform prior
    # the model
    latent: int = 8  # d
    token_axes: bool = False  # whether every token moves ẑ_s along one latent axis
    steps: int = 20  # T
    epsilon: float = 0.035  # ε of the fixed first backward step N(ẑ_s, ε²)
    first_backward_step: Literal["fixed", "learned"] = "fixed"
    z0: Literal["mean", "sample"] = "mean"  # of P(z0 | x)
    context: Literal["z0", "x"] = "z0"  # what stands for x in the parts that see it
    forward_sees: tuple[
        str, ...
    ] = ()  # of "time", "context"; the paper's forward dynamics see neither
    start: bool = True  # a learned vector is added to z at t = 0 in the forward dynamics
    # backward dynamics start as the forward kernel, learn the difference
    backward_reverses_forward: bool = True
    decodability: Literal["none", "posterior", "density"] = "none"  # the reward's factor in z_T
    reward_floor: float = -float("inf")  # clamp of the KL term of log R from below, nats
    # β: in E-steps, and so in what is said, R^β stands for R; below 1 more diverse
    reward_exponent: float = 1.0
    discretizer_sees_input: bool = False  # P(s | z, x) instead of P(s | z)
    # P(s | z) by listing, or the learned discretizer sizes
    sentence_readout: Literal["exact", "discretizer"] = "exact"
    units: int = 256  # of encoder, decoder and forward dynamics, three layers each
    # of backward dynamics, flow correction, log-partition and discretizer
    auxiliary_units: int = 128
    fourier_features: int = 256  # random Fourier features of z in the forward dynamics; 0 for none
    fourier_scale: float = 3.0  # standard deviation of their frequencies
    fourier_axes: bool = False  # whether each sees one latent axis
    discretizer_features: int = 0  # as many of the same kind in the discretizer
    discretizer_residual: bool = False  # whether the discretizer sees z − ẑ of the partial sentence
    max_step: float = 0.25  # bound of a mean step
    max_sd: float = 0.6  # bound of a transition's standard deviation, per dimension

    def __post_init__(self) -> None:
        if self.latent < 1:
            raise ValueError(f"latent is the size of z, at least 1, not {self.latent}.")


@dataclass(frozen=True)
class Config(ModelConfig):
    depth: int = 6  # D, generations of the tree
    bits: int = 128  # N, bits of a vector
    # hold out one prototype a generation from the third on, with its descendants
    hold_out: bool = True
    hold_out_seed: int = 0  # which ones


SMALL = {"groups": (2, 2, 2), "units": 32, "auxiliary_units": 32, "fourier_features": 32}
# The text to the letter: the reward with P(s | z_T), the learned discretizer, plain networks of z
# without a kick.
PAPER = {
    "decodability": "posterior", "sentence_readout": "discretizer", "start": False, "backward_reverses_forward": False,
    "fourier_features": 0, "max_sd": 0.2, "epsilon": 0.05,
}  # fmt: skip
SMOKE = {"depth": 3, "bits": 16, **SMALL}
PRESETS: dict[str, dict[str, Any]] = {"full": {}, "demo": {}, "paper": PAPER, "smoke": SMOKE}


def load_data(config: Config) -> DataSet:
    """The tree, and exemplars of its nodes drawn on the fly."""
    return HierarchicalBinaryVectors(
        config.depth, config.bits, config.hold_out, config.hold_out_seed
    )


def build(
    config: ModelConfig, data: DataSet, decoder: InputDecoder | ImageDecoder | None = None
) -> AttractorModel:
    """The parts of Table 1, put together, with `input_decoder` unless another decoder is given;
    `AttractorModel` holds the Pyro programs `model`, `guide`, `vae_model`, `vae_guide`.
    """
    c, d = config, config.latent
    unknown = set(c.forward_sees) - {"time", "context"}
    if unknown:
        raise ValueError(
            f"forward_sees lists what the forward dynamics see besides z, 'time' or 'context', not "
            f"{sorted(unknown)}."
        )
    language = Language(c.groups, c.min_length, c.max_length, c.ordered, c.length_cost)
    context = d if c.context == "z0" else math.prod(data.input_shape)
    sd_range = (0.001, c.max_sd)
    forward_dynamics = Dynamics(  # P_θ(z_{t+1} | z_t)
        d,
        c.steps,
        context=context if "context" in c.forward_sees else 0,
        time="time" in c.forward_sees,
        last=c.steps - 1,
        start=c.start,
        features=c.fourier_features,
        scale=c.fourier_scale,
        axes=c.fourier_axes,
        units=c.units,
        max_step=c.max_step,
        sd_range=sd_range,
    )
    encoder = InputEncoder(data.input_shape, d, c.units)
    if decoder is None:
        decoder = input_decoder(d, data.input_shape, c.units)
    sentence_encoder = SentenceEncoder(language, d, c.token_axes)
    return AttractorModel(
        language,
        latent=d,
        encoder=encoder,  # P_φ(z0 | x)
        decoder=decoder,  # P_φ(x | z)
        sentence_encoder=sentence_encoder,  # ẑ_s = e_φ(s), P_φ(z0 | ẑ_s)
        forward_dynamics=forward_dynamics,
        backward_dynamics=Dynamics(  # P_θ←(z_t | z_{t+1}, t+1, x)
            d,
            c.steps,
            context,
            time=True,
            units=c.auxiliary_units,
            max_step=c.max_step,
            sd_range=sd_range,
            reverse_of=forward_dynamics if c.backward_reverses_forward else None,
        ),
        discretizer=Discretizer(  # P_θ(s_i | s_:i, z)
            language,
            d,
            context * c.discretizer_sees_input,
            c.canonical,
            features=c.discretizer_features,
            scale=c.fourier_scale,
            axes=c.fourier_axes,
            units=c.auxiliary_units,
            sentence_encoder=sentence_encoder if c.discretizer_residual else None,
        ),
        flow_correction=FlowCorrection(d, c.steps, context, c.auxiliary_units),  # g_θ(z, t, x)
        log_partition=LogPartition(d, context, c.auxiliary_units),  # Z_θ(z, x)
        steps=c.steps,
        epsilon=c.epsilon,
        first_backward_step=c.first_backward_step,
        z0=c.z0,
        context=c.context,
        decodability=c.decodability,
        reward_floor=c.reward_floor,
        reward_exponent=c.reward_exponent,
        sentence_readout=c.sentence_readout,
    )

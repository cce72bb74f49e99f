"""The attractor model: Table 1, put together for the data at hand, but for g_θ and Z_θ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from plot_attractors.data import DataSet, is_real
from plot_attractors.language import MOST_SENTENCES, Language
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.memory import Bridge, Memory
from plot_attractors.model.networks import (
    Discretizer,
    HopfieldDynamics,
    ImageDecoder,
    InputEncoder,
    SentenceEncoder,
    input_decoder,
)
from plot_attractors.model.nn import Fourier
from plot_attractors.model.reward import Decodability
from plot_attractors.ranges import Cost, NonNegative, Positive, Size, Width, setting


@dataclass(frozen=True)
class LanguageConfig:
    groups: tuple[Size, ...] = setting(
        (), "of exclusive groups of tokens; empty: pairs that suit the data"
    )
    max_length: Size | None = setting(None, "most tokens; none: one of every group")
    length_cost: Cost = setting(0.0, "nats a token costs in log P(s); 0 is the uniform prior")


@dataclass(frozen=True)
class DynamicsConfig:
    memory: NonNegative = setting(
        2.0, "amplitude of what a state remembers of its input, in units of its standard deviation"
    )
    patterns: Width = setting(768, "that states are drawn to")

    max_step: ClassVar[float] = 0.25  # bound of a mean step
    sd_range: ClassVar[tuple[float, float]] = 0.001, 0.2  # bounds of a transition's sds


@dataclass(frozen=True)
class RewardConfig:
    beta: Positive = setting(1.0, "inverse temperature: sentences are sampled ∝ R^β")
    decodability: ClassVar[Decodability] = "none"  # the factor in z_T, as those of the dynamics


@dataclass(frozen=True)
class Config:
    language: LanguageConfig = field(default_factory=LanguageConfig)
    latent: Width = setting(8, "dimensions d of the latent space")
    token_axes: bool = setting(False, "whether every token moves ẑ_s along one latent axis")
    steps: Size = setting(20, "steps T of a trajectory")
    epsilon: Positive = setting(0.035, "ε of the first backward step N(ẑ_s, ε²)")
    readout: Literal["exact", "discretizer"] = setting("exact", "P(s | z), where it can be exact")
    units: Width = setting(256, "of encoder and decoder; others have half, but of images")
    dynamics: DynamicsConfig = field(default_factory=DynamicsConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    pixel_noise: Positive = setting(0.15, "standard deviation of a pixel in P(x | z), of images")

    def inert(self) -> dict[str, str]:
        """Settings that have no effect beside the others, and why."""
        many = self.language.groups and language(self, None).count > MOST_SENTENCES
        if not many or self.token_axes:
            return {}
        return {"readout": "sentences do not factor and are too many to list"}


SMALL = {"language.groups": (2, 2, 2), "units": 32, "dynamics.patterns": 32}
# Images: 32 tokens, any together, each along one latent axis; a token costs its code of log 32.
IMAGES = {
    "language.groups": (1,) * 32, "language.max_length": 7, "language.length_cost": 3.466,
    "token_axes": True, "epsilon": 0.012,
}  # fmt: skip
OF_IMAGES: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {},
    "smoke": SMALL | {"language.groups": (1,) * 6, "language.max_length": 3},
}  # fmt: skip
LATENT = {"dsprites": 8, "images": 16}  # colour needs three, place two, shape and size one each
PRESETS: dict[str, dict[str, Any]] = {
    "full": {}, "demo": {}, "smoke": SMALL,
    # over these, by the data
    **{
        f"{data}/{name}": IMAGES | {"latent": latent} | preset
        for data, latent in LATENT.items() for name, preset in OF_IMAGES.items()
    },
}  # fmt: skip


def language(config: Config, data: Any) -> Language:
    """The sentences and their prior; groups as in the settings, or pairs that suit the data."""
    c = config.language
    groups = c.groups or (2,) * getattr(data, "pairs", 6)
    return Language(groups, 1, c.max_length, length_cost=c.length_cost)


def auxiliary_units(c: Config, data: DataSet) -> int:
    """Of dynamics, flow correction, log Z and discretizer (Table 1)."""
    return c.units if len(data.input_shape) == 3 else c.units // 2


def build(config: Config, data: DataSet, of_language: Language | None = None) -> AttractorModel:
    """The parts of Table 1 that the default inference trains; another language may be given."""
    c, d, t, units = config, config.latent, config.steps, auxiliary_units(config, data)
    if of_language is None:
        of_language = language(c, data)
    images, axes = len(data.input_shape) == 3, c.token_axes
    if images:
        decoder: Any = ImageDecoder(d, data.input_shape, c.pixel_noise)
        axes = True  # those of independent components
    # Where sentences cannot be listed the discretizer alone reads them, among near embeddings.
    fine = axes or of_language.count > MOST_SENTENCES
    memory = Memory(d, c.dynamics.memory, c.epsilon)
    forward_dynamics = HopfieldDynamics(  # P_θ(z_{t+1} | z_t)
        d,
        memory,
        patterns=c.dynamics.patterns,
        axes=c.token_axes,
        units=units,
        max_step=c.dynamics.max_step,
        sd_range=c.dynamics.sd_range,
    )
    encoder = InputEncoder(data.input_shape, d, c.units)
    if not images:
        decoder = input_decoder(d, data.input_shape, c.units, is_real(data))
    sentence_encoder = SentenceEncoder(of_language, d, c.token_axes)
    if images and (mean := getattr(data, "mean_pixels", None)) is not None:
        decoder.start_at(mean)
    return AttractorModel(
        of_language,
        encoder=encoder,  # P_φ(z0 | x)
        decoder=decoder,  # P_φ(x | z)
        sentence_encoder=sentence_encoder,  # ẑ_s = e_φ(s), P_φ(z0 | ẑ_s)
        forward_dynamics=forward_dynamics,
        backward_dynamics=Bridge(d, t, c.epsilon, forward_dynamics),  # P←(z_t | z_{t+1}, t+1, x)
        discretizer=Discretizer(  # P_θ(s_i | s_:i, z)
            of_language,
            d,
            fourier=Fourier(128, 10.0 if axes else 3.0, axes),  # embeddings are near along an axis
            units=c.units if fine else units,
            sentence_encoder=sentence_encoder if fine else None,
        ),
        steps=t,
        epsilon=c.epsilon,
        decodability=c.reward.decodability,
        inverse_temperature=c.reward.beta,
        exact_readout=c.readout == "exact",
        memory=memory,
    )

"""Training: phases, E-step, M-step, where sentences come from, and how tokens learn."""

from .em import EM, EMConfig
from .m_step import (
    MStep,
    MStepConfig,
    VisitedLabels,
    backward_trajectories,
    imagined,
    input_source,
    require_posterior,
    summary,
    visited_sentence,
)
from .pool import Pool
from .schedule import At, Phase, Scalar, Schedule, clipped_update, cosine, require_model, set_lr
from .sentences import ExactSentences, SampledSentences, Sampling

__all__ = [
    "EM",
    "At",
    "EMConfig",
    "ExactSentences",
    "MStep",
    "MStepConfig",
    "Phase",
    "Pool",
    "SampledSentences",
    "Sampling",
    "Scalar",
    "Schedule",
    "VisitedLabels",
    "backward_trajectories",
    "clipped_update",
    "cosine",
    "imagined",
    "input_source",
    "require_model",
    "require_posterior",
    "set_lr",
    "summary",
    "visited_sentence",
]

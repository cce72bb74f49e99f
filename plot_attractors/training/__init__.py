"""Training: schedules of phases, the M-step, the sleep phase, and how tokens learn."""

from .m_step import (
    MStep,
    MStepConfig,
    backward_trajectories,
    check_counts,
    imagined,
    input_source,
    require_posterior,
    summary,
    visited_sentence,
    visited_sentences,
)
from .schedule import At, Phase, Schedule, clipped_update, cosine, require_model

__all__ = [
    "At",
    "MStep",
    "MStepConfig",
    "Phase",
    "Schedule",
    "backward_trajectories",
    "check_counts",
    "clipped_update",
    "cosine",
    "imagined",
    "input_source",
    "require_model",
    "require_posterior",
    "summary",
    "visited_sentence",
    "visited_sentences",
]

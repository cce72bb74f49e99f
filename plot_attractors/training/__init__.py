"""Training: schedules of phases, the M-step, the sleep phase, and how tokens learn."""

from .m_step import (
    MStep,
    MStepConfig,
    check_counts,
    input_source,
    require_posterior,
    summary,
    usage,
    visited_sentences,
)
from .schedule import At, Phase, Schedule, clipped_update, cosine, require_model

__all__ = [
    "At",
    "MStep",
    "MStepConfig",
    "Phase",
    "Schedule",
    "check_counts",
    "clipped_update",
    "cosine",
    "input_source",
    "require_model",
    "require_posterior",
    "summary",
    "usage",
    "visited_sentences",
]

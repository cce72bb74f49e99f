"""Variant: the discretizer and start of the algorithms: tokens in any order, with a backward policy
that takes one away, P(s | z, x), and z0 drawn from P(z0 | x).
"""

from __future__ import annotations

from typing import Any

from plot_attractors.data import DataSet
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.networks import Discretizer
from plot_attractors.runs import registry

hbv = registry.load("models", "hbv")

Config = hbv.Config
PRESETS: dict[str, dict[str, Any]] = hbv.PRESETS
load_data = hbv.load_data


def build(config: Any, data: DataSet) -> AttractorModel:
    """The model of hierarchical binary vectors with another discretizer."""
    model: AttractorModel = hbv.build(config, data)
    model.discretizer = Discretizer(
        model.language, config.latent, context=True, canonical=False, units=config.auxiliary_units
    )
    model.sample_z0 = True
    return model

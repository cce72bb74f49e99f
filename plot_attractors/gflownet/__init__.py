"""GFlowNet inference for Pyro programs: balance losses, flows, replay, exploration, diagnostics."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from plot_attractors.gflownet.balance import (
    DetailedBalance,
    SubTrajectoryBalance,
    discretizer_balance,
)
from plot_attractors.gflownet.exploration import choose_visited, exploring
from plot_attractors.gflownet.flows import EnumeratedFlow, SampledFlow
from plot_attractors.gflownet.log_ratios import LogRatioLoss, LogRatios
from plot_attractors.gflownet.losses import ForwardKL, Sleep, TrajectoryBalance, VarGrad
from plot_attractors.gflownet.replay import Replay, ReplayBuffer
from plot_attractors.gflownet.tempering import temper, tempered
from plot_attractors.gflownet.trajectories import (
    Trajectories,
    score_trajectories,
    simulate,
    simulate_backward,
)

if TYPE_CHECKING:
    from plot_attractors.gflownet.certificate import Certificate, diagnose
    from plot_attractors.gflownet.diagnostics import (
        simulation_based_calibration,
        to_datatree,
    )
    from plot_attractors.gflownet.pareto import psis

LAZY = {
    "Certificate": "certificate",
    "diagnose": "certificate",
    "psis": "pareto",
    "simulation_based_calibration": "diagnostics",
    "to_datatree": "diagnostics",
}

__all__ = [
    "Certificate",
    "DetailedBalance",
    "EnumeratedFlow",
    "ForwardKL",
    "LogRatioLoss",
    "LogRatios",
    "Replay",
    "ReplayBuffer",
    "SampledFlow",
    "Sleep",
    "SubTrajectoryBalance",
    "Trajectories",
    "TrajectoryBalance",
    "VarGrad",
    "choose_visited",
    "diagnose",
    "discretizer_balance",
    "exploring",
    "psis",
    "score_trajectories",
    "simulate",
    "simulate_backward",
    "simulation_based_calibration",
    "temper",
    "tempered",
    "to_datatree",
]


def __getattr__(name: str) -> Any:
    """Diagnostics, imported when first asked for: xarray and SciPy are slow to import."""
    if name not in LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{LAZY[name]}"), name)

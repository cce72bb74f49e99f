"""GFlowNet inference for Pyro programs: balance losses, flows, replay, exploration."""

from plot_attractors.gflownet.balance import (
    DetailedBalance,
    SubTrajectoryBalance,
    discretizer_balance,
)
from plot_attractors.gflownet.divergences import ForwardKL, ReverseKL, Sleep
from plot_attractors.gflownet.exploration import choose_visited, exploring, mala
from plot_attractors.gflownet.flows import EnumeratedFlow, SampledFlow
from plot_attractors.gflownet.log_ratio import LogRatioLoss, log_ratios
from plot_attractors.gflownet.off_policy import (
    Langevin,
    LocalSearch,
    Particles,
    Replay,
    temper,
    tempered,
)
from plot_attractors.gflownet.programs import LogRatios
from plot_attractors.gflownet.replay import ReplayBuffer
from plot_attractors.gflownet.site_balance import SiteBalance
from plot_attractors.gflownet.trajectories import (
    Trajectories,
    score_trajectories,
    simulate,
    simulate_backward,
    unroll,
)
from plot_attractors.gflownet.trajectory_balance import TrajectoryBalance, VarGrad

__all__ = [
    "DetailedBalance",
    "EnumeratedFlow",
    "ForwardKL",
    "Langevin",
    "LocalSearch",
    "LogRatioLoss",
    "LogRatios",
    "Particles",
    "Replay",
    "ReplayBuffer",
    "ReverseKL",
    "SampledFlow",
    "SiteBalance",
    "Sleep",
    "SubTrajectoryBalance",
    "Trajectories",
    "TrajectoryBalance",
    "VarGrad",
    "choose_visited",
    "discretizer_balance",
    "exploring",
    "log_ratios",
    "mala",
    "score_trajectories",
    "simulate",
    "simulate_backward",
    "temper",
    "tempered",
    "unroll",
]

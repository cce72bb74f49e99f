"""GFlowNet inference for Pyro programs: balance losses, flows, replay, exploration."""

from plot_attractors.gflownet.balance import (
    DetailedBalance,
    SubTrajectoryBalance,
    discretizer_balance,
)
from plot_attractors.gflownet.exploration import choose_visited, exploring, mala
from plot_attractors.gflownet.flows import EnumeratedFlow, SampledFlow
from plot_attractors.gflownet.replay import ReplayBuffer
from plot_attractors.gflownet.trajectories import Trajectories, simulate, simulate_backward, unroll
from plot_attractors.gflownet.trajectory_balance import TrajectoryBalance, VarGrad

__all__ = [
    "DetailedBalance",
    "EnumeratedFlow",
    "ReplayBuffer",
    "SampledFlow",
    "SubTrajectoryBalance",
    "Trajectories",
    "TrajectoryBalance",
    "VarGrad",
    "choose_visited",
    "discretizer_balance",
    "exploring",
    "mala",
    "simulate",
    "simulate_backward",
    "unroll",
]

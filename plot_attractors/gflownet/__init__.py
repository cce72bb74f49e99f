"""GFlowNet inference for Pyro programs: balance losses, flows, replay, exploration."""

from .balance import DetailedBalance, SubTrajectoryBalance, discretizer_balance
from .exploration import LangevinDynamics, choose_met, exploring, mala
from .flows import EnumeratedFlow, SampledFlow
from .replay import ReplayBuffer
from .trajectories import Trajectories, go_and_wait, simulate, simulate_backward, unroll
from .trajectory_balance import TrajectoryBalance, VarGrad

__all__ = [
    "DetailedBalance",
    "EnumeratedFlow",
    "LangevinDynamics",
    "ReplayBuffer",
    "SampledFlow",
    "SubTrajectoryBalance",
    "Trajectories",
    "TrajectoryBalance",
    "VarGrad",
    "choose_met",
    "discretizer_balance",
    "exploring",
    "go_and_wait",
    "mala",
    "simulate",
    "simulate_backward",
    "unroll",
]

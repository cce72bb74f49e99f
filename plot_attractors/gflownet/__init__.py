"""GFlowNet inference for Pyro programs: balance losses, flows, replay, exploration."""

from .balance import DetailedBalance, SubTrajectoryBalance, discretizer_balance
from .beam import BestSentences, beam_search
from .exploration import LangevinDynamics, choose_met, exploring, mala
from .flows import EnumeratedFlow, FactoredFlow, SampledFlow
from .go_and_wait import GoAndWait
from .replay import ReplayBuffer
from .trajectories import Trajectories, simulate, simulate_backward, unroll
from .trajectory_balance import TrajectoryBalance, VarGrad

__all__ = [
    "BestSentences",
    "DetailedBalance",
    "EnumeratedFlow",
    "FactoredFlow",
    "GoAndWait",
    "LangevinDynamics",
    "ReplayBuffer",
    "SampledFlow",
    "SubTrajectoryBalance",
    "Trajectories",
    "TrajectoryBalance",
    "VarGrad",
    "beam_search",
    "choose_met",
    "discretizer_balance",
    "exploring",
    "mala",
    "simulate",
    "simulate_backward",
    "unroll",
]

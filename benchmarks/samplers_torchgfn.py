"""torchgfn (2.4.1, MIT) on the module, target and batches of `samplers.py`, in its environment:
prints JSON with its updates a second of processor time. Run by `samplers.py --torchgfn`.

On-policy log-probabilities are kept while trajectories are sampled, torchgfn's faster way.
"""

from __future__ import annotations

import json
import math
import sys
import time

import torch
from gfn.estimators import (
    PinnedBrownianMotionBackward,
    PinnedBrownianMotionForward,
    ScalarEstimator,
)
from gfn.gflownet import DBGFlowNet, SubTBGFlowNet, TBGFlowNet
from gfn.gflownet.trajectory_balance import LogPartitionVarianceGFlowNet
from gfn.gym.diffusion_sampling import BaseTarget, DiffusionSampling
from gfn.utils.modules import DiffusionFixedBackwardModule
from sampler_tasks import TARGETS, Drift, Target
from torch import Tensor, nn


class Ours(BaseTarget):
    """A target of `sampler_tasks` as torchgfn's."""

    def __init__(self, device: torch.device, target: Target, seed: int = 0) -> None:
        self.target = target
        super().__init__(device, target.d, 16, seed, None)

    def log_reward(self, x: Tensor) -> Tensor:
        return self.target.log_reward(x)

    def sample(self, batch_size: int, seed: int | None = None) -> Tensor:
        return self.target.draw(batch_size)

    def gt_logz(self) -> float:
        return self.target.log_z

    def visualize(self, *_: object, **__: object) -> None:
        return None


class OfState(nn.Module):
    """The drift, or the first number of it, of torchgfn's states (B, d + 1), time last."""

    def __init__(self, target: Target, scalar: bool = False) -> None:
        super().__init__()
        self.drift, self.scalar, self.input_dim = Drift(target), scalar, target.d + 1

    def forward(self, state: Tensor) -> Tensor:
        found: Tensor = self.drift(state[..., :-1], state[..., -1:])
        return 10 * found[..., :1] if self.scalar else found


def main(name: str, method: str, seconds: float, steps: int, batch: int, rate: float) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    target = TARGETS[name]()
    DiffusionSampling.DIFFUSION_TARGETS["ours"] = (Ours, {"target": target, "seed": 0})
    env = DiffusionSampling("ours", None, num_discretization_steps=steps)
    pf = PinnedBrownianMotionForward(target.d, OfState(target), target.sigma, steps)
    fixed = DiffusionFixedBackwardModule(target.d)
    pb = PinnedBrownianMotionBackward(target.d, fixed, target.sigma, steps)
    if method == "TB":
        gflownet = TBGFlowNet(pf, pb, init_logZ=0.0)
    elif method == "VarGrad":
        gflownet = LogPartitionVarianceGFlowNet(pf, pb)
    else:
        flow = ScalarEstimator(OfState(target, scalar=True))
        kind = DBGFlowNet if method == "DB" else SubTBGFlowNet
        options = {} if method == "DB" else {"lamda": 0.9}
        gflownet = kind(pf, pb, flow, **options)
    optimizer = torch.optim.Adam(gflownet.parameters(), lr=rate)
    updates, start, loss = 0, time.process_time(), torch.zeros(())
    while time.process_time() - start < seconds:
        trajectories = gflownet.sample_trajectories(env, n=batch, save_logprobs=True)
        optimizer.zero_grad()
        of = trajectories
        if method == "DB":
            of = gflownet.to_training_samples(trajectories)
        loss = gflownet.loss(env, of, recalculate_all_logprobs=False)
        loss.backward()
        nn.utils.clip_grad_norm_(gflownet.parameters(), 10.0)
        optimizer.step()
        updates += 1
    assert math.isfinite(float(loss.detach())), "torchgfn's loss is not finite"
    print(json.dumps({"updates_a_second": updates / seconds, "loss": float(loss.detach())}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), *map(int, sys.argv[4:6]), float(sys.argv[6]))

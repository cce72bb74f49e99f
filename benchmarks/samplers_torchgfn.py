"""torchgfn (2.4.1, MIT) on the module, target and batches of `samplers.py`, in its environment:
prints JSON with its updates in so many seconds of processor time, and how good it is then. Run by
`samplers.py --torchgfn`.

On-policy log-probabilities are kept while trajectories are sampled, torchgfn's faster way. Its last
step is the exit, so that one more is asked for.
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

HELD = 2000  # trajectories that are weighed in the end


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


def main(
    name: str, method: str, seed: int, seconds: float, steps: int, batch: int, rate: float
) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    steps += 1
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
    updates, start = 0, time.process_time()
    while (spent := (time.process_time() - start) / seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, 2.05 - 2 * spent)
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
    with torch.no_grad():
        held = gflownet.sample_trajectories(env, n=HELD, save_logprobs=True)
        scores = TBGFlowNet(pf, pb).get_scores(held, recalculate_all_logprobs=False)
    r = -scores.double() - target.log_z
    error = abs(float(r.logsumexp(0)) - math.log(HELD))
    found = {"updates": updates, "elbo": float(r.mean()), "log_z_error": error}
    print(json.dumps(found))


if __name__ == "__main__":
    kinds = (str, str, int, float, int, int, float)
    main(*(kind(word) for kind, word in zip(kinds, sys.argv[1:], strict=True)))

"""torchgfn (2.4.1, MIT) on the module, target and batches of `samplers.py`, in its environment:
prints JSON with its updates in so many seconds of processor time, and how good it is then. Run by
`samplers.py --torchgfn`.

Trajectories are sampled without a gradient and scored at once, torchgfn's faster way here. Its last
step is the exit, so that one more is asked for; time and noise are rescaled to those of ours. log Z
begins at the mean log-ratio of a batch and learns 20 times faster, and flows are those of ours.
"""

from __future__ import annotations

import json
import math
import sys
import time
from typing import Any

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
from sampler_tasks import TARGETS, Drift, Target, free
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
    """The drift of torchgfn's states (B, d + 1), time last."""

    def __init__(self, target: Target, steps: int) -> None:
        super().__init__()
        self.drift, self.input_dim, self.longer = Drift(target), target.d + 1, (steps + 1) / steps

    def forward(self, state: Tensor) -> Tensor:
        drift: Tensor = self.drift(state[..., :-1], self.longer * state[..., -1:])
        return self.longer * drift


class Flow(nn.Module):
    """log F of torchgfn's states, as in `samplers.py`."""

    def __init__(self, target: Target, steps: int) -> None:
        super().__init__()
        self.target, self.correction, self.longer = target, Drift(target), (steps + 1) / steps
        self.log_z, self.input_dim = nn.Parameter(torch.zeros(())), target.d + 1

    def forward(self, state: Tensor) -> Tensor:
        z, tau = state[..., :-1], self.longer * state[..., -1:]
        variance = (self.target.sigma**2 * tau).clamp(min=1e-6)
        known = (1 - tau[..., 0]) * free(z, variance) + tau[..., 0] * self.target.log_reward(z)
        learned = known + 10 * self.correction(z, tau)[..., 0]
        return torch.where(tau[..., 0] > 0, learned, 20 * self.log_z)[..., None]


def main(
    name: str, method: str, seed: int, seconds: float, steps: int, batch: int, rate: float
) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    target = TARGETS[name]()
    DiffusionSampling.DIFFUSION_TARGETS["ours"] = (Ours, {"target": target, "seed": 0})
    env = DiffusionSampling("ours", None, num_discretization_steps=steps + 1)
    sigma = target.sigma * ((steps + 1) / steps) ** 0.5
    pf = PinnedBrownianMotionForward(target.d, OfState(target, steps), sigma, steps + 1)
    fixed = DiffusionFixedBackwardModule(target.d)
    pb = PinnedBrownianMotionBackward(target.d, fixed, sigma, steps + 1)
    if method == "TB":
        first = TBGFlowNet(pf, pb)
        with torch.no_grad():
            drawn = first.sample_trajectories(env, n=batch, save_logprobs=False)
            log_z = -first.get_scores(drawn).mean()
        gflownet = TBGFlowNet(pf, pb, init_logZ=float(log_z))
    elif method == "VarGrad":
        gflownet = LogPartitionVarianceGFlowNet(pf, pb)
    else:
        flow = ScalarEstimator(Flow(target, steps))
        kind = DBGFlowNet if method == "DB" else SubTBGFlowNet
        options = {} if method == "DB" else {"lamda": 0.9}
        gflownet = kind(pf, pb, flow, **options)
    total = [p for k, p in gflownet.named_parameters() if k == "logZ"]
    rest = [p for k, p in gflownet.named_parameters() if k != "logZ"]
    groups: list[dict[str, Any]] = [{"params": rest, "factor": 1.0}]
    if total:
        groups.append({"params": total, "factor": 20.0})
    optimizer = torch.optim.Adam(groups, lr=rate)
    updates, start = 0, time.process_time()
    while (spent := (time.process_time() - start) / seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = group["factor"] * rate * min(1.0, 2.05 - 2 * spent)
        with torch.no_grad():
            trajectories = gflownet.sample_trajectories(env, n=batch, save_logprobs=False)
        optimizer.zero_grad()
        of = trajectories
        if method == "DB":
            of = gflownet.to_training_samples(trajectories)
        loss = gflownet.loss(env, of, recalculate_all_logprobs=True)
        loss.backward()
        nn.utils.clip_grad_norm_(gflownet.parameters(), 10.0)
        optimizer.step()
        updates += 1
    with torch.no_grad():
        held = gflownet.sample_trajectories(env, n=HELD, save_logprobs=False)
        scores = TBGFlowNet(pf, pb).get_scores(held)
    r = -scores.double() - target.log_z
    error = abs(float(r.logsumexp(0)) - math.log(HELD))
    found = {"updates": updates, "elbo": float(r.mean()), "log_z_error": error}
    print(json.dumps(found))


if __name__ == "__main__":
    kinds = (str, str, int, float, int, int, float)
    main(*(kind(word) for kind, word in zip(kinds, sys.argv[1:], strict=True)))

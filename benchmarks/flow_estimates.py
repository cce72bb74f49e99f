"""How well the flow of a state is estimated without all sentences, on a trained run: RUN [INPUTS].

log F(z_t, t; x) = log Σ_s R(s; x) N(z_t; ẑ_s, ε² + (T − t)σ²), nats, along trajectories of the
sampler, against the sum over all sentences. Rows: K sentences sampled from the discretizer (K = 1
in the paper), the input's best ones by a beam search on R, the state's best ones by a beam search
on the summand itself.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

import torch
from pyro.distributions import Normal
from shared import header, row
from torch import Tensor

from plot_attractors.evaluation.beam import beam_search
from plot_attractors.evaluation.sampling import best_sentences
from plot_attractors.gflownet import EnumeratedFlow, SampledFlow
from plot_attractors.gflownet.flows import forward_looking_variance, log_isotropic
from plot_attractors.runs.run import Run

SAMPLES = (1, 4, 16, 64)  # K
BEAMS, KEEP = 32, 256
TIMES = (1, 5, 10, 20)
REPEATS = 8  # of what is random
WIDENING = 0.08  # σ


@torch.no_grad()
def main(path: str, inputs: int = 16) -> None:
    """Prints milliseconds a state, and at each time the mean error and its standard deviation."""
    torch.manual_seed(0)
    run = Run(path)
    model = run.model
    e = model.encode(run.data.batch(inputs).x)
    q, times = e.distribution, torch.tensor(TIMES)[:, None, None].float() * model.steps / TIMES[-1]
    z = model.trajectories(e.z0, model.steps, e.context)[times.flatten().long()]
    scale = model.epsilon, model.steps
    variance = forward_looking_variance(times, model.steps, model.epsilon, WIDENING)
    each = Normal(q.loc[:, None], q.scale[:, None])

    truth = torch.full(z.shape[:-1], -math.inf, dtype=torch.float64)
    for s in model.language.chunks():
        log_n = log_isotropic(z[:, :, None], model.embed(s), variance[..., None])
        truth = torch.logaddexp(
            truth, (model.reward.log_pairs(q, s) + log_n).logsumexp(-1).double()
        )

    def sampled(samples: int) -> Tensor:
        parts = (
            lambda z, s: model.reward.log(q, s),
            model.embed,
            lambda z: model.discretizer(z, e.context),
        )
        return SampledFlow(*parts, *scale, samples, WIDENING).log_flow(z, times)

    def best_of_input() -> Tensor:
        best = best_sentences(model, q, BEAMS, KEEP)
        flow = EnumeratedFlow(best.log_reward, model.embed(best.s), *scale, WIDENING)
        return flow.log_flow(z, times)

    def best_of_state() -> Tensor:
        found = []
        for state, v in zip(z, variance, strict=True):

            def summand(s: Tensor, state: Tensor = state, v: Tensor = v) -> Tensor:
                return model.reward.log(each, s) + log_isotropic(state[:, None], model.embed(s), v)

            found.append(beam_search(summand, model.language, inputs, BEAMS, KEEP).log_z)
        return torch.stack(found)

    estimators: dict[str, Callable[[], Tensor]] = {
        **{f"{k} sampled": (lambda k=k: sampled(k)) for k in SAMPLES},
        f"best {KEEP} of the input": best_of_input,
        f"best {KEEP} of the state": best_of_state,
    }
    print(f"{model.language.count:,} sentences, {inputs} inputs; error of log F in nats: mean ± sd")
    header("estimator", "ms a state", *(f"t = {int(t)}" for t in times.flatten()))
    for name, estimate in estimators.items():
        repeats = REPEATS if "sampled" in name else 1
        started = time.perf_counter()
        errors = torch.stack([estimate().double() - truth for _ in range(repeats)])
        cost = 1e3 * (time.perf_counter() - started) / repeats / truth.numel()
        at = errors.unbind(1)
        row(name, f"{cost:.2f}", *(f"{error.mean():.1f} ± {error.std():.1f}" for error in at))


if __name__ == "__main__":
    main(sys.argv[1], *(int(n) for n in sys.argv[2:]))

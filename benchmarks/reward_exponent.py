"""How diverse and how sure are sentences said in proportion to R^β? By the exact posterior of trained runs.

    python benchmarks/reward_exponent.py runs/sprites-31 runs/sprites-32 runs/sprites-33

Nothing is trained but feature decoders, anew at every β (`reward_exponent`), since a listener knows how its speaker
talks; of runs with β = 1 whose posterior factors. Columns: accuracy or root mean squared error of every feature, as
two decoders tell it from ẑ_s of one sentence an input; tokens in a sentence; diversity in nats of what one of the
decoders makes of z_T, from N samples of an input and their k-th neighbours.
"""

from __future__ import annotations

import sys

import torch

from plot_attractors.attractor import AttractorModel
from plot_attractors.decoders import require_described, train_decoder
from plot_attractors.factored import FactoredSentences
from plot_attractors.metrics.diversity import diversity
from plot_attractors.runs import Run

EXPONENTS = (1.0, 0.5, 0.35, 0.25, 0.2, 0.15, 0.1)
LEARNED, ASKED, VARIED, SAMPLES = 8192, 2000, 100, 256  # inputs of decoders, of scores, of diversity; samples of each
ESTIMATES = ((16, 10), (256, 1))  # N, k


@torch.no_grad()
def measured(run: Run, exponent: float) -> list[float]:
    """A row of the table."""
    model, (_, data) = run.model, require_described(run)
    if not isinstance(model, AttractorModel) or not model.factored or model.exponent != 1:
        raise SystemExit(f"{run.path} has a reward_exponent of its own, or no posterior that factors: give other runs")

    def said(x: torch.Tensor, draws: int) -> torch.Tensor:
        law = model.posterior(model.encode(x).distribution)
        assert isinstance(law, FactoredSentences)
        return law.tempered(exponent).sample(torch.Size([draws])).transpose(0, 1)

    torch.manual_seed(run.seed)
    training, test = data.batch(LEARNED), data.batch(ASKED)
    s = torch.cat([said(x, 1)[:, 0] for x in training.x.split(1024)])
    states = torch.cat([model.first_backward_kernel(s, s).sample(), model.embed(s)])
    told = data.feature_values(training).repeat(2, 1)
    decoders = [train_decoder(states, told, data.features, seed) for seed in (0, 1)]
    s, values = said(test.x, 1)[:, 0], data.feature_values(test)
    scores = torch.stack([decoder(model.embed(s)).score(values).nanmean(0) for decoder in decoders]).mean(0)
    varied = said(data.batch(VARIED).x, SAMPLES)
    points = decoders[0](model.first_backward_kernel(varied, varied).sample()).points
    return [
        *(float(v) if f.categorical else float(v) ** 0.5 for f, v in zip(data.features, scores, strict=True)),
        float(s.sum(-1).mean()),
        *(diversity(points[:, :n], k).mean for n, k in ESTIMATES),
    ]


def main() -> None:
    runs = [Run(path) for path in sys.argv[1:]]
    if not runs:
        raise SystemExit(__doc__)
    names = [f.name for f in require_described(runs[0])[1].features]
    columns = ["run", "β", *names, "tokens", *(f"diversity, N = {n}, k = {k}" for n, k in ESTIMATES)]
    print("|", " | ".join(columns), "|")
    print("|:--|" + "--:|" * (len(columns) - 1))
    for exponent in EXPONENTS:
        for run in runs:
            row = measured(run, exponent)
            print(f"| {run.path.name} | {exponent:g} |", " | ".join(f"{value:.3g}" for value in row), "|", flush=True)


if __name__ == "__main__":
    main()

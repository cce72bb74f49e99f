"""How diverse and how sure are sentences said in proportion to R^β? By the exact posterior of trained runs.

    python benchmarks/reward_exponent.py runs/sprites-31 runs/sprites-32 runs/sprites-33
    python benchmarks/reward_exponent.py --by-feature runs/sprites-34

Nothing is trained but feature decoders, anew at every β (`reward_exponent`), since a listener knows how its speaker
talks; of runs whose posterior factors, by R itself whatever their own β. With --by-feature each latent axis has the β
of the feature that its coordinate tells most of (by labels: what could be, and no model). Columns: accuracy or root
mean squared error of every feature, as two decoders tell it from ẑ_s of one sentence an input; topographic similarity;
tokens in a sentence; diversity in nats of what one of the decoders makes of z_T, from N samples of an input and their
k-th neighbours.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import torch
from torch import Tensor

from plot_attractors.attractor import AttractorModel
from plot_attractors.data import ImageSet
from plot_attractors.decoders import require_described, train_decoder
from plot_attractors.factored import FactoredSentences
from plot_attractors.metrics import topographic_similarity
from plot_attractors.metrics.diversity import diversity
from plot_attractors.runs import Run

EXPONENTS = ({"all": beta} for beta in (1.0, 0.5, 0.35, 0.25, 0.2, 0.15, 0.1))
PLACE = {"x": 0.2, "y": 0.2}
BY_FEATURE = (
    {"all": 1.0},
    {"shape": 0.5, "size": 0.05},
    {"shape": 0.5, "size": 0.05, "colour": 0.5},
    {"shape": 0.5, "size": 0.05, "colour": 0.5, **PLACE},
    {"shape": 0.25, "size": 0.05, "colour": 0.5, **PLACE},
    {"shape": 0.15, "size": 0.05, "colour": 0.5, **PLACE},
    {"shape": 0.15, "size": 0.05, "colour": 0.35, **PLACE},
    {"all": 0.2},
)
LEARNED, ASKED, VARIED, SAMPLES = 8192, 2000, 100, 256  # inputs of decoders, of scores, of diversity; samples of each
ESTIMATES = ((16, 10), (256, 1))  # N, k


def explained(coordinate: Tensor, value: Tensor) -> float:
    """Share of the variance of a coordinate (n,) that the values (n,) of a feature explain."""
    group = value.unique(return_inverse=True)[1]
    count = group.bincount()
    mean = torch.zeros(len(count)).index_add_(0, group, coordinate) / count
    return 1 - float((coordinate - mean[group]).square().mean() / coordinate.var())


def feature_of_factors(model: AttractorModel, data: ImageSet) -> list[str]:
    """The feature that the states of every factor's axis tell most of."""
    batch = data.batch(LEARNED)
    q = model.encode(batch.x).distribution
    law = model.posterior(model.encode(batch.x[:1]).distribution)
    assert isinstance(law, FactoredSentences)
    found = []
    for factor in law.factors:
        axis = model.sentence_encoder.mean.axes[factor.tokens[0]]
        told = {f: explained(q.loc[:, axis], batch.labels[:, k]) for k, f in enumerate(data.label_names)}
        found.append(max(told, key=told.__getitem__))
    return found


@torch.no_grad()
def measured(run: Run, exponents: Mapping[str, float]) -> list[float]:
    """A row of the table."""
    model, (_, data) = run.model, require_described(run)
    if not isinstance(model, AttractorModel) or not model.factored:
        raise SystemExit(f"{run.path} has no posterior that factors: give other runs")
    model.temper(False)
    torch.manual_seed(run.seed)
    of_all = exponents.get("all", 1.0)
    powers = of_all if "all" in exponents else [exponents.get(f, 1.0) for f in feature_of_factors(model, data)]

    def said(x: Tensor, draws: int) -> Tensor:
        law = model.posterior(model.encode(x).distribution)
        assert isinstance(law, FactoredSentences)
        return law.tempered(powers).sample(torch.Size([draws])).transpose(0, 1)

    training, test = data.batch(LEARNED), data.batch(ASKED)
    s = torch.cat([said(x, 1)[:, 0] for x in training.x.split(1024)])
    states = torch.cat([model.first_backward_kernel(s, s).sample(), model.embed(s)])
    told = data.feature_values(training).repeat(2, 1)
    decoders = [train_decoder(states, told, data.features, seed) for seed in (0, 1)]
    s, values = said(test.x, 1)[:, 0], data.feature_values(test)
    scores = torch.stack([decoder(model.embed(s)).score(values).nanmean(0) for decoder in decoders]).mean(0)
    categorical = [f.categorical for f in data.features]
    varied = said(data.batch(VARIED).x, SAMPLES)
    points = decoders[0](model.first_backward_kernel(varied, varied).sample()).points
    return [
        *(float(v) if f.categorical else float(v) ** 0.5 for f, v in zip(data.features, scores, strict=True)),
        topographic_similarity(model.language.bag(s), values, categorical).value,
        float(s.sum(-1).mean()),
        *(diversity(points[:, :n], k).mean for n, k in ESTIMATES),
    ]


def main() -> None:
    by_feature = "--by-feature" in sys.argv
    runs = [Run(path) for path in sys.argv[1:] if path != "--by-feature"]
    if not runs:
        raise SystemExit(__doc__)
    names = [f.name for f in require_described(runs[0])[1].features]
    columns = ["β", "run", *names, "similarity", "tokens", *(f"diversity, N = {n}, k = {k}" for n, k in ESTIMATES)]
    print("|", " | ".join(columns), "|")
    print("|:--|" + "--:|" * (len(columns) - 1))
    for exponents in BY_FEATURE if by_feature else EXPONENTS:
        label = ", ".join(f"{name} {beta:g}" for name, beta in exponents.items())
        for run in runs:
            row = measured(run, exponents)
            print(f"| {label} | {run.path.name} |", " | ".join(f"{value:.3g}" for value in row), "|", flush=True)


if __name__ == "__main__":
    main()

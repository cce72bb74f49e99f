"""How diverse and how sure are sentences drawn ∝ R^β from the exact posterior of trained runs?

Nothing is trained but feature decoders, anew at every inverse temperature β, since a receiver knows
its sender; of runs whose posterior factors, by R itself whatever their own β. With --by-feature
each latent axis has the β of the feature that its tokens tell most of (by labels: what could be,
and no model). Columns: accuracy or root mean squared error of every feature, as two decoders tell
it from ẑ_s of one sentence an input; topographic similarity; tokens in a sentence; diversity in
nats of what one of the decoders makes of z_T, from N samples of an input and their k-th neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any

import torch
from shared import arguments, header, parser, row
from torch import Tensor

from plot_attractors.data import Feature
from plot_attractors.evaluation.image_sentences import variance_explained
from plot_attractors.evaluation.metrics.diversity import diversity
from plot_attractors.evaluation.metrics.similarity import topographic_similarity
from plot_attractors.evaluation.probes import require_described, train_decoder
from plot_attractors.language.factored import FactoredSentences
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.runs.run import Run, fit

EXPONENTS = tuple({"all": beta} for beta in (1.0, 0.5, 0.35, 0.25, 0.2, 0.15, 0.1))
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
LEARNED, ASKED, VARIED = 8192, 2000, 100  # inputs of decoders, of scores, of diversity
SAMPLES = 256  # of each of the last
ESTIMATES = ((16, 10), (256, 1))  # N, k
UPDATES = 800  # of a decoder
SMALL = {
    "EXPONENTS": ({"all": 0.5}, {"shape": 0.5}), "LEARNED": 64, "ASKED": 64, "VARIED": 4,
    "SAMPLES": 16, "ESTIMATES": ((16, 10),), "UPDATES": 2,
}  # fmt: skip


def feature_of_factors(
    sentences: FactoredSentences, values: Tensor, features: Sequence[Feature]
) -> list[str]:
    """The feature, of inputs with values (n, F), that the tokens of every factor tell most of."""
    pairs, p = zip(values.T, features, strict=True), sentences.mean
    told = torch.stack([variance_explained(p, v, f) for v, f in pairs])
    best = [told[:, factor.tokens].nansum(-1).argmax() for factor in sentences.factors]
    return [features[int(k)].name for k in best]


@torch.no_grad()
def measured(run: Run, exponents: Mapping[str, float]) -> list[float]:
    """A row of the table."""
    model, (_, described) = run.model, require_described(run)
    data: Any = described  # drawn on demand
    if not isinstance(model, AttractorModel) or not model.posterior.factored:
        raise SystemExit(f"{run.path} has no posterior that factors: give other runs")
    torch.manual_seed(run.seed)
    training, test = data.batch(LEARNED), data.batch(ASKED)
    values = data.feature_values(test)

    def posterior(x: Tensor) -> FactoredSentences:
        found = model.posterior(model.encode(x).distribution, beta=1.0)
        assert isinstance(found, FactoredSentences)
        return found

    beta: float | list[float] = exponents.get("all", 1.0)
    if "all" not in exponents:
        told_by = feature_of_factors(posterior(test.x), values, data.features)
        beta = [exponents.get(feature, 1.0) for feature in told_by]

    def draw(x: Tensor, draws: int) -> Tensor:
        return posterior(x).power(beta).sample(torch.Size([draws])).transpose(0, 1)

    s = torch.cat([draw(x, 1)[:, 0] for x in training.x.split(1024)])
    states = torch.cat([model.terminal_kernel(s).sample(), model.embed(s)])
    told = data.feature_values(training).repeat(2, 1)
    decoders = [train_decoder(states, told, data.features, seed, UPDATES) for seed in (0, 1)]
    s = draw(test.x, 1)[:, 0]
    each = [decoder(model.embed(s)).score(values).nanmean(0) for decoder in decoders]
    told_well = zip(data.features, torch.stack(each).mean(0), strict=True)
    categorical = [f.categorical for f in data.features]
    varied = draw(data.batch(VARIED).x, SAMPLES)
    points = decoders[0](model.terminal_kernel(varied).sample()).points
    return [
        *(float(v) if f.categorical else float(v) ** 0.5 for f, v in told_well),
        topographic_similarity(model.language.bag(s), values, categorical).value,
        float(s.sum(-1).mean()),
        *(diversity(points[:, :n], k).mean for n, k in ESTIMATES),
    ]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("runs", nargs="*", metavar="RUN", help="such as runs/sprites-34")
    options.add_argument("--by-feature", action="store_true", help="β by what tokens tell most of")
    given = arguments(globals(), options)
    with TemporaryDirectory() as folder:
        paths = [fit("dsprites", preset="smoke", out=folder)] if given.small else given.runs
        if not paths:
            options.error("name runs of sprites, or add --small")
        runs = [Run(path) for path in paths]
        names = [f.name for f in require_described(runs[0])[1].features]
        estimates = (f"diversity, N = {n}, k = {k}" for n, k in ESTIMATES)
        header("β", "run", *names, "similarity", "tokens", *estimates)
        for exponents in BY_FEATURE if given.by_feature else EXPONENTS:
            label = ", ".join(f"{name} {beta:g}" for name, beta in exponents.items())
            for run in runs:
                row(label, run.path.name, *(f"{value:.3g}" for value in measured(run, exponents)))


if __name__ == "__main__":
    main()

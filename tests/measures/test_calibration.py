"""Calibration measures against closed forms, exact draws, and importance weights with a
known mean.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from plot_attractors.analysis.sampling import path_log_weight, sentence_distribution, states_at
from plot_attractors.language import Language
from plot_attractors.measures.calibration import (
    distances,
    distances_of_draws,
    effective_sample_share,
    extrapolate,
    log_slope,
    total_variation,
)
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.networks import (
    Discretizer,
    Dynamics,
    InputDecoder,
    InputEncoder,
    SentenceEncoder,
)
from plot_attractors.runs import Run, registry
from plot_attractors.runs.pretrained import find

calibration = registry.load("analyses", "calibration")


def log_posteriors(inputs: int = 40, sentences: int = 30, spread: float = 2.0) -> Tensor:
    return (spread * torch.randn(inputs, sentences, dtype=torch.float64)).log_softmax(-1)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_slope_is_the_inverse_temperature_of_the_sampler(temperature: float) -> None:
    log_p = log_posteriors()
    q = (log_p / temperature).softmax(-1)
    assert float(log_slope(q, log_p, draws=10**9)) == pytest.approx(1 / temperature, rel=1e-3)
    sampled = torch.distributions.Multinomial(20_000, probs=q).sample() / 20_000
    assert float(log_slope(sampled, log_p, 20_000)) == pytest.approx(1 / temperature, rel=0.06)


def test_effective_sample_share_of_equal_and_of_unequal_weights() -> None:
    weights = torch.tensor([[-300.0, -300.0, -300.0, -300.0], [0.0, -200.0, -200.0, -200.0]])
    assert effective_sample_share(weights).tolist() == pytest.approx([1, 0.25], abs=1e-4)
    log_w = 0.5 * torch.randn(200_000, dtype=torch.float64)  # log-normal: exp(−σ²)
    assert float(effective_sample_share(log_w)) == pytest.approx(math.exp(-0.25), rel=0.03)


# Models


def model(steps: int = 2, **options: Any) -> AttractorModel:
    """A small model whose kernels are wide, so that importance weights are tame."""
    torch.manual_seed(3)
    language, d, wide = Language((2, 2)), 2, (0.35, 0.6)
    sentence_encoder = SentenceEncoder(language, d)
    sentence_encoder.mean.weight.data.mul_(0.3)
    return AttractorModel(
        language,
        encoder=InputEncoder((6,), d, 16),
        decoder=InputDecoder(d, 6, 16, 2),
        sentence_encoder=sentence_encoder,
        forward_dynamics=Dynamics(d, steps, units=16, sd_range=wide),
        backward_dynamics=Dynamics(d, steps, context=True, time=True, units=16, sd_range=wide),
        discretizer=Discretizer(language, d, units=16),
        steps=steps,
        epsilon=0.4,
        **options,
    )


@pytest.mark.parametrize("options", [{}, {"exact_readout": False}])
def test_path_weights_average_to_the_exact_partition_function(options: dict[str, Any]) -> None:
    m, steps = model(**options), 2
    encoding = m.encode(torch.bernoulli(torch.full((2, 6), 0.5)))
    n = 60_000
    many = encoding[torch.arange(2).repeat_interleave(n)]
    with torch.no_grad():
        z = m.trajectories(many.z0, steps)
        s = m.readout(z[-1], many.z0).sample()
        log_w = path_log_weight(m, many, z, s).double().unflatten(0, (2, n))
        log_z = m.reward.log_pairs(encoding.distribution, m.sentences).logsumexp(-1).double()
    w = (log_w - log_z[:, None]).exp()
    error = w.std(-1) / n**0.5
    assert float(error.max()) < 0.05  # otherwise the check below says nothing
    torch.testing.assert_close(
        w.mean(-1), torch.ones(2, dtype=torch.float64), atol=5 * float(error.max()), rtol=0
    )


def test_one_simulation_gives_the_states_of_all_lengths() -> None:
    m = model()
    m.forward_dynamics.sd_range = 1e-6, 1e-6  # draws of an input agree, inputs do not
    encoding = m.encode(torch.bernoulli(torch.full((4, 6), 0.5)))
    states = states_at(m, encoding, 3, [2, 4, 10])
    assert states.shape == (3, 4, 3, 2)
    torch.testing.assert_close(states[:, :, 0], states[:, :, 2], atol=1e-3, rtol=0)
    path = m.trajectories(encoding.z0, 10)
    torch.testing.assert_close(states[:, :, 0], path[[2, 4, 10]], atol=1e-3, rtol=0)


def test_controls_are_as_far_from_the_posterior_as_by_enumeration() -> None:
    """Brownian motion that ends at embeddings, and the encoder's noise read at once, of the trained
    model: both nearer to the posterior than states that stay at z0 without noise.
    """
    run = Run(find("pretrained:hbv"))
    m, e = run.model, run.model.encode(run.data.batch(12).x)
    m.sentence_policy = None  # which is no control
    with torch.no_grad():
        p, z_hat = m.posterior.log_prob(e.distribution).exp(), m.embeddings()
        used = z_hat.std(0) > 0.1
        exact = m.posterior(e.distribution).sample(torch.Size([2000])).transpose(0, 1)
        sigma = m.sentence_encoder(exact).scale[..., used].median()
        square = (e.z0[:, None, used] - z_hat[:, used]).square().sum(-1)
        brownian = (-square / (2 * sigma**2)).softmax(-1)
        noise = e.distribution.sample(torch.Size([4000])).transpose(0, 1)
        expected = {"tv_brownian": brownian, "tv_encoder": sentence_distribution(m, noise)}
        still = float(total_variation(sentence_distribution(m, e.z0[:, None]), p).mean())

        def distance(s: Tensor) -> Any:
            return distances(calibration._counts(m.language.row(s), len(p[0])), p)

        controls = calibration._controls(m, e, exact)
        result = calibration._sentence_statistics(controls, exact, distance)
    for name, q in expected.items():
        tv = float(total_variation(q, p).mean())
        assert result[f"{name}_extrapolated"][0] == pytest.approx(tv, abs=0.02)
        assert tv < still - 0.3


@pytest.fixture(scope="module")
def posteriors() -> Tensor:
    """(64, 728) of a trained model, 2.3 nats each."""
    run = Run(find("pretrained:hbv"))
    x = run.data.batch(64).x
    with torch.no_grad():
        return run.model.posterior.log_prob(run.model.encode(x).distribution).double().softmax(-1)


def far_from(p: Tensor, tv: float) -> Tensor:
    """Gamma-perturbed p (B, S), in the mean `tv` away from it: a Dirichlet around every row."""
    if tv == 0:
        return p
    low, high = 0.1, 1e6  # of the concentration
    for _ in range(40):
        a = math.sqrt(low * high)
        torch.manual_seed(1)
        q = torch.distributions.Gamma(a * p + 1e-8, 1.0).sample() + 1e-12
        q = q / q.sum(-1, keepdim=True)
        low, high = (a, high) if total_variation(q, p).mean() > tv else (low, a)
    return q


def counted(q: Tensor, draws: int) -> Tensor:
    """(4, B, S) counts of quarters of the draws."""
    return torch.distributions.Multinomial(draws // 4, probs=q).sample(torch.Size([4]))


@pytest.mark.parametrize(
    ("tv", "read"), [(0.0, "counts"), (0.07, "counts"), (0.07, "blurred"), (0.2, "counts")]
)
def test_extrapolation_is_right_at_known_distances(
    tv: float, read: str, posteriors: Tensor
) -> None:
    p = posteriors
    q = far_from(p, tv)
    blur = torch.eye(728, dtype=p.dtype)
    if read == "blurred":  # the mean of P(s | z_T), where z_T tells s with an error
        blur = 0.7 * blur + 0.3 * blur.roll(1, 0)
    told = p @ blur
    true = float(total_variation(q @ blur, told).mean())
    result, excess = [], []
    for _ in range(8):
        of = distances(counted(q, 512) @ blur, told)
        floor = distances(counted(p, 512) @ blur, told)
        result.append(extrapolate(of))
        excess.append(float((of.whole - floor.whole).sum(-1).mean()))
    value, error = torch.tensor(result, dtype=torch.float64).T
    assert float(value.mean()) == pytest.approx(true, abs=0.01)
    assert float(((value - true).abs() <= 2 * error + 0.003).double().mean()) >= 0.75
    assert 0.0005 < float(error.mean()) < 0.015
    if read == "counts" and tv == 0.07:  # which the tables had as the distance
        assert sum(excess) / 8 < true - 0.02


def test_distances_of_draws_are_those_of_their_counts() -> None:
    log_p = log_posteriors(9, 30)
    key = torch.distributions.Categorical(logits=log_posteriors(9, 30)).sample(torch.Size([64])).T
    quarters = [torch.nn.functional.one_hot(k, 30).double().sum(1) for k in key.chunk(4, 1)]
    listed = distances(torch.stack(quarters), log_p.exp())
    drawn_only = distances_of_draws(key, log_p.gather(1, key))
    for one, other in zip(listed, drawn_only, strict=True):
        torch.testing.assert_close(one.sum(-1), other.sum(-1))
    direct = total_variation(sum(quarters) / 64, log_p.exp())
    torch.testing.assert_close(listed.whole.sum(-1), direct)
    assert bool((listed.half.sum(-1) > listed.whole.sum(-1)).all())


def test_too_few_draws_to_extrapolate_give_no_number() -> None:
    p = torch.full((16, 1000), 1 / 1000, dtype=torch.float64)

    def estimate(draws: int, q: Tensor) -> dict[str, float]:
        value, error = extrapolate(distances(counted(q, draws), p))
        return {"tv_extrapolated": value, "tv_extrapolated_se": error, "slope": 1}

    far = p.clone()
    far[:, :500] *= 2
    far[:, 500:] = 1e-12
    far = far / far.sum(-1, keepdim=True)
    for draws, known in ((64, False), (80_000, True)):
        result = calibration.Calibration({20: estimate(draws, far)}, estimate(draws, p), 0.0, {})
        table = calibration.tabulate(result).set_index("statistic")
        assert table.loc["slope", "value"] == 1
        for name in ("tv_extrapolated", "tv_extrapolated_se"):
            assert math.isnan(table.loc[name, "value"]) != known
        if known:
            assert table.loc["tv_extrapolated", "value"] == pytest.approx(0.5, abs=0.01)

"""The VQ-VAE: gradients straight through codes, moving averages, resets, use of codebooks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from plot_attractors.baselines import VQVAE, MovingAverages, vqvae
from plot_attractors.language import Language
from plot_attractors.model.networks import InputDecoder
from plot_attractors.model.nn import MLP

GROUPS = (2, 3)
BITS, LATENT = 6, 4


def build(null_code: bool = False) -> VQVAE:
    torch.manual_seed(0)
    language = Language(GROUPS, min_length=0 if null_code else len(GROUPS))
    encoder = MLP(BITS, len(GROUPS) * LATENT, 16)
    return VQVAE(language, LATENT, encoder, *decoders(LATENT, BITS), null_code).double()


def decoders(latent: int, bits: int) -> tuple[InputDecoder, InputDecoder]:
    return InputDecoder(latent, bits, 16), InputDecoder(latent, bits, 16)


def inputs(n: int = 32) -> Tensor:
    return torch.bernoulli(torch.full((n, BITS), 0.5)).double()


@pytest.mark.parametrize("null_code", [False, True])
def test_every_codebook_takes_the_nearest_code_and_codes_are_summed(null_code: bool) -> None:
    model, x = build(null_code), inputs()
    result = model.quantise(x)
    for k, part in enumerate((slice(0, 2), slice(2, 5))):
        tokens = result.s[:, part]
        distance = torch.cdist(result.queries[:, k], model.codes[part])
        if null_code:
            distance = torch.cat([distance, result.queries[:, k].norm(dim=-1, keepdim=True)], -1)
            tokens = torch.cat([tokens, 1 - tokens.sum(-1, keepdim=True)], -1)
        assert torch.equal(tokens.argmax(-1), distance.argmin(-1))
        assert torch.equal(tokens.sum(-1), torch.ones(len(x)).double())
    torch.testing.assert_close(model.embed(result.s), result.codes.sum(1))
    described = model.describe(x, 3)
    assert described.z.shape == (32, 3, LATENT)
    assert torch.equal(described.s, result.s[:, None].expand(-1, 3, -1))
    torch.testing.assert_close(described.z[:, 2], result.codes.sum(1))


def test_a_sentence_without_a_codebook_stands_for_the_mean_of_its_completions() -> None:
    model = build()
    first = torch.tensor([0.0, 1, 0, 0, 0]).double()
    completions = torch.stack([first + torch.eye(5)[k] for k in (2, 3, 4)])
    torch.testing.assert_close(model.embed(first), model.embed(completions).mean(0))
    everything = model.embed(torch.zeros(5).double())
    torch.testing.assert_close(everything, model.embed(model.language.sentences.double()).mean(0))


@pytest.mark.parametrize("null_code", [False, True])
def test_gradients_are_those_of_the_relaxed_objective(null_code: bool) -> None:
    """With chosen codes and what is stopped held fixed, finite differences are the gradient."""
    model, x, beta = build(null_code), inputs(8), 0.25
    result, terms = model.losses(x)
    loss = terms["reconstruction"] + terms["dictionary"] + beta * terms["commitment"]
    parameters = [model.codes, *model.encoder.parameters(), *model.decoder.parameters()]
    gradients = torch.autograd.grad(loss, parameters)
    q0, e0 = result.queries.detach(), result.codes.detach()
    held = model.language.token_group[None] == torch.arange(2)[:, None]  # (K, tokens)

    def relaxed() -> float:
        with torch.no_grad():
            q = model.queries(x)
            e = torch.einsum("bt,kt,td->bkd", result.s, held.double(), model.codes)
            nll = -model.decoder((q + e0 - q0).sum(1)).log_prob(x).sum(-1).mean()
            terms = (q0 - e).square().sum((1, 2)).mean(), (q - e0).square().sum((1, 2)).mean()
            return float(nll + terms[0] + beta * terms[1])

    assert relaxed() == pytest.approx(float(loss.detach()))
    unused = torch.autograd.grad(terms["continuous"], parameters, allow_unused=True)
    assert unused == (None,) * len(parameters)
    torch.testing.assert_close(terms["continuous"], -model.reconstruct(x).log_prob(x).sum(1).mean())
    h = 1e-6
    for parameter, gradient in zip(parameters, gradients, strict=True):
        flat = parameter.data.view(-1)
        for index in torch.randperm(len(flat))[:4].tolist():
            before, ends = float(flat[index]), []
            for sign in (1, -1):
                flat[index] = before + sign * h
                ends.append(relaxed())
            flat[index] = before
            difference = (ends[0] - ends[1]) / (2 * h)
            assert float(gradient.view(-1)[index]) == pytest.approx(difference, rel=1e-4, abs=1e-7)


class Fixed(nn.Module):
    """An encoder whose queries are given."""

    def __init__(self, queries: Tensor) -> None:
        super().__init__()
        self.queries = queries

    def forward(self, x: Tensor) -> Tensor:
        return self.queries[x[:, 0].long()].flatten(1)


def known(codes: list[list[float]]) -> VQVAE:
    """Two queries of one codebook of two in one dimension: 1 and 3, for x = 0 and x = 1."""
    encoder = Fixed(torch.tensor([[[1.0]], [[3.0]]]))
    model = VQVAE(Language((2,), min_length=1), 1, encoder, *decoders(1, 1))
    model.codes.data = torch.tensor(codes)
    return model


def test_moving_averages_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vqvae, "DECAY", 0.5)
    model = known([[0.0], [4.0]])
    averages = MovingAverages(model)
    x = torch.tensor([[0.0], [0.0], [0.0], [1.0]])  # three queries of 1, one of 3
    averages.update(model.quantise(x))
    # N = (1/2 + 3/4) / 2, (1/2 + 1/4) / 2; M = (0 + 3/4) / 2, (2 + 3/4) / 2
    torch.testing.assert_close(averages.shares, torch.tensor([0.625, 0.375]))
    expected = torch.tensor([[0.375 / 0.625], [1.375 / 0.375]])
    torch.testing.assert_close(model.codes.detach(), expected)
    for _ in range(60):
        averages.update(model.quantise(x))
    # the means of their queries
    torch.testing.assert_close(model.codes.detach(), torch.tensor([[1.0], [3.0]]))
    torch.testing.assert_close(averages.shares, torch.tensor([0.75, 0.25]))
    assert not model.codes.requires_grad


@pytest.mark.parametrize(("reset_below", "alive"), [(0.0, 1), (0.05, 2)])
def test_a_dead_code_is_revived_by_a_reset_alone(
    reset_below: float, alive: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vqvae, "DECAY", 0.8)
    monkeypatch.setattr(vqvae, "DEAD", reset_below)
    x = torch.tensor([[0.0], [1.0]])
    model = known([[2.0], [100.0]])
    averages = MovingAverages(model)
    resets = sum(averages.update(model.quantise(x)) for _ in range(60))
    assert (resets > 0) is (alive == 2)
    assert len(model.quantise(x).s.unique(dim=0)) == alive
    if alive == 2:
        assert sorted(model.codes.flatten().tolist()) == pytest.approx([1, 3], abs=1e-3)
        assert model.losses(x)[1]["commitment"] == pytest.approx(0, abs=1e-5)

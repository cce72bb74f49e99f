"""The VQ-VAE: its gradient straight through the codes, moving averages, restarts, and how codebooks
are used.
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from plot_attractors.baselines import VQVAE, MovingAverages, perplexity
from plot_attractors.language import Language
from plot_attractors.model.attractor import InputDecoder
from plot_attractors.model.nn import MLP
from plot_attractors.model.protocols import Reconstructs, Speaker
from plot_attractors.report import findings, report
from plot_attractors.runs import Run, fit, registry
from plot_attractors.runs.analyze import analyze
from plot_attractors.runs.compare import compare

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
    found = model.quantise(x)
    starts = (0, 2, 5)
    for k in range(2):
        codebook = model.codes[starts[k] : starts[k + 1]]
        said = found.s[:, starts[k] : starts[k + 1]]
        distance = torch.cdist(found.queries[:, k], codebook)
        if null_code:
            distance = torch.cat([distance, found.queries[:, k].norm(dim=-1, keepdim=True)], -1)
            said = torch.cat([said, 1 - said.sum(-1, keepdim=True)], -1)
        assert torch.equal(said.argmax(-1), distance.argmin(-1))
        assert torch.equal(said.sum(-1), torch.ones(len(x)).double())
    torch.testing.assert_close(model.embed(found.s), found.codes.sum(1))
    described = model.describe(x, 3)
    assert described.z.shape == (32, 3, LATENT)
    assert torch.equal(described.s, found.s[:, None].expand(-1, 3, -1))
    torch.testing.assert_close(described.z[:, 2], found.codes.sum(1))
    assert isinstance(model, Speaker)
    assert isinstance(model, Reconstructs)


def test_a_sentence_without_a_codebook_stands_for_the_mean_of_its_completions() -> None:
    model = build()
    first = torch.tensor([0.0, 1, 0, 0, 0]).double()
    completions = torch.stack([first + torch.eye(5)[k] for k in (2, 3, 4)])
    torch.testing.assert_close(model.embed(first), model.embed(completions).mean(0))
    everything = model.embed(torch.zeros(5).double())
    torch.testing.assert_close(everything, model.embed(model.language.sentences.double()).mean(0))


def test_a_null_code_is_the_origin() -> None:
    model = build(null_code=True)
    assert torch.equal(model.embed(torch.zeros(5).double()), torch.zeros(LATENT).double())
    with torch.no_grad():
        model.encoder[-1].weight.zero_()
        model.encoder[-1].bias.fill_(1e-3)
    found = model.quantise(inputs(4))
    assert not found.s.any()
    assert not found.codes.any()


@pytest.mark.parametrize("null_code", [False, True])
def test_gradients_are_those_of_the_relaxed_objective(null_code: bool) -> None:
    """With chosen codes and what is stopped held fixed, the loss is smooth: its finite differences
    are the gradient.
    """
    model, x, beta = build(null_code), inputs(8), 0.25
    found, terms = model.losses(x)
    loss = terms["reconstruction"] + terms["dictionary"] + beta * terms["commitment"]
    parameters = [model.codes, *model.encoder.parameters(), *model.decoder.parameters()]
    gradients = torch.autograd.grad(loss, parameters)
    q0, e0 = found.queries.detach(), found.codes.detach()
    held = model.language.token_group[None] == torch.arange(2)[:, None]  # (K, tokens)

    def relaxed() -> float:
        with torch.no_grad():
            q = model.queries(x)
            e = torch.einsum("bt,kt,td->bkd", found.s, held.double(), model.codes)
            nll = -model.decoder((q + e0 - q0).sum(1)).log_prob(x).sum(-1).mean()
            terms = (q0 - e).square().sum((1, 2)).mean(), (q - e0).square().sum((1, 2)).mean()
            return float(nll + terms[0] + beta * terms[1])

    assert relaxed() == pytest.approx(float(loss.detach()))
    h = 1e-6
    for parameter, gradient in zip(parameters, gradients, strict=True):
        flat = parameter.data.view(-1)
        for index in torch.randperm(len(flat))[:4].tolist():
            before = float(flat[index])
            flat[index] = before + h
            above = relaxed()
            flat[index] = before - h
            below = relaxed()
            flat[index] = before
            assert float(gradient.view(-1)[index]) == pytest.approx(
                (above - below) / (2 * h), rel=1e-4, abs=1e-7
            )


def test_the_reconstruction_alone_moves_no_code() -> None:
    model = build()
    reconstruction = model.losses(inputs())[1]["reconstruction"]
    reconstruction.backward()
    assert model.codes.grad is None or not model.codes.grad.any()
    assert model.encoder[0].weight.grad.abs().sum() > 0


def test_the_continuous_decoder_reads_the_queries_and_teaches_nothing_else() -> None:
    model, x = build(), inputs()
    loss = model.losses(x)[1]["continuous"]
    assert loss.item() == pytest.approx(-model.reconstruct(x).log_prob(x).sum(-1).mean().item())
    expected = model.continuous_decoder(model.queries(x).sum(1)).logits
    torch.testing.assert_close(model.reconstruct(x).logits, expected)
    loss.backward()
    moved = {
        name.split(".")[0]
        for name, p in model.named_parameters()
        if p.grad is not None and p.grad.any()
    }
    assert moved == {"continuous_decoder"}


class Fixed(nn.Module):
    """An encoder whose queries are given."""

    def __init__(self, queries: Tensor) -> None:
        super().__init__()
        self.queries = queries

    def forward(self, x: Tensor) -> Tensor:
        return self.queries[x[:, 0].long()].flatten(1)


def known(codes: list[list[float]]) -> VQVAE:
    """Two queries of one codebook of two in one dimension: 1 and 3, for x = 0 and x = 1."""
    model = VQVAE(
        Language((2,), min_length=1), 1, Fixed(torch.tensor([[[1.0]], [[3.0]]])), *decoders(1, 1)
    )
    model.codes.data = torch.tensor(codes)
    return model


def test_moving_averages_by_hand() -> None:
    model = known([[0.0], [4.0]])
    averages = MovingAverages(model, decay=0.5)
    x = torch.tensor([[0.0], [0.0], [0.0], [1.0]])  # three queries of 1, one of 3
    averages.update(model.quantise(x))
    # N = (1/2 + 3/4) / 2, (1/2 + 1/4) / 2; M = (0 + 3/4) / 2, (2 + 3/4) / 2
    torch.testing.assert_close(averages.shares, torch.tensor([0.625, 0.375]))
    torch.testing.assert_close(
        model.codes.detach(), torch.tensor([[0.375 / 0.625], [1.375 / 0.375]])
    )
    for _ in range(60):
        averages.update(model.quantise(x))
    torch.testing.assert_close(
        model.codes.detach(), torch.tensor([[1.0], [3.0]])
    )  # the means of their queries
    torch.testing.assert_close(averages.shares, torch.tensor([0.75, 0.25]))
    assert not model.codes.requires_grad


def test_a_dead_code_stays_dead_without_restarts_and_is_revived_by_them() -> None:
    x = torch.tensor([[0.0], [1.0]])
    for restart_below, alive in ((0.0, 1), (0.05, 2)):
        torch.manual_seed(0)
        model = known([[2.0], [100.0]])
        averages = MovingAverages(model, decay=0.8, restart_below=restart_below)
        restarts = sum(averages.update(model.quantise(x)) for _ in range(60))
        assert (restarts > 0) is (alive == 2)
        s = model.quantise(x).s
        assert len(s.unique(dim=0)) == alive
    assert sorted(model.codes.flatten().tolist()) == pytest.approx([1, 3], abs=1e-3)
    assert model.losses(x)[1]["commitment"] == pytest.approx(0, abs=1e-5)


def test_what_is_never_used_and_never_restarted_stays_finite() -> None:
    model = known([[2.0], [100.0]])
    averages = MovingAverages(model, decay=0.0)
    averages.update(model.quantise(torch.tensor([[0.0], [1.0]])))
    torch.testing.assert_close(model.codes.detach(), torch.tensor([[2.0], [100.0]]))


def test_perplexity_and_use_of_known_codes() -> None:
    language = Language((2, 4, 2), min_length=3)
    tokens = [[0, 2, 6], [1, 3, 6], [0, 4, 6], [1, 5, 7]]
    s = torch.stack([nn.functional.one_hot(torch.tensor(t), 8).sum(0) for t in tokens]).float()
    effective, used = perplexity(language, s)
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    torch.testing.assert_close(effective, torch.tensor([2, 4, math.exp(entropy)]))
    assert used.tolist() == [2, 4, 2]
    s[0, 6] = 0  # no token of the third codebook
    effective, used = perplexity(language, s, null_code=True)
    entropy = -(0.5 * math.log(0.5) + 2 * 0.25 * math.log(0.25))
    assert float(effective[2]) == pytest.approx(math.exp(entropy))
    assert used.tolist() == [2, 4, 3]
    effective, used = perplexity(language, s[:1].expand(5, -1), null_code=True)
    torch.testing.assert_close(effective, torch.ones(3))
    assert used.tolist() == [1, 1, 1]


def test_it_learns_a_code_of_four_inputs_exactly() -> None:
    """Four inputs, one codebook of four: after training each input has a token and is
    reconstructed.
    """
    program = registry.load("inference", "vqvae")
    patterns = torch.tensor(
        [[1.0, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1], [1, 0, 1, 0, 1, 0]]
    )

    class Data:
        def batch(self, n: int) -> object:
            return type("Batch", (), {"x": patterns[torch.randint(4, (n,))]})

    torch.manual_seed(2)
    model = VQVAE(Language((4,)), LATENT, MLP(6, LATENT, 32), *decoders(LATENT, 6))
    settings = {
        "dictionary": "moving_average",
        "restart_below": 0.05,
        "decay": 0.8,
        "updates": 150,
        "lr": 0.01,
    }
    inference = program.build(model, Data(), program.Config(**settings))
    while not inference.done:
        inference.step()
    found, terms = model.losses(patterns)
    assert len(found.s.unique(dim=0)) == 4
    assert terms["reconstruction"] < 0.5  # 3.8 for who says one thing of all
    summary = inference.summary()
    assert summary["sentences_in_use"] == 4
    assert summary["codes_in_use_1"] == summary["tokens_in_use"] == 4


def test_no_token_counts_as_a_code_where_there_are_null_codes() -> None:
    """A model that never uses a codebook has a perplexity of 1 there, not 0 codes of it."""
    program, inference = registry.load("models", "vqvae"), registry.load("inference", "vqvae")
    config = program.Config(depth=3, bits=16, units=8, null_code=True)
    data = program.load_data(config)
    model = program.build(config, data)
    model.codes.data.fill_(100.0)  # far from every query, unlike the null codes at the origin
    summary = inference.build(model, data, inference.Config()).summary()
    assert [summary[f"perplexity_{k}"] for k in (1, 2, 3)] == pytest.approx([1, 1, 1])
    assert [summary[f"codes_in_use_{k}"] for k in (1, 2, 3)] == [1, 1, 1]
    assert (summary["sentences_in_use"], summary["tokens_in_use"]) == (1, 0)


@pytest.mark.parametrize(
    ("language", "null_code"),
    [
        (Language((2, 2)), False),
        (Language((2, 2), 2), True),
        (Language((2, 2), 2, ordered=True), False),
    ],
)
def test_a_language_that_codebooks_cannot_speak_is_refused(
    language: Language, null_code: bool
) -> None:
    with pytest.raises(ValueError, match="the language of a VQ-VAE"):
        VQVAE(language, 2, nn.Identity(), *decoders(2, 2), null_code)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"decay": 1.0}, "decay is the part"),
        ({"restart_below": 0.5}, r"restart_below .* below 0\.5"),
    ],
)
def test_moving_averages_that_make_no_sense_are_refused(
    settings: dict[str, float], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        MovingAverages(known([[0.0], [1.0]]), **settings)


@pytest.mark.parametrize("preset", ["smoke", "modern"])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, preset: str) -> None:
    settings = {
        "depth": 3,
        "bits": 16,
        "units": 16,
        "batch": 16,
        "updates": 30,
        "decay": 0.8,
        "restart_below": 0.3,
    }
    whole = fit("vqvae", preset=preset, out=tmp_path / "whole", settings=settings, log_every=10)

    def stop(progress: object) -> None:
        if progress.position >= 10:  # type: ignore[attr-defined]
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fit(
            "vqvae", preset=preset, out=tmp_path / "parts", settings=settings, log_every=10, on_progress=stop,
            checkpoint_seconds=0,
        )  # fmt: skip
    assert 0 < Run(tmp_path / "parts").position[0] < 30
    fit(
        "vqvae", preset=preset, out=tmp_path / "parts", settings=settings, log_every=10, resume=True
    )
    one, other = Run(whole), Run(tmp_path / "parts")
    for (name, a), b in zip(
        one.model.state_dict().items(), other.model.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b), name
    assert one.metrics().drop(columns="seconds").equals(other.metrics().drop(columns="seconds"))
    assert one.config["run"]["inference"] == "vqvae"
    assert one.model.language.count == (27 if preset == "modern" else 8)
    if preset == "modern":
        assert one.metrics()["restarts"].max() > 0
        assert torch.equal(one.inference.averages.sums, other.inference.averages.sums)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit("vqvae", preset="smoke", out=tmp_path_factory.mktemp("vqvae") / "run", log_every=10)


def test_information_loss_has_one_row_of_no_steps(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = registry.load("analyses", "information_loss")
    monkeypatch.setattr(program, "INPUTS", 40)
    monkeypatch.setattr(program, "DRAWS", 2)
    result = analyze(run, ["information_loss"])[0]
    assert result.error is None, result.error
    table = pd.read_csv(result.out / "summary.csv")
    assert table[["split", "steps", "n"]].to_numpy().tolist() == [
        ["train", 0, 80],
        ["held_out", 0, 80],
    ]
    assert table["kl_exact"].isna().all()
    # the same by hand
    fitted = Run(run)
    with torch.random.fork_rng():
        torch.manual_seed(fitted.seed + 1)
        x = fitted.data.batch(40).x
    right = [
        (logits > 0) == (x > 0.5)
        for logits in (fitted.model.reconstruct(x).logits, decode(fitted.model, x))
    ]
    lost = (right[0].sum(-1) - right[1].sum(-1)).double().mean()
    assert table["mean"][0] == pytest.approx(float(lost))


def decode(model: VQVAE, x: Tensor) -> Tensor:
    return model.decoder(model.describe(x).z[:, 0]).logits


def test_a_comparison_leaves_out_what_such_a_model_does_not_have(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(run / "analyses", ignore_errors=True)
    caplog.set_level("WARNING", "plot_attractors")
    row = compare(run).iloc[0]
    assert caplog.messages == [
        f"{run} lacks information_loss: plot-attractors analyze {run} information_loss"
    ]
    assert all(math.isnan(row[name]) for name in ("kl", "tv", "recovery"))
    (run / "analyses" / "information_loss").mkdir(parents=True)
    text = "split,steps,mean,p,kl,p_negative,kl_exact\ntrain,0,1.5,0.4,0.25,0.1,\n"
    (run / "analyses" / "information_loss" / "summary.csv").write_text(text)
    caplog.clear()
    row = compare(run).iloc[0]
    assert caplog.messages == []
    assert (row["kl"], row["mean_d"]) == (0.25, 1.5)
    assert all(math.isnan(row[name]) for name in ("kl_exact", "kl_5T", "mean_d_5T"))


def test_analyses_of_dynamics_do_not_apply_and_a_report_says_why(run: Path) -> None:
    said = " ".join(findings.missing_analyses(Run(run), "RUN"))
    for name in (
        "basins",
        "calibration",
        "diagnostics",
        "neighbours",
        "perturbation",
        "trajectories",
    ):
        assert f"{name} does not apply to this model, which asks " in said
    page = report(run).read_text(encoding="utf-8")
    assert "calibration does not apply to this model" in page


def test_a_table_sizes_the_codebooks(tmp_path: Path) -> None:
    rows = "\n".join(f"{i & 1},{i >> 1 & 1},{i >> 2},{'ab'[i & 1]}" for i in range(8))
    (tmp_path / "table.csv").write_text(f"p,q,r,kind\n{rows}\n")
    settings = {
        "data": tmp_path / "table.csv",
        "labels": "kind",
        "units": 8,
        "batch": 8,
        "updates": 5,
    }
    run = Run(fit("vqvae", out=tmp_path / "run", settings=settings))
    assert findings.data_of(run) is None  # not the paper's hierarchical binary vectors
    assert run.model.language.groups == (2, 2, 2)
    assert run.data.label_names == ("kind",)
    assert (run.model.describe(run.data.batch(8).x).s.sum(-1) == 3).all()

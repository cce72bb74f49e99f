"""GFlowNet-EM: who trains what, every option a few updates long, and a stop at any position."""

from __future__ import annotations

import io
import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from plot_attractors.runs import registry

hbv = registry.load("models", "hbv")
gflownet_em = registry.load("inference", "gflownet_em")

SHORT = {
    "pretrain": 2, "warm_up": 2, "cycles": 1, "e_updates": 4, "m_updates": 2, "final_e_updates": 3,
    "replay": 24, "fresh": 8, "refresh": 2, "sleep_trajectories": 8, "prior_states": 8, "wake_every": 2,
    "trajectories": 8, "discretizer_states": 8, "discretizer_every": 2, "batch": 8, "balance_weight": 0.02,
}  # fmt: skip


def build(model: dict[str, Any] | None = None, **inference: Any) -> Any:
    config = hbv.Config(**{**hbv.PRESETS["smoke"], "steps": 5, "latent": 3, **(model or {})})
    data = hbv.load_data(config)
    return gflownet_em.build(
        hbv.build(config, data), data, gflownet_em.Config(**{**SHORT, **inference})
    )


def run_to(inference: Any, name: str) -> Any:
    while inference.phase.name != name:
        inference.step()
    return inference


def with_gradient(parameters: Any) -> list[bool]:
    return [p.grad is not None and bool((p.grad != 0).any()) for p in parameters]


# -- gradients reach exactly the parameters that they should

MODELS: dict[str, dict[str, Any]] = {
    "default": {},
    "x as context": {"context": "x"},
    "z0 sampled": {"z0": "sample"},
    "learned first backward step": {"first_backward_step": "learned"},
    "decodability as a posterior": {"decodability": "posterior"},
    "decodability as a density": {"decodability": "density"},
    "time and context": {"forward_sees": ("time", "context")},
    "any token order": {"canonical": False},
    "ordered sequences": {"ordered": True},
    "learned discretizer": {"sentence_readout": "discretizer"},
    "length prior": {"length_cost": 0.5},
}
models = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())


@models
def test_an_e_step_trains_theta_and_only_theta(model: dict[str, Any]) -> None:
    inference = run_to(build(model, wake_every=1, discretizer_every=1), "e_step")
    inference.model.zero_grad(set_to_none=True)
    before = [p.detach().clone() for p in inference.model.phi]
    for _ in range(2):
        inference.step()
    m = inference.model
    for name in (
        "forward_dynamics",
        "backward_dynamics",
        "discretizer",
        "flow_correction",
        "log_partition",
    ):
        named = dict(getattr(m, name).named_parameters())
        missing = [
            n for n, has in zip(named, with_gradient(named.values()), strict=True) if not has
        ]
        assert not missing, f"{name}: no gradient for {missing}"
    assert all(p.grad is None for p in m.phi)
    assert all(torch.equal(p, q) for p, q in zip(m.phi, before, strict=True))


@pytest.mark.parametrize("source", ["trajectory", "posterior"])
def test_an_m_step_trains_phi_and_only_phi(source: str) -> None:
    inference = run_to(build(label_source=source), "m_step")
    inference.model.zero_grad(set_to_none=True)
    before = [p.detach().clone() for p in inference.model.theta]
    inference.step()
    assert all(with_gradient(inference.model.phi))
    assert all(p.grad is None for p in inference.model.theta)
    assert all(torch.equal(p, q) for p, q in zip(inference.model.theta, before, strict=True))


def test_pretraining_leaves_sentences_alone() -> None:
    inference = build()
    inference.step()
    assert not any(with_gradient(inference.model.sentence_encoder.parameters()))
    assert all(
        with_gradient(
            [*inference.model.encoder.parameters(), *inference.model.decoder.parameters()]
        )
    )


def test_without_balance_flow_correction_stays() -> None:
    inference = run_to(build(balance_weight=0.0), "e_step")
    inference.model.zero_grad(set_to_none=True)
    metrics = inference.step()
    assert "balance_loss" not in metrics
    assert not any(with_gradient(inference.model.flow_correction.parameters()))
    assert all(with_gradient(inference.model.forward_dynamics.net.parameters()))


# -- every option runs

OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "sleep from the prior": {"sleep_sentences": "prior"},
    "sleep from sentences met": {"sleep_sentences": "met"},
    "sleep with the backward dynamics": {"sleep_kernel": "backward_dynamics"},
    "the paper's sleep": {
        "sleep_sentences": "prior",
        "sleep_kernel": "backward_dynamics",
        "sleep_weight": 0.0,
    },
    "substrings": {"substrings": True},
    "posterior labels": {"label_source": "posterior"},
    "best label": {"label_sharpness": math.inf},
    "sub-trajectory balance": {"balance": "sub_trajectory"},
    "squared loss": {"robust": "squared"},
    "sleep only": {"sleep": 1.0},
    "no sleep": {"sleep": 0.0},
    "no balance": {"balance_weight": 0.0},
    "no likelihood of the forward dynamics": {"sleep_weight": 0.0},
    "no likelihood of the backward dynamics": {"wake_weight": 0.0},
    "no waiting at the prior's sentences": {"prior_states": 0},
    "no strays": {"strays": 0.0},
    "strays only": {"strays": 1.0},
    "a walk of all steps": {"walk": 5},
    "more waits than there are": {"waits": 50},
    "labels from terminal states": {"label_source": "terminal"},
    "the paper's text": {k: v for k, v in gflownet_em.PRESETS["paper"].items() if k not in SHORT},
    "no discretizer": {"discretizer_states": 0},
    "no widening": {"widening": 0.0},
    "no exploration": {"alpha_dyn": 0.0, "alpha_disc": 0.0},
    "exploration only": {"alpha_dyn": 1.0, "alpha_disc": 1.0},
}


def check_run(inference: Any) -> None:
    while not inference.done:
        phase = inference.phase.name
        metrics = inference.step()
        assert metrics, phase
        assert all(math.isfinite(v) for v in metrics.values()), (phase, metrics)
    assert all(torch.isfinite(p).all() for p in inference.model.parameters())
    assert all(math.isfinite(v) for v in inference.summary().values())


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS.keys())
def test_options_of_the_inference(option: dict[str, Any]) -> None:
    check_run(build(**option))


@models
@pytest.mark.parametrize(
    "option",
    [
        {"sleep_sentences": "prior", "sleep_kernel": "backward_dynamics"},
        {"sleep_sentences": "met", "substrings": True},
    ],
    ids=["prior", "met"],
)
def test_options_of_the_model(model: dict[str, Any], option: dict[str, Any]) -> None:
    check_run(build(model, **option))


def test_trajectories_of_one_step() -> None:
    check_run(build({"steps": 1}, walk=1))


# -- what enters the buffers


def test_populating_keeps_trajectories_with_the_sentence_of_their_end() -> None:
    inference = run_to(build(), "e_step")
    inference.begin(inference.phase)
    x, z, s = (inference.buffer.entries[k] for k in ("x", "z", "s"))
    assert x.shape[0] == z.shape[0] == s.shape[0] == 24
    assert z.shape[1:] == (6, 3)
    assert torch.equal(z[:, 0], inference.model.encoder(x).loc), "z0 is the encoder's mean"
    assert set(inference.model.language.length(s).tolist()) <= {1.0, 2.0, 3.0}


def test_a_new_e_step_starts_with_a_new_buffer() -> None:
    """The M-step has changed the reward: what the buffer held is of another model."""
    inference = run_to(build(), "e_step")
    inference.step()
    run_to(inference, "m_step")
    old = inference.buffer.entries["x"].clone()
    run_to(inference, "e_step")
    inference.step()
    new = inference.buffer.entries
    assert torch.allclose(new["z"][:, 0], inference.model.encoder(new["x"]).loc, atol=1e-6)
    assert not torch.equal(old, new["x"])


@pytest.mark.parametrize("ordered", [False, True])
def test_substrings_are_sentences_with_fewer_of_the_same_tokens(ordered: bool) -> None:
    inference = build({"ordered": ordered})
    language = inference.model.language
    whole = language.sentences[-1:].expand(200, -1)
    inference.add_substrings(torch.zeros(200, 16), whole)
    s = inference.labels.entries["s"]
    valid = {tuple(row.tolist()) for row in language.sentences}
    assert {tuple(row.tolist()) for row in s} <= valid
    assert (language.bag(s) <= language.bag(whole[:1])).all()
    assert torch.bincount(language.length(s).long()).tolist() == [0, 200, 200], (
        "one of every length below"
    )


def test_an_m_step_uses_every_label_so_often() -> None:
    inference = run_to(build(m_updates=40, batch=8, label_uses=16.0), "m_step")
    inference.begin(inference.phase)
    assert len(inference.labels.entries["s"]) == 40 * 8 / 16


def test_sentences_are_labelled_by_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """With infinite sharpness the label is the best sentence met along the trajectory."""
    inference = run_to(build(label_sharpness=math.inf, label_trajectories=3), "m_step")
    seen: list[Any] = []
    original = inference.forward_trajectories

    def spy(x: Tensor) -> Any:
        seen.append((x, *original(x)))
        return seen[-1][1:]

    monkeypatch.setattr(inference, "forward_trajectories", spy)
    inference.add_labels(32)
    x, _, s, log_r = seen[0]
    labels = inference.labels.entries
    m = inference.model
    assert torch.allclose(m.log_reward(m.encode(x).distribution, s), log_r, atol=1e-4)
    best = log_r.amax(0).view(3, 32).amax(0)  # of three trajectories of every input
    assert torch.equal(x.view(3, 32, -1)[1], labels["x"])
    assert torch.allclose(
        m.log_reward(m.encode(labels["x"]).distribution, labels["s"]), best, atol=1e-4
    )


@pytest.mark.parametrize("kernel", ["go_and_wait", "backward_dynamics"])
@pytest.mark.parametrize("sentences", ["posterior", "met", "prior"])
def test_sleep_goes_from_z0_to_an_embedding(kernel: str, sentences: str) -> None:
    inference = build(sleep_kernel=kernel, sleep_sentences=sentences)
    e, *_, trajectories = inference.sleep(64)
    assert trajectories.z.shape == (6, 64, 3)
    assert torch.allclose(trajectories.z[0], e.z0, atol=1e-5)
    assert torch.equal(trajectories.context, e.context)
    nearest = torch.cdist(trajectories.z[-1], inference.model.embeddings()).amin(-1)
    assert nearest.max() < 5 * inference.model.epsilon * 3**0.5
    assert not trajectories.z.requires_grad


def test_strays_come_back_at_bounded_speed() -> None:
    inference = build(
        prior_states=400, strays=0.5, stray_sd=(0.0, 1.0), persistence=0.5, prior_weight=0.3
    )
    m = inference.model
    z, mean, _, _, _, weight = inference.prior_waiting(m.encode(inference.inputs(8)))
    home = torch.cdist(z, m.embeddings()).amin(-1)
    moved = (mean - z).norm(dim=-1)
    assert moved.max() <= 0.9 * m.forward_dynamics.max_step + 1e-5
    assert (moved[:200] > 0.8 * m.forward_dynamics.max_step).float().mean() > 0.5, (
        "most strays are far away"
    )
    assert home[200:].max() < 5 * m.epsilon * 3**0.5, "the others wait"
    after = torch.cdist(mean, m.embeddings()).amin(-1)
    far = home > 1.0
    assert far.sum() > 20
    assert (after[far] < home[far]).float().mean() > 0.9, "strays walk inwards"
    assert float(weight.sum()) == pytest.approx(0.3 * (m.steps - inference.config.walk))


def test_sleep_from_the_prior_is_an_input_like_any_other() -> None:
    """The reward of the imagined input is that of its own z0, not of the sentence that it was drawn
    from.
    """
    inference = build({"units": 16}, sleep_sentences="prior")
    e, *_ = inference.sleep(256)
    assert torch.allclose(e.distribution.loc, e.z0)
    assert torch.equal(e.context, e.z0)
    expected = 0.01 + 0.99 * torch.sigmoid(inference.model.encoder.sd(e.z0))
    assert torch.allclose(e.distribution.scale, expected, atol=1e-6)


def test_a_learned_first_backward_step_is_learned() -> None:
    """P←(z_T | ẑ_s, T + 1, x) is part of the flow at T, and its parameters belong to θ."""
    inference = build({"first_backward_step": "learned", "backward_reverses_forward": False})
    m = inference.model
    e = m.encode(inference.inputs(2))
    flow = inference.flow(e)
    z, times = torch.randn(6, 2, 3), torch.arange(6.0)[:, None, None]
    log_f = flow.log_flow(z, times)
    kernel = m.first_backward_kernel(m.sentences[:, None], e.context)
    expected = (m.log_reward(e.distribution).T + kernel.log_prob(z[-1]).sum(-1)).logsumexp(0)
    assert torch.allclose(log_f[-1], expected, rtol=1e-4)
    log_f[-1].sum().backward()
    assert all(with_gradient(m.backward_dynamics.net.parameters()))
    assert all(p.grad is None for p in m.phi)


def test_the_last_learning_rate_falls() -> None:
    inference = build(final_e_updates=10)
    rates = []
    while not inference.done:
        phase = inference.phase
        inference.step()
        if phase.cycle == 1:
            rates.append(inference.optimizer_theta.param_groups[0]["lr"])
    assert rates[:5] == pytest.approx([2e-3] * 5)
    assert all(a > b for a, b in itertools.pairwise(rates[5:]))
    assert rates[-1] < 4e-4


def test_discretizer_balance_vanishes_for_the_exact_discretizer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With P(s | z) ∝ R(s; x) N(z; ẑ_s, ε²) and its Z the loss is 0: reward, kernel and prior each
    enter once.
    """
    from plot_attractors.gflownet.trajectories import Trajectories
    from plot_attractors.language.policy import TabulatedSentences

    inference = build({"length_cost": 0.6, "decodability": "posterior"}, robust="squared")
    m = inference.model
    e = m.encode(inference.inputs(1))
    z = (0.05 * torch.randn(6, 1, 3) + m.embeddings()[5]).detach()

    def log_joint(z: Tensor) -> Tensor:
        kernel = (
            torch.distributions.Normal(m.embeddings(), m.epsilon).log_prob(z[..., None, :]).sum(-1)
        )
        return (m.log_reward(e.distribution) + kernel + m.log_decodability(z)).detach()

    class Exact(torch.nn.Module):
        backward_policy = None

        def forward(
            self, z: Tensor, context: Any = None, explore: float = 0.0
        ) -> TabulatedSentences:
            return TabulatedSentences(log_joint(z), m.language)

    class Partition(torch.nn.Module):
        def forward(self, z: Tensor, context: Tensor) -> Tensor:
            return log_joint(z).logsumexp(-1)

    m.discretizer, m.log_partition = Exact(), Partition()
    loss = inference.discretizer_loss(e, Trajectories(z, e.context))
    assert float(loss) < 1e-5


def test_flow_of_the_e_step_is_the_models_reward() -> None:
    """At t = T: log Σ_s R(s; x) N(z; ẑ_s, ε²) with the model's own reward, for every input of the
    batch.
    """
    inference = build({"length_cost": 0.6})
    m = inference.model
    e = m.encode(inference.inputs(7))
    z = torch.randn(6, 7, 3)
    flow = inference.flow(e)
    times = torch.arange(6.0)[:, None, None]
    kernel = torch.distributions.Normal(m.embeddings(), m.epsilon).log_prob(z[-1][:, None]).sum(-1)
    expected = (m.log_reward(e.distribution) + kernel).logsumexp(-1)
    assert torch.allclose(flow.log_flow(z, times)[-1], expected, rtol=1e-4)
    assert torch.allclose(flow.log_z, m.log_reward(e.distribution).logsumexp(-1))


# -- stop anywhere, go on as if nothing had happened


def snapshot(inference: Any) -> bytes:
    file = io.BytesIO()
    torch.save({"state": inference.state_dict(), "rng": torch.get_rng_state()}, file)
    return file.getvalue()


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


@pytest.mark.parametrize(
    "option", [{}, {"sleep_sentences": "met", "substrings": True}], ids=["default", "met"]
)
def test_a_resumed_inference_equals_an_uninterrupted_one(option: dict[str, Any]) -> None:
    torch.manual_seed(1)
    whole = build(**option)
    stops: list[bytes] = []
    metrics = []
    while not whole.done:
        stops.append(snapshot(whole))
        metrics.append(whole.step())
    final = whole.state_dict()
    assert {
        "model",
        "position",
        "optimizer_phi",
        "optimizer_theta",
        "buffer",
        "labels",
    } <= final.keys()
    for position, stop in enumerate(stops):
        torch.manual_seed(99)  # another random initialisation and state, all overwritten
        resumed = build(**option)
        loaded = torch.load(io.BytesIO(stop), weights_only=True)
        resumed.load_state_dict(loaded["state"])
        torch.set_rng_state(loaded["rng"])
        assert resumed.position == position
        rest = []
        while not resumed.done:
            rest.append(resumed.step())
        assert rest == metrics[position:], f"stopped at {position}"
        assert equal(resumed.state_dict(), final), f"stopped at {position}"


def test_the_smoke_preset_in_order() -> None:
    inference = gflownet_em.build(
        hbv.build(
            hbv.Config(**hbv.PRESETS["smoke"]),
            data := hbv.load_data(hbv.Config(**hbv.PRESETS["smoke"])),
        ),
        data,
        gflownet_em.Config(**gflownet_em.PRESETS["smoke"]),
    )
    assert [p.name for p in inference.schedule] == [
        "pretrain",
        "exact_m_step",
        "e_step",
        "m_step",
        "e_step",
    ]

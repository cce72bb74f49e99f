"""Latents of a frozen decoder of somebody else, given half of an image, by relative balance.

    pip install scikit-learn
    python examples/frozen_decoder.py --seconds 120 --seeds 0 1 2

scikit-learn trains a restricted Boltzmann machine of 16 binary units on digits in black and white.
Its prior of units and its decoder stay as they are; a guide learns to draw units from the upper
half of an image. All 65,536 states of the units are summed for the truth. Prints, of images that
were held out, the total variation of the guide from the posterior (mean over 20 of them), and
log p(lower half | upper half) by 64 draws an image, nats; beside Gibbs sampling by 64 chains.
"""

import argparse
import math
import time

import pyro
import torch
from pyro.distributions import Bernoulli
from sklearn.datasets import load_digits
from sklearn.neural_network import BernoulliRBM
from torch import Tensor, nn
from torch.nn.functional import softplus

from plot_attractors.gflownet import RelativeTrajectoryBalance, tempered

UNITS, SEEN, DRAWS = 16, 32, 64  # units; pixels of the upper half; draws of an image
BATCH, PARTICLES, HIDDEN = 128, 8, 128


class Decoder:
    """A trained machine: log-weights of units h (…, units), and pixels given units."""

    def __init__(self, images: Tensor) -> None:
        machine = BernoulliRBM(UNITS, learning_rate=0.05, n_iter=100, random_state=0)
        machine.fit(images.double().numpy())
        parts = machine.components_, machine.intercept_visible_, machine.intercept_hidden_
        self.weight, self.pixel, self.unit = (torch.from_numpy(part).float() for part in parts)

    def logits(self, h: Tensor) -> Tensor:
        return h @ self.weight + self.pixel

    def log_prior(self, h: Tensor) -> Tensor:
        return h @ self.unit + softplus(self.logits(h)).sum(-1)

    def model(self, seen: Tensor) -> None:
        with pyro.plate("images", len(seen)):
            h = torch.stack([pyro.sample(f"h{i}", Bernoulli(0.5)) for i in range(UNITS)], -1)
            pyro.factor("prior", self.log_prior(h))
            pixels = Bernoulli(logits=self.logits(h)[..., :SEEN])
            pyro.sample("seen", pixels.to_event(1), obs=seen)


class Guide(nn.Module):
    """q(h_i | upper half, h_1 … h_{i−1}), or q(h_i | upper half); and log Z of the upper half."""

    def __init__(self, conditional: bool) -> None:
        super().__init__()
        self.conditional = conditional
        self.body = nn.Sequential(nn.Linear(SEEN, HIDDEN), nn.ReLU())
        given = range(UNITS) if conditional else [0] * UNITS
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Linear(HIDDEN + i, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
            for i in given
        )
        self.evidence = nn.Sequential(nn.Linear(SEEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))

    def logit(self, i: int, body: Tensor, h: list[Tensor]) -> Tensor:
        before = torch.stack(h, -1) if h and self.conditional else body[..., :0]
        body = body.expand(*before.shape[:-1], -1)
        return self.heads[i](torch.cat([body, before], -1))[..., 0]

    def forward(self, seen: Tensor) -> None:
        body, h = self.body(seen), []
        with pyro.plate("images", len(seen)):
            for i in range(UNITS):
                h.append(pyro.sample(f"h{i}", Bernoulli(logits=self.logit(i, body, h))))

    def log_z(self, seen: Tensor) -> Tensor:
        return 20 * self.evidence(seen)[..., 0]


def fit(decoder: Decoder, seen: Tensor, conditional: bool, seed: int, seconds: float) -> Guide:
    torch.manual_seed(seed)
    guide = Guide(conditional)
    balance = RelativeTrajectoryBalance(
        PARTICLES, log_z=guide.log_z, batch_plate="images", behaviour=tempered(guide, 2.0)
    )
    loss, start = balance(decoder.model, guide), time.process_time()
    optimizer = torch.optim.Adam(guide.parameters(), 1e-3)
    while (done := (time.process_time() - start) / seconds) < 1:
        optimizer.param_groups[0]["lr"] = 1e-3 * min(1.0, 2.05 - 2 * done)
        optimizer.zero_grad()
        loss(seen[torch.randint(len(seen), (BATCH,))]).backward()
        optimizer.step()
    return guide


# -- the truth, and Gibbs sampling

STATES = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * UNITS)


def log_joint(decoder: Decoder, pixels: Tensor) -> Tensor:
    """(N, states) log p(h, pixels) of the first pixels (N, P), up to a constant."""
    logits = decoder.logits(STATES)[:, : pixels.shape[-1]]
    return decoder.log_prior(STATES) + pixels @ logits.T - softplus(logits).sum(-1)


@torch.no_grad()
def total_variation(decoder: Decoder, guide: Guide, seen: Tensor) -> float:
    distance = 0.0
    for image in seen:
        body, h = guide.body(image).expand(len(STATES), -1), list(STATES.unbind(-1))
        log_q = sum(
            Bernoulli(logits=guide.logit(i, body, h[:i])).log_prob(h[i]) for i in range(UNITS)
        )
        posterior = log_joint(decoder, image[None])[0].softmax(-1)
        distance += float((posterior - log_q.exp()).abs().sum()) / 2
    return distance / len(seen)


def predictive(decoder: Decoder, h: Tensor, images: Tensor) -> float:
    """The mean of log p(lower | upper) by draws h (draws, N, units)."""
    pixels = Bernoulli(logits=decoder.logits(h)[..., SEEN:]).log_prob(images[:, SEEN:])
    return float((pixels.sum(-1).logsumexp(0) - math.log(len(h))).mean())


def exact_draws(decoder: Decoder, seen: Tensor) -> Tensor:
    """(draws, N, units) of the posterior itself."""
    posterior = (log_joint(decoder, part).softmax(-1) for part in seen.split(30))
    rows = [torch.multinomial(p, DRAWS, replacement=True) for p in posterior]
    return STATES[torch.cat(rows).T]


def gibbs(decoder: Decoder, seen: Tensor, sweeps: int) -> Tensor:
    """(draws, N, units) of chains that draw units and the lower half in turns."""
    h = torch.rand(DRAWS, len(seen), UNITS).round()
    for _ in range(sweeps):
        lower = torch.bernoulli(decoder.logits(h)[..., SEEN:].sigmoid())
        v = torch.cat([seen.expand(DRAWS, -1, -1), lower], -1)
        h = torch.bernoulli((v @ decoder.weight.T + decoder.unit).sigmoid())
    return h


@torch.no_grad()
def draw(guide: Guide, seen: Tensor) -> Tensor:
    n = len(seen)
    trace = pyro.poutine.trace(guide).get_trace(seen.repeat(DRAWS, 1))
    return torch.stack([trace.nodes[f"h{i}"]["value"] for i in range(UNITS)], -1).view(DRAWS, n, -1)


def judged(name: str, seed: int, variation: float, score: float, seconds: float) -> None:
    print(f"{name},{seed},{variation:.3f},{score:.2f},{seconds:.2f}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=120.0, help="of processor time, each")
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options.add_argument("--images", type=int, default=20, help="whose posterior is summed")
    options.add_argument("--sweeps", type=int, nargs="+", default=[1, 10, 100, 1000])
    given = options.parse_args()
    pyro.enable_validation(False)
    torch.set_num_threads(1)
    images = torch.tensor(load_digits().data > 7).float()
    images = images[torch.randperm(len(images), generator=torch.Generator().manual_seed(0))]
    train, test = images[360:], images[:360]
    decoder = Decoder(train)
    print("method,seed,total_variation,log_predictive,seconds_to_draw")
    exact = [log_joint(decoder, test[:, :n]).logsumexp(-1) for n in (64, SEEN)]
    judged("sum", 0, 0.0, float((exact[0] - exact[1]).mean()), math.nan)
    for seed in given.seeds:
        torch.manual_seed(seed)
        score = predictive(decoder, exact_draws(decoder, test[:, :SEEN]), test)
        judged("exact draws", seed, 0.0, score, math.nan)
        for name, conditional in (("relative balance", True), ("independent units", False)):
            guide = fit(decoder, train[:, :SEEN], conditional, seed, given.seconds)
            variation = total_variation(decoder, guide, test[: given.images, :SEEN])
            start = time.process_time()
            h = draw(guide, test[:, :SEEN])
            taken = time.process_time() - start
            judged(name, seed, variation, predictive(decoder, h, test), taken)
        for sweeps in given.sweeps:
            start = time.process_time()
            h = gibbs(decoder, test[:, :SEEN], sweeps)
            taken = time.process_time() - start
            judged(f"Gibbs {sweeps}", seed, math.nan, predictive(decoder, h, test), taken)


if __name__ == "__main__":
    main()

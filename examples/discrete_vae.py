"""A VAE of eight discrete codes on digits, fit by GFlowNet-EM, by Gumbel-softmax and as a VQ-VAE.

    pip install scikit-learn
    python examples/discrete_vae.py --seconds 60 --seeds 0 1 2

Digits are 8 × 8 pixels that count from 0 to 16, and a code has one of four values: log p(x) is a
sum over 65,536 sentences of codes. Prints log p(x) and ELBO of images that were held out, their
difference KL(q(z | x) || p(z | x)), and log p(x) of training images, nats an image.
"""

import argparse
import math
import time

import pyro
import torch
from pyro import poutine
from pyro.distributions import Binomial, OneHotCategorical
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import gumbel_softmax, one_hot

from plot_attractors.baselines.vqvae import VQVAE
from plot_attractors.gflownet import VarGrad
from plot_attractors.language import Language

CODES, VALUES, HIDDEN = 8, 4, 128
BATCH, HELD_OUT, PARTICLES = 128, 360, 8


def layers(inputs: int, outputs: int, hidden: int = HIDDEN) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


class VAE(nn.Module):
    """p(z) uniform, p(x | z) binomial; q(z_i | x, z_1 … z_{i−1}), or q(z_i | x)."""

    def __init__(self, conditional: bool = True) -> None:
        super().__init__()
        self.power = 1.0  # of the likelihood in the reward
        self.decoder = layers(CODES * VALUES, 64)
        self.encoder = layers(64, HIDDEN)
        self.first = nn.Linear(HIDDEN, CODES * VALUES)
        given = range(CODES if conditional else 0)
        self.others = nn.ModuleList(layers(HIDDEN + i * VALUES, VALUES, 64) for i in given)

    def logits(self, x: Tensor) -> Tensor:
        return self.first(self.encoder(x / 16).relu())

    def model(self, x: Tensor) -> None:
        uniform = OneHotCategorical(torch.ones(VALUES) / VALUES)
        with pyro.plate("digits", len(x)):
            z = [pyro.sample(f"z{i}", uniform) for i in range(CODES)]
            pixels = Binomial(16, logits=self.decoder(torch.cat(z, -1)))
            with poutine.scale(scale=self.power):
                pyro.sample("x", pixels.to_event(1), obs=x)

    def guide(self, x: Tensor) -> None:
        h, z = self.encoder(x / 16).relu(), []
        with pyro.plate("digits", len(x)):
            for i, logits in enumerate(self.first(h).split(VALUES, -1)):
                if self.others:
                    seen = h.expand(*z[0].shape[:-1], -1) if z else h
                    logits = logits + self.others[i](torch.cat([seen, *z], -1))
                z.append(pyro.sample(f"z{i}", OneHotCategorical(logits=logits)))


class GFlowNetEM(VAE):
    """The guide learns by balance, the decoder from what the guide draws: one loss.

    The reward is p(z) p(x | z)^power, the power rising from 0.1 to 1 by half time: codes that a
    guide settles on before the decoder knows them are never used.
    """

    def __init__(self, conditional: bool = True) -> None:
        super().__init__(conditional)
        self.loss = VarGrad(PARTICLES, batch_plate="digits")

    def objective(self, x: Tensor, done: float) -> Tensor:
        self.power = min(1.0, 0.1 ** (1 - 2 * done))
        return self.loss.differentiable_loss(self.model, self.guide, x)

    def elbo(self, x: Tensor) -> Tensor:
        self.power = 1.0
        return VarGrad(64, batch_plate="digits").log_weights(self.model, self.guide, x).mean()


class Gumbel(GFlowNetEM):
    """Relaxed codes, at temperatures from 1 to 0.3."""

    def objective(self, x: Tensor, done: float) -> Tensor:
        log_q = self.logits(x).unflatten(-1, (CODES, VALUES)).log_softmax(-1)
        pixels = Binomial(16, logits=self.decoder(gumbel_softmax(log_q, 0.3**done).flatten(1)))
        kl = (log_q.exp() * (log_q + math.log(VALUES))).sum((1, 2))
        return (kl - pixels.log_prob(x).sum(-1)).mean()


class Pixels(nn.Module):
    """P(x | sum of codes), with the decoder's class of functions."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Sequential(nn.ReLU(), nn.Linear(HIDDEN, 64))

    def forward(self, z: Tensor) -> Binomial:
        return Binomial(16, logits=self.logits(z))


class VQ(nn.Module):
    """The nearest codes, their gradient straight through; q is one sentence."""

    def __init__(self) -> None:
        super().__init__()
        language, encoder = Language((VALUES,) * CODES, CODES), layers(64, CODES * HIDDEN)
        self.net = VQVAE(language, HIDDEN, encoder, Pixels(), Pixels())

    def decoder(self, z: Tensor) -> Tensor:
        return self.net.decoder(self.net.embed(z)).logits

    def objective(self, x: Tensor, done: float) -> Tensor:
        terms = self.net.losses(x)[1]
        return terms["reconstruction"] + terms["dictionary"] + 0.25 * terms["commitment"]

    def elbo(self, x: Tensor) -> Tensor:
        pixels = self.net.decoder(self.net.embed(self.net.quantise(x).s))
        return pixels.log_prob(x).sum(-1).mean() - CODES * math.log(VALUES)


METHODS = {  # learning rate and share of the time: the best ELBO of other images, seed 100
    "GFlowNet-EM": (GFlowNetEM, 1e-3, 1.0),
    "GFlowNet-EM, independent codes": (lambda: GFlowNetEM(conditional=False), 1e-3, 1.0),
    "Gumbel-softmax": (lambda: Gumbel(conditional=False), 1e-3, 0.25),
    "VQ-VAE": (VQ, 3e-3, 0.25),
}


def fit(method: str, x: Tensor, seed: int, seconds: float) -> tuple[nn.Module, int]:
    """A fit of at most so much processor time, and its number of updates."""
    torch.manual_seed(seed)
    build, rate, share = METHODS[method]
    fitted = build()
    optimizer = torch.optim.Adam(fitted.parameters(), rate)
    start, updates = time.process_time(), 0
    while (done := (time.process_time() - start) / (share * seconds)) < 1:
        optimizer.zero_grad()
        fitted.objective(x[torch.randint(len(x), (BATCH,))], done).backward()
        optimizer.step()
        updates += 1
    return fitted, updates


@torch.no_grad()
def log_evidence(fitted: nn.Module, x: Tensor) -> float:
    """The mean of log p(x), by the sum over all codes."""
    numbers = torch.cartesian_prod(*[torch.arange(VALUES)] * CODES)
    logits = fitted.decoder(one_hot(numbers, VALUES).flatten(1).float())
    rest = Binomial(16, logits=torch.zeros(64)).log_prob(x).sum(-1) + 64 * 16 * math.log(2)
    log_p = torch.cat([
        (part @ logits.T - 16 * logits.exp().log1p().sum(-1)).logsumexp(-1) for part in x.split(60)
    ])  # fmt: skip
    return float((log_p + rest).mean()) - CODES * math.log(VALUES)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60.0, help="of processor time, each")
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    given = options.parse_args()
    pyro.enable_validation(False)
    torch.set_num_threads(1)
    x = torch.tensor(load_digits().data, dtype=torch.float32)
    x = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))]
    train, test = x[HELD_OUT:], x[:HELD_OUT]
    print("method,seed,updates,log_p,elbo,kl,log_p_train")
    for seed in given.seeds:
        for method in given.methods:
            fitted, updates = fit(method, train, seed, given.seconds)
            log_p, elbo = log_evidence(fitted, test), float(fitted.elbo(test).detach())
            numbers = log_p, elbo, log_p - elbo, log_evidence(fitted, train[:HELD_OUT])
            print(f'"{method}"', seed, updates, *(f"{n:.2f}" for n in numbers), sep=",", flush=True)


if __name__ == "__main__":
    main()

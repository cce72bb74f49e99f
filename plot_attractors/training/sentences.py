"""Sentences of the posterior P(s | x) ∝ R(s; x): drawn exactly, or by the reward alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from pyro.distributions import Normal
from pyro.ops.stats import fit_generalized_pareto
from torch import Tensor

from plot_attractors.gflownet.balance import robust_loss
from plot_attractors.language import Language, usage
from plot_attractors.language.moves import LogDensity, Population, anneal
from plot_attractors.language.policy import prior_policy
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.model.networks import Discretizer
from plot_attractors.ranges import Size, setting

__all__ = ["ExactSentences", "SampledSentences", "Sampling", "Sentences"]

HOTTEST = 0.01  # β of the first of several temperatures
EXPLORE = 0.05  # share of uniform tokens in the policy's draws
MOVES = 2  # Gibbs moves of every annealed candidate at each temperature
FEW = 4  # part of annealed candidates where one is asked for: they move, and need no company
HUBER = 2.0  # nats of a residual beyond which the loss is linear
CANDIDATES = 64  # of an input in an E-step, where they are not annealed
SUPPLY = 2048, 96  # inputs with candidates that an E-step keeps, and that it renews at once
SUPPLY_ANNEALED = 512, 6
CELLS = 800_000  # entries of a table of proposed sentences held at once


class ExactSentences:
    """Draws ∝ R(s; x)^power from the exact posterior, of sentences that can be listed or that
    factor.
    """

    supply = SUPPLY

    def __init__(self, model: AttractorModel) -> None:
        self.model = model

    def draw(
        self,
        q: Normal,
        power: float = 1.0,
        language: Language | None = None,
        beta: float | None = None,
    ) -> Tensor:
        """(B, width) a sentence for each input with P(z0 | x) = q (B, d), by the prior of another
        language or the model's, R with its own β or another.
        """
        posterior = self.model.posterior(q, language, beta)
        return (posterior if power == 1 else posterior.power(power)).sample()

    def candidates(self, q: Normal) -> Tensor:
        """(B, C, width) sentences of each input, each ∝ R(s; x), for an E-step."""
        return self.model.posterior(q).sample(torch.Size([CANDIDATES])).transpose(0, 1)

    def can_speak(self, language: Language) -> bool:
        """Whether sentences of another language of the same tokens can be drawn."""
        posterior = self.model.posterior
        return posterior.factored and posterior.factors(language) is not None


@dataclass(frozen=True)
class Sampling:
    candidates: Size = setting(16, "sentences proposed for an input, resampled together")
    temperatures: Size = setting(1, "1: of the policy, resampled ∝ R/q; more: of P(s), annealed")

    def __post_init__(self) -> None:
        if self.temperatures == 1 and self.candidates < 2:
            raise ValueError(
                "the sentence policy learns from differences between the candidates of an input: "
                "set sentences.candidates to 2 or more, or sentences.temperatures to 2 or more"
            )


class SampledSentences:
    """Draws by R(s; x) of proposed sentences alone: nothing is listed, nothing factors.

    With one temperature the candidates of an input are draws of the policy P_θ(s | z0), resampled
    ∝ R/q. With more they are draws of P(s), annealed: weighted, resampled and moved at each power
    of R from 0.01 on (`language.moves.anneal`). Both are exact as candidates become many.
    """

    def __init__(self, model: AttractorModel, policy: Discretizer, config: Sampling) -> None:
        self.model, self.policy, self.config = model, policy, config

    @torch.no_grad()
    def population(
        self,
        q: Normal,
        power: float = 1.0,
        language: Language | None = None,
        beta: float | None = None,
        config: Sampling | None = None,
        from_prior: bool = False,
    ) -> Population:
        """Candidates of inputs q (B, d), after resampling; log_z is that of R^power, good where the
        policy proposes, or `from_prior` (`anneal`). Another configuration may be given.
        """
        c = config or self.config
        if language not in (None, self.model.language) and not self.can_speak(language):
            raise ValueError(
                "sentences of another language need candidates that are annealed, and a reward "
                "without P(s | z_T): set sentences.temperatures to 2 or more, and "
                "reward.decodability to 'none' or 'density'"
            )
        beta = self.model.reward.beta if beta is None else beta
        spoken = (language or self.model.language).power(beta)
        moves = MOVES if c.temperatures > 1 else 0
        proposed = self.model.language.tokens + 1 if moves else spoken.longest + 1
        rows = max(1, CELLS // (c.candidates * spoken.width * proposed))
        parts = []
        for some in torch.arange(len(q.loc)).split(rows):
            inputs = Normal(q.loc[some], q.scale[some], validate_args=False)
            log_r, log_additions = self._log_rewards(inputs, language, beta)
            if c.temperatures == 1:
                policy = self.policy(inputs.loc, inputs.loc)
                s, log_q = policy.draw(torch.Size([c.candidates]))
            else:
                s = prior_policy(spoken, (c.candidates, len(some)), q.loc.device).sample()
                log_q = spoken.log_prior(s)
            powers = temperatures(c.temperatures, power)
            parts.append(anneal(spoken, s, log_q, log_r, powers, moves, log_additions, from_prior))
        s, log_z, effective = zip(*parts, strict=True)
        return Population(torch.cat(s, 1), torch.cat(log_z), torch.cat(effective))

    def _log_rewards(
        self, q: Normal, language: Language | None, beta: float
    ) -> tuple[LogDensity, LogDensity]:
        """log R(s; x) of inputs q, by the prior of another language or the model's, and that of s
        with every token added (`Reward.log_additions`).
        """
        reward = self.model.reward
        additions = partial(reward.log_additions, q, beta=beta, language=language)
        log_r = partial(reward, q, None, beta=beta, language=language)
        return log_r, additions

    @torch.no_grad()
    def draw(
        self,
        q: Normal,
        power: float = 1.0,
        language: Language | None = None,
        beta: float | None = None,
    ) -> Tensor:
        c = self.few
        if c.temperatures > 1 and power > 1:  # of a sharp distribution all are alike
            c = replace(c, candidates=max(1, c.candidates // FEW))
        s = self.population(q, power, language, beta, c).s
        return s[torch.randint(len(s), (s.shape[1],)), torch.arange(s.shape[1])]

    def can_speak(self, language: Language) -> bool:
        """The policy builds sentences of its own language, and P(s | z) is of these alone."""
        return self.config.temperatures > 1 and self.model.reward.decodability != "posterior"

    @property
    def supply(self) -> tuple[int, int]:
        return SUPPLY if self.config.temperatures == 1 else SUPPLY_ANNEALED

    def candidates(self, q: Normal) -> Tensor:
        """(B, C, width) sentences of each input, each ∝ R(s; x), for an E-step."""
        c = self.config
        many = replace(c, candidates=CANDIDATES) if c.temperatures == 1 else c
        return self.population(q, config=many).s.transpose(0, 1)

    @property
    def few(self) -> Sampling:
        """With fewer candidates, for where one sentence of each input is asked for, or few."""
        c = self.config
        return c if c.temperatures == 1 else replace(c, candidates=max(1, c.candidates // FEW))

    def policy_loss(self, q: Normal) -> Tensor:
        """VarGrad of P_θ(s | z0) per input: the variance, over draws s of one input, of
        log P_θ(s | z0) − log R(s; x), nats², Huber beyond 2 nats.

        The draws are the policy's with 5 % uniform tokens and, where candidates are annealed, as
        many of theirs: a policy that never proposes a sentence does not miss it.
        Source: Richter et al. (2020); Zhang et al. (2023), "Robust scheduling with GFlowNets".
        """
        n = torch.Size([self.few.candidates])
        policy = self.policy(q.loc, q.loc)
        with torch.no_grad():
            s = self.policy(q.loc, q.loc, EXPLORE).sample(n)
            if self.config.temperatures > 1:
                s = torch.cat([s, self.population(q, config=self.few).s])
            log_r = self.model.reward(q, None, s)
        residual = policy.log_prob(s) - log_r
        return robust_loss(residual - residual.mean(0).detach(), "huber", HUBER).mean()

    @torch.no_grad()
    def summary(self, e: Encoding, candidates: int) -> dict[str, float]:
        """Of inputs e, by candidates of P_θ(s | z0) with weights R/q: the effective share of them,
        k̂ of all weights together, in units of each input's sum (above 0.7 they cannot be trusted;
        an input alone has few different sentences), log Z in nats; sentences and tokens in use.
        """
        mean = e.distribution.loc  # as in training, where z0 may be drawn
        policy = self.policy(mean, mean)
        s, log_q = policy.draw(torch.Size([candidates]))
        log_w = self.model.reward(e.distribution, None, s) - log_q
        w = log_w.softmax(0)
        population = self.population(e.distribution)
        log_z = population.log_z
        if self.config.temperatures > 1:
            log_z = self.population(e.distribution, from_prior=True).log_z
        return {
            "policy_ess": float((1 / w.square().sum(0)).mean() / candidates),
            "policy_k_hat": pareto_shape((log_w - log_w.logsumexp(0)).flatten()),
            "sentence_ess": float(population.effective.mean()),
            "log_z": float(log_z.mean()),
            **usage(self.model.language, population.s.flatten(0, 1)),
        }


Sentences = ExactSentences | SampledSentences
"""Where training takes sentences ∝ R(s; x)^power from."""


def pareto_shape(log_w: Tensor) -> float:
    """k̂ of log-weights (n,): the shape of the generalised Pareto distribution of the 3 √n greatest,
    or a fifth. Source: Vehtari et al. (2024), "Pareto smoothed importance sampling".
    """
    n = len(log_w)
    most = max(5, round(min(0.2 * n, 3 * n**0.5)))
    w = (log_w - log_w.max()).double().cpu().exp().sort().values
    excess = (w - w[-most - 1])[-most:]
    excess = excess[excess > 1e-9 * excess[-1]]  # equal weights have no tail
    return fit_generalized_pareto(excess / excess[-1])[0] if len(excess) >= 5 else 0.0


def temperatures(n: int, top: float = 1.0, first: float = HOTTEST) -> list[float]:
    """Powers of R in equal ratios, n from `first` to 1 and on to `top`.

    >>> [round(b, 3) for b in temperatures(3, 10.0)]
    [0.01, 0.1, 1.0, 10.0]
    """
    if n == 1:
        return [top]
    ratio = first ** (-1 / (n - 1))
    powers = [first * ratio**k for k in range(n)]
    while powers[-1] * ratio < top * (1 - 1e-6):
        powers.append(powers[-1] * ratio)
    return powers if top <= 1 else [*powers, top]

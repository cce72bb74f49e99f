"""GFlowNet-EM for languages of any size: sentences from an exact posterior that factors, or
searched, or sampled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.data import DataSet
from plot_attractors.evaluation.beam import BestSentences
from plot_attractors.evaluation.sampling import best_sentences, is_listed, nearest_sentence
from plot_attractors.gflownet import EnumeratedFlow, ReplayBuffer, SampledFlow
from plot_attractors.gflownet.balance import Flow
from plot_attractors.gflownet.trajectories import Trajectories
from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences
from plot_attractors.model.attractor import AttractorModel, Encoding, gaussian_kl
from plot_attractors.model.nn import MaskedLinear
from plot_attractors.runs import registry
from plot_attractors.training.em import Phase, clipped_update, cosine, require_model, usage
from plot_attractors.training.factored_flow import factored_flow
from plot_attractors.training.sleep import Transitions, homing_transitions
from plot_attractors.training.vocabulary.restarts import combine, worth
from plot_attractors.training.vocabulary.rotate import (
    check_clusters_named,
    restart_tokens,
    settle_silence,
    spread_tokens,
    turn_axes,
)

gflownet_em = registry.load("inference", "gflownet_em")

AXES_INPUTS = 4096  # whose states say what the axes of the latent space are
TOKEN_PHASES = (
    "exact_m_step",
    "token_m_step",
)  # in which tokens start, and start anew, by labels of their own
TOKEN_INPUTS = 128  # in an update of tokens alone
RESTART_INPUTS = 512  # whose sentences say which tokens say nothing
TRIAL_INPUTS = 4096  # whose sentences say what a trial's tokens are worth
TOO_MANY = 2  # tokens at most that a lost state has more than a sentence
PRICED = (
    0.4  # part of the updates of tokens alone in which their labels have the first of two prices
)


@dataclass(frozen=True)
class Config(gflownet_em.Config):  # type: ignore[misc, name-defined]
    # updates of the VAE each time its latent axes are turned to independent components, along which
    # tokens then start; 0: axes stay as they are, and tokens start in random directions
    pretrain_turned: int = 500
    # updates of a second warm-up, before which axes are turned once more; 0 for none. While the VAE
    # is young one axis too many is in use at times, and axes that were turned then come to mix what
    # varies
    warm_up_turned: int = 0
    # after the warm-up, tokens start once more, and learn alone: the encoder stays as it is
    token_updates: int = 0
    # times that they do; those are kept whose sentences are most similar where the encoder's states
    # are, and miss least of what it knows: axis by axis, where trials have as many on it where
    # states fall into as many separate clusters along an axis, or more, each has a word when tokens
    # learn alone; else what is commonest goes without saying. 0: everywhere
    token_trials: int = 1
    clusters_named: int = 3
    label_costs: tuple[
        float, ...
    ] = ()  # nats that a token costs in the labels of the warm-up, of the first of these
    # updates and of the others, where sentences factor; empty: as in the language. Dear at first, a
    # token says a thing alone; free later, it says it narrowly, so that the few that are said say
    # surely what matters most
    label_length: int | None = None  # most tokens of such a label; none: as in the language
    lr_tokens: float = 5e-3  # of Adam in these updates, falling in their second half
    # updates between restarts of tokens that say nothing, or what another says, but for the last
    # tenth of a phase; 0 for none; with token_axes only where a sentence costs a search, not a look
    # into a table: fewer updates of fewer trajectories
    restart_every: int = 100
    warm_up: int = 4000
    final_e_updates: int = 5000
    sleep_trajectories: int = 48
    # it reads every sentence that is heard of, where the exact readout is not to be had
    discretizer_every: int = 1
    # here it teaches the discretizer, too, what the states on the way say
    balance_weight: float = 0.02
    # of the next state of a walk: on the way to the sentence that was drawn, or, where sentences
    # factor, to all that may yet be gone to; an update takes half as much time again beside the
    # states of sleep that wait at sentences of the prior (prior_states) that are at no sentence,
    # and learn to go to the nearest: half where one would be that has too many tokens, half away
    # from one along axes on which no token says anything; where sentences factor the search for an
    # input's best sentences, which stand for all
    walk_law: Literal["drawn", "exact"] = "drawn"
    lost_states: int = 0
    beams: int = 32  # partial sentences of each length that grow
    best: int = 256  # sentences of an input that are kept
    searched: int = 1024  # inputs with their sentences that updates draw from, the newest
    search_inputs: int = 64  # inputs that are searched at a time
    search_every: int = 8  # updates between searches
    # Algorithm 4, the flow
    # its sum: over all or the best, or estimated from sampled ones
    flow_sentences: Literal["best", "sampled"] = "best"
    flow_samples: int = 4  # K sentences in such an estimate; 1 in the paper


PRESETS: dict[str, dict[str, Any]] = {
    **gflownet_em.PRESETS,
    "paper": {**gflownet_em.PRESETS["paper"], "flow_sentences": "sampled", "flow_samples": 1, "pretrain_turned": 0},
    "smoke": {
        **gflownet_em.PRESETS["smoke"], "pretrain_turned": 5, "token_updates": 5, "restart_every": 10, "beams": 4,
        "best": 16, "searched": 64, "search_inputs": 16, "flow_samples": 2,
    },
}  # fmt: skip


def build(model: AttractorModel, data: DataSet, config: Config) -> SampledGFlowNetEM:
    """Nothing is listed: sentences come from the exact posterior where it factors, else from a
    search; from the discretizer, and from the prior.
    """
    if require_model(model, AttractorModel).first_backward_step != "fixed":
        raise ValueError(
            "Sampled flows know the kernel N(ẑ_s, ε²) only: leave first_backward_step at 'fixed'."
        )
    if model.decodability == "posterior" and not is_listed(model):
        raise ValueError(
            f"decodability 'posterior' sums over all sentences, and {model.language.count:,} are "
            f"too many: choose "
            "'none' or 'density'"
        )
    if config.flow_sentences == "best" and model.decodability != "none" and config.balance_weight:
        raise ValueError(
            "flow_sentences 'best' needs a reward without z_T: choose decodability 'none', or "
            "flow_sentences 'sampled'"
        )
    if not isinstance(
        model.sentence_encoder.mean, MaskedLinear
    ):  # else the readout is exact, where sentences factor
        model.sentence_readout = "discretizer"
    return SampledGFlowNetEM(model, data, config)


def too_long(language: Language) -> Language | None:
    """What would be sentences of up to `TOO_MANY` tokens more than a sentence may have; None where
    there are none.
    """
    shortest, longest = language.longest + 1, min(language.longest + TOO_MANY, len(language.groups))
    return (
        replace(language, min_length=shortest, max_length=longest) if shortest <= longest else None
    )


class Trials:
    """Sentence encoders whose tokens learned alone, and what they are worth, as far as a checkpoint
    must know.
    """

    def __init__(self) -> None:
        self.worth, self.tokens = list[float](), list[dict[str, Tensor]]()
        self.costs = list[
            Tensor
        ]()  # (tokens,) what tokens cost in P(s) beside `length_cost`, where it is found
        self.q: tuple[
            Tensor, ...
        ] = ()  # μ and σ of the inputs that all trials are asked about, (n, d)

    def add(self, worth: float, model: AttractorModel) -> None:
        self.worth.append(worth)
        self.tokens.append(
            {name: part.clone() for name, part in model.sentence_encoder.state_dict().items()}
        )
        if model.odds_cost:
            self.costs.append(model.token_costs.clone())

    @property
    def best(self) -> int:
        """Number of the trial that is worth most."""
        return max(range(len(self.worth)), key=self.worth.__getitem__)

    def state_dict(self) -> dict[str, Any]:
        return {"worth": self.worth, "tokens": self.tokens, "costs": self.costs, "q": self.q}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.worth, self.tokens, self.q = (
            list(state["worth"]),
            list(state["tokens"]),
            tuple(state["q"]),
        )
        self.costs = list(state["costs"])


class SampledGFlowNetEM(gflownet_em.GFlowNetEM):  # type: ignore[misc, name-defined]
    """GFlowNetEM whose sentences are not listed: their posterior factors, or an input's best ones
    stand for all.
    """

    config: Config

    def __init__(self, model: AttractorModel, data: DataSet, config: Config) -> None:
        super().__init__(model, data, config)
        # (x, P(z0 | x), z0, s, log R)
        self.searched = ReplayBuffer(config.searched, weighted=False, device=self.model.device)
        self.searched_at = -1  # position of the update that searched last
        language = self.model.language
        trials = config.token_trials if config.token_updates else 1
        if not config.pretrain_turned and (config.warm_up_turned or trials > 1):
            raise ValueError(
                "tokens start anew along turned axes only: with pretrain_turned=0, leave "
                "warm_up_turned at 0 and "
                f"token_trials at 1, not {config.warm_up_turned} and {trials}"
            )
        if len(config.label_costs) not in (0, 3):
            raise ValueError(
                "label_costs are three, of the warm-up and of the two parts of the updates of "
                "tokens alone, or none: "
                f"not {config.label_costs}"
            )
        check_clusters_named(config.clusters_named)
        if config.walk_law == "exact" and config.sleep_sentences != "posterior":
            raise ValueError(
                "the exact walk_law is that of sentences from the posterior: with "
                f"sleep_sentences={config.sleep_sentences} leave it at 'drawn'"
            )
        if config.lost_states and not config.prior_states:
            raise ValueError(
                "lost_states weigh as much as prior_states, of which there are none: set these, too"
            )
        if config.label_length is not None and config.label_length < 1:
            raise ValueError(
                f"label_length is most tokens of a label, at least 1, or none, not "
                f"{config.label_length}"
            )
        self.longest_label = min(config.label_length or language.longest, len(language.groups))
        plain = replace(language, max_length=self.longest_label, token_costs=())
        self.longer = tuple(replace(plain, length_cost=cost) for cost in config.label_costs)
        self.optimizer_tokens = torch.optim.Adam(
            self.model.sentence_encoder.parameters(), lr=config.lr_tokens
        )
        self.trials = Trials()
        self.stateful |= {
            "searched": self.searched,
            "optimizer_tokens": self.optimizer_tokens,
            "trials": self.trials,
        }

    @staticmethod
    def phases(c: Config) -> list[Phase]:
        """Algorithm 1, with the latent axes turned before each warm-up, and tokens alone
        after it.
        """
        first, warm_up, *rest = gflownet_em.GFlowNetEM.phases(c)
        again = [
            Phase("pretrain", 2, c.pretrain_turned),
            Phase("exact_m_step", 1, c.warm_up_turned),
        ]
        tokens = [Phase("token_m_step", trial, c.token_updates) for trial in range(c.token_trials)]
        turned = Phase("pretrain", 1, c.pretrain_turned)
        return [first, turned, warm_up, *(again if c.warm_up_turned else ()), *tokens, *rest]

    @property
    def searches(self) -> bool:
        """Whether an input's sentences are searched, since their posterior does not factor."""
        return not self.model.factored

    @property
    def labelling(self) -> Language:
        """The language of labels while tokens start, where its sentences factor on the axes that
        tokens have now; else the model's own.
        """
        if self.phase.name not in TOKEN_PHASES:
            return self.model.language
        alone = self.phase.name == "token_m_step"
        if self.longer:
            longer = self.longer[alone + (alone and self.progress >= PRICED)]
        elif self.longest_label == self.model.language.longest:
            return self.model.language
        else:
            longer = replace(self.model.language, max_length=self.longest_label)
        factors = not self.searches and self.model.factors(longer) is not None
        return longer if factors else self.model.language

    # -- the best sentences ------------------------------------------------------------------------
    def search(self, q: Normal) -> BestSentences:
        """The best sentences of n inputs with P(z0 | x) = q (n, d), by a beam over their tokens."""
        return best_sentences(self.model, q, self.config.beams, self.config.best)

    @torch.no_grad()
    def add_searched(self, n: int) -> None:
        """n more inputs and their best sentences, searched a few at a time."""
        for start in range(0, n, self.config.search_inputs):
            x = self.inputs(min(self.config.search_inputs, n - start))
            e = self.model.encode(x)
            best = self.search(e.distribution)
            self.searched.add(
                x=x,
                loc=e.distribution.loc,
                scale=e.distribution.scale,
                z0=e.z0,
                s=best.s.bool(),
                log_r=best.log_reward,
            )

    @torch.no_grad()
    def draw(
        self, n: int, power: float = 1.0, language: Language | None = None
    ) -> tuple[Tensor, Encoding, Tensor]:
        """n inputs, and a sentence each ∝ R(s; x)^power: of all, in the model's language or another
        of its tokens, or among the best of inputs that were searched, now and then, for who draws.
        """
        if not self.searches:
            x = self.inputs(n)
            e = self.model.encode(x)
            return x, e, self.model.posterior(e.distribution, language).power(power).sample()
        self.search_now_and_then()
        old = self.searched.draw(n)
        q = Normal(old["loc"], old["scale"])
        s = BestSentences(old["s"], old["log_r"]).sample(power).to(old["z0"])
        return (
            old["x"],
            Encoding(q, old["z0"], old["z0"] if self.model.context == "z0" else old["x"]),
            s,
        )

    def begin(self, phase: Phase) -> None:
        self.model.temper(False)  # words, and what they cost, are chosen by R itself
        self.searched.clear()  # the reward has changed
        if phase.name == "pretrain" and phase.cycle:
            turn_axes(self.model, self.inputs(AXES_INPUTS))
        elif phase.name == "exact_m_step" and self.config.pretrain_turned:
            spread_tokens(self.model, self.inputs(AXES_INPUTS))
        elif phase.name == "token_m_step":
            self.optimizer_tokens.state.clear()
            # the dearer the rarer, they would soon be all of a few tokens
            self.model.forget_prior()
            if self.config.pretrain_turned:  # halves of halves
                x, named = self.inputs(AXES_INPUTS), self.config.clusters_named
                spread_tokens(
                    self.model, x, reach=0.87, ratio=0.5, pairs=True, clusters_named=named
                )
        elif phase.name == "e_step" and (self.config.token_updates or self.model.odds_cost):
            q = self.model.encode(self.inputs(AXES_INPUTS)).distribution
            if self.config.token_updates and self.config.clusters_named:
                settle_silence(self.model, q)
            if (
                phase.cycle or len(self.trials.worth) < 2
            ):  # else prices stay those that words were chosen at
                self.model.learn_prior(q)
        super().begin(phase)

    def search_now_and_then(self) -> None:
        """Algorithm 2, of sentences: new inputs take the place of the oldest, once in so many
        updates.
        """
        if not len(self.searched):  # in this phase, or since tokens started anew
            self.add_searched(self.config.searched)
        elif self.position % self.config.search_every == 0 and self.position != self.searched_at:
            self.add_searched(self.config.search_inputs)
        self.searched_at = self.position

    # -- in the place of the exact posterior -------------------------------------------------------
    def exact_m_step(self) -> dict[str, float]:
        """The warm-up's label is the best of many sentences, sharpened: it breaks the symmetry of
        meaningless ones.
        """
        self.restart_tokens()
        x, _, s = self.draw(self.config.batch, self.config.sharpness, self.labelling)
        return self.m_update(x, s)

    def token_m_step(self) -> dict[str, float]:
        """One update of the sentence encoder alone, KL(P(z0 | x) ‖ P(z0 | ẑ_s)): a quarter of a
        whole one's time.
        """
        self.restart_tokens()
        c = self.config
        _, e, s = self.draw(TOKEN_INPUTS, c.sharpness, self.labelling)
        for group in self.optimizer_tokens.param_groups:
            group["lr"] = c.lr_tokens * cosine(max(0.0, 2 * self.progress - 1))
        loss = gaussian_kl(e.distribution, self.model.sentence_encoder(s)).mean()
        clipped_update(
            self.optimizer_tokens, list(self.model.sentence_encoder.parameters()), loss, c.clip
        )
        metrics = {"token_loss": float(loss.detach())}
        if c.token_trials > 1 and self.position + 1 == self._ends[self._phase_index]:
            metrics |= self.end_trial()
        return metrics

    @torch.no_grad()
    def end_trial(self) -> dict[str, float]:
        """What this trial's tokens are worth. After the last, the model has the tokens of the best
        one; where sentences factor, with words of other trials that are worth more beside them
        (`combine`), and what all are worth then. Tokens cost what their shares say, where the
        model's prices are by share.
        """
        encoder, trials = self.model.sentence_encoder, self.trials
        _, e, s = self.draw(TRIAL_INPUTS)
        q = e.distribution
        if not self.searches:
            trials.q = trials.q or (q.loc, q.scale)
            loc, scale = trials.q
            q = Normal(loc.to(q.loc), scale.to(q.loc))
            self.model.learn_prior(q)
            s = self.model.posterior(q).sample()
        trials.add(worth(q, s, encoder(s).loc), self.model)
        metrics = {"worth": trials.worth[-1]}
        if len(trials.worth) < self.config.token_trials:
            return metrics
        encoder.load_state_dict(trials.tokens[trials.best])
        if trials.costs:
            self.model.charge(trials.costs[trials.best])
        if not self.searches:
            metrics["worth_combined"] = combine(self.model, q, trials.tokens, trials.costs)
        return metrics

    def restart_tokens(self) -> None:
        """Tokens that say nothing new start anew; sentences that hold them must be searched anew,
        too.
        """
        every = self.config.restart_every
        due = (
            every
            and self.position % every == 0
            and 0 < self.progress < 0.9
            and self.phase.name in TOKEN_PHASES
        )
        if not due or not isinstance(self.model.sentence_encoder.mean, MaskedLinear):
            return
        alone = (
            self.phase.name == "token_m_step"
        )  # then a word goes where it is missed in what will be said
        _, e, s = self.draw(RESTART_INPUTS, language=None if alone else self.labelling)
        if restart_tokens(self.model, e.distribution, s):
            self.searched.clear()

    def posterior_sentences(self, n: int) -> tuple[Encoding, Tensor]:
        """n inputs and a sentence each, ∝ R of all sentences or among the best."""
        _, e, s = self.draw(n)
        return e, s

    @torch.no_grad()
    def walking(self, e: Encoding, s: Tensor, trajectories: Trajectories) -> Transitions:
        """The walk, by `walk_law` with the law of the next state over all sentences that may yet be
        gone to.

        Of P(s | z_t, x) ∝ R(s; x) N(z_t; E[z_t | z0, ẑ_s], v_t) the shares of what is said along
        each axis are exact, and so are mean and variance of z_{t+1} along it, which are all that
        the likelihood of diagonal Gaussian steps asks for: it has the expectation that it has with
        the sentence that was drawn, and less noise.
        """
        to, m, kernel = super().walking(e, s, trajectories), self.model, self.go_and_wait
        if self.searches or self.config.walk_law == "drawn":
            return to
        law, words = (
            m.posterior(e.distribution),
            [(axis, p.loc[:, 0]) for axis, p in m.along_axes(m.factors())],
        )
        t = torch.arange(kernel.walk)
        v, means, scores = kernel.variance.to(e.z0)[t, None, None], [], []
        for score, (axis, places) in zip(law.scores, words, strict=True):
            z, z0 = trajectories.z[t][..., axis, None], e.z0[:, axis, None]
            means.append(kernel.forward_transition(t, z, z0, places).mean)
            off = z - kernel.mean(t, z0, places)
            scores.append(score - 0.5 * torch.where(v > 0, off.square() / v, 0.0))
        shares = FactoredSentences(law.language, law.factors, scores).marginals
        mean, variance = to.mean.clone(), to.sd.square()
        rows = len(t) * len(e.z0)
        for share, to_words, (axis, _) in zip(shares, means, words, strict=True):
            middle = (share * to_words).sum(-1)
            mean[:rows, axis] = middle.flatten()
            variance[:rows, axis] += (
                (share * (to_words - middle[..., None]).square()).sum(-1).flatten()
            )
        return to._replace(mean=mean, sd=variance.sqrt())

    @torch.no_grad()
    def prior_waiting(self, e: Encoding) -> Transitions:
        """With states that are at no sentence, and go to the nearest one, each with the weight of
        one that waits.

        Dynamics learn what to do along each axis, so that states come to rest where each is at its
        tokens, though these be too many for a sentence; and along an axis where no state ever was,
        they stay where they are pushed.
        """
        to, n = super().prior_waiting(e), self.config.lost_states
        if self.searches or not n:
            return to
        rows = torch.randint(len(e.z0), (n,))
        z = self.lost(e[rows].distribution)
        home = self.model.embed(nearest_sentence(self.model, z).s)
        weight = float(to.weight[0])
        return to.join(
            homing_transitions(
                self.go_and_wait, z, home, e.context[rows], self.homing_speed, weight
            )
        )

    def lost(self, q: Normal) -> Tensor:
        """(n, d) states of inputs with P(z0 | x) = q (n, d) at no sentence: half of them at what
        would be one of up to `TOO_MANY` tokens more than there may be, ∝ R(s; x), the others at one
        ∝ R(s; x), but N(0, sd²) away along each idle axis, sd uniform within `stray_sd`. All are of
        one kind where the other cannot be.
        """
        m, n = self.model, len(q.loc)
        encoder: Any = m.sentence_encoder
        idle, longer = encoder.mean.idle, too_long(m.language)
        half = n // 2 if len(idle) else n
        if longer is None or m.factors(longer) is None:
            half = 0
        s = m.posterior(Normal(q.loc[half:], q.scale[half:])).sample()
        if half:
            s = torch.cat([m.posterior(Normal(q.loc[:half], q.scale[:half]), longer).sample(), s])
        z = m.first_backward_kernel(s, q.loc).sample()
        sd = torch.empty(n - half, len(idle)).uniform_(*self.config.stray_sd).to(z)
        z[half:, idle] += sd * torch.randn_like(sd)
        return z

    def flow(self, e: Encoding) -> Flow:
        """Algorithm 4: the sum over all sentences where it factors, or an input's best ones, or K
        sampled ones.
        """
        m, c = self.model, self.config

        def correction(z: Tensor, t: Tensor) -> Tensor:
            return m.flow_correction(z, t, e.context)

        if c.flow_sentences == "best" and not self.searches:
            return factored_flow(m, e.distribution, c.widening, correction)
        if c.flow_sentences == "best" and m.decodability == "none":
            best = self.search(e.distribution)
            with torch.no_grad():
                embeddings = m.embed(best.s)
            return EnumeratedFlow(
                best.log_reward, embeddings, m.epsilon, m.steps, c.widening, correction
            )
        return SampledFlow(
            lambda s: m.log_reward(e.distribution, s).detach(),
            lambda s: m.embed(s).detach(),
            lambda z: m.discretizer(z, e.context),
            m.epsilon,
            m.steps,
            c.flow_samples,
            c.widening,
            correction,
            None if m.decodability == "none" else m.log_decodability,
        )

    @torch.no_grad()
    def summary(self) -> dict[str, float]:
        """Sentences and tokens in use among those read off the terminal states of 256
        trajectories.
        """
        return usage(self.model.language, self.forward_trajectories(self.inputs(256))[1][-1])

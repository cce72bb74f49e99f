"""Emergent communication: by the sender's sentence a receiver finds a target among distractors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor, nn
from torch.distributions import constraints

from plot_attractors.language import Language
from plot_attractors.model.bits import number_inputs
from plot_attractors.model.protocols import Description

__all__ = [
    "Candidates", "Choice", "EmergentCommunication", "Receiver", "Sender", "SlotSentences",
    "choose", "draw_candidates",
]  # fmt: skip


class SlotSentences(TorchDistribution):
    r"""P(s | ·) = Π_k P(s_k | s_{<k}, ·): at every slot one categorical choice, a token or nothing.

    Slots are the exclusive groups of a bag of tokens; so every sentence is made by one series of
    choices. A choice has its probability by the language's prior P(s), times the exponential of a
    logit: with logits of 0, s follows P(s).

    Args:
        logits: partial sentences (…, *batch_shape, tokens) → (…, *batch_shape, tokens + slots): one
            logit for each token, then one for nothing at each slot.
        language: the bags of words and P(s).
        batch_shape: shape of independent sentences.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.independent(constraints.boolean, 1)

    def __init__(
        self,
        logits: Callable[[Tensor], Tensor],
        language: Language,
        batch_shape: torch.Size | tuple[int, ...] = (),
        device: torch.device | str | None = None,
    ) -> None:
        self.logits, self.language, self.device = logits, language, device
        self.slots = len(language.groups)
        # slot of every choice
        self.slot = torch.cat([language.token_group, torch.arange(self.slots)]).to(device)
        super().__init__(torch.Size(batch_shape), torch.Size([language.width]), validate_args=False)

    def expand(self, batch_shape: Any, _instance: None = None) -> SlotSentences:
        return SlotSentences(self.logits, self.language, batch_shape, self.device)

    def prior(self, partial: Tensor, slot: Tensor | int) -> Tensor:
        """(…, width + slots) log-probabilities, up to a constant, of the choices at a slot by P(s).

        `slot` (…, 1), after the partial sentence (…, width); −inf for what is not allowed there.
        """
        width, slots = self.language.width, self.slots
        allowed = self.language.allowed(partial)
        log_p = self.language.prior_logits(partial).masked_fill(~allowed, -torch.inf)
        # nothing here: a later token, or the end
        earlier = nn.functional.pad(self.slot[:width] <= slot, (0, 1))
        nothing = log_p.masked_fill(earlier, -torch.inf).logsumexp(-1, keepdim=True)
        choices = torch.cat([log_p[..., :width], nothing.expand(*log_p.shape[:-1], slots)], -1)
        return choices.masked_fill(self.slot != slot, -torch.inf)

    def relaxed_sample(self, temperature: float) -> Tensor:
        r"""(*batch_shape, width) a sentence with a gradient, by the Gumbel-Softmax at every slot.

        .. math:: y = \mathrm{softmax}((\text{logits} + g) / \tau), \quad g \sim \text{Gumbel}(0, 1)

        The sentence consists of one-hot vectors at the maxima of the y of each slot, exact draws
        from P(s | ·), with the gradient of the y (straight through). Sources: Section *Comparison
        models*; Jang, Gu & Poole, 2017; Maddison, Mnih & Teh, 2017.
        """
        width = self.language.width
        hard = torch.zeros(*self.batch_shape, width, device=self.device)
        relaxed, tokens = hard, torch.arange(width, device=self.device)
        for slot in range(self.slots):
            prior = self.prior(hard, slot)
            gumbel = -torch.empty_like(prior).exponential_().log()
            y = ((self.logits(relaxed) + (prior + gumbel)) / temperature).softmax(-1)
            choice = (y.argmax(-1, keepdim=True) == tokens).to(hard)
            y = y[..., :width]
            hard = hard + choice
            relaxed = relaxed + (choice + (y - y.detach()))
        return relaxed

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            shape = torch.Size(sample_shape) + self.batch_shape
            return self.expand(shape).relaxed_sample(1.0)

    def log_prob(self, s: Tensor) -> Tensor:
        """(…) log P(s | ·) in nats, by one call of the network; −inf for what is no sentence."""
        shape = torch.broadcast_shapes(s.shape[:-1], self.batch_shape)
        s, width = s.expand(*shape, -1), self.language.width
        slot = torch.arange(self.slots, device=s.device)
        slot = slot.view(-1, *[1] * len(shape), 1)
        before = s * (self.slot[:width] < slot)
        logits = self.logits(before) + self.prior(before, slot)
        log_p = logits.log_softmax(-1).masked_fill(logits == -torch.inf, -torch.inf)  # never NaN
        token = s * (self.slot[:width] == slot)
        nothing = (1 - token.sum(-1, keepdim=True)) * (self.slot[width:] == slot)
        chosen = torch.cat([token, nothing], -1)
        total = torch.where(chosen > 0, log_p, 0.0).sum((0, -1))
        return total.masked_fill((chosen < 0).any(0).any(-1), -torch.inf)


class Sender(nn.Module):
    """P(s | x) of who sees the target alone: x is encoded once, tokens are chosen slot by slot.

    The partial sentence is added to what the encoder makes of inputs, (B, …) → (B, units).
    """

    def __init__(self, language: Language, encoder: nn.Module, units: int = 256) -> None:
        super().__init__()
        self.language, self.encoder = language, encoder
        self.partial = nn.Linear(language.width, units, bias=False)
        choices = language.width + len(language.groups)
        self.choice = nn.Sequential(nn.SiLU(), nn.Linear(units, choices))

    def forward(self, x: Tensor) -> SlotSentences:
        seen = self.encoder(x)

        def logits(partial: Tensor) -> Tensor:
            out: Tensor = self.choice(seen + self.partial(partial))
            return out

        return SlotSentences(logits, self.language, seen.shape[:-1], seen.device)


class Receiver(nn.Module):
    """Scores of candidates: products of its readings of a sentence and of the candidates.

    The `reader` takes sentences (…, width) → (…, d), the `viewer` inputs (B, …) → (B, d).
    """

    def __init__(self, reader: nn.Module, viewer: nn.Module) -> None:
        super().__init__()
        self.reader, self.viewer = reader, viewer

    def forward(self, s: Tensor, x: Tensor) -> Tensor:
        """(B, N) scores of inputs x (N, …), given sentences s (B, width)."""
        scores: Tensor = self.reader(s) @ self.viewer(x).T
        return scores


class EmergentCommunication(nn.Module):
    """A sender and a receiver that play a reference game (Section *Comparison models*).

    The state z = ẑ_s of a sentence is the receiver's reading of it (latent: its size d). Sentences
    are drawn from the sender's P(s | x).
    """

    def __init__(self, language: Language, latent: int, sender: Sender, receiver: Receiver) -> None:
        super().__init__()
        self.language, self.latent = language, latent
        self.sender, self.receiver = sender, receiver

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @torch.no_grad()
    def describe(self, x: Tensor, draws: int = 1) -> Description:
        """`draws` sentences s ~ P(s | x) for each of the inputs x (B, …), and ẑ_s of each."""
        s = self.sender(x).sample(torch.Size([draws])).transpose(0, 1)
        return Description(self.embed(s), s)

    def embed(self, s: Tensor) -> Tensor:
        """(…, d) ẑ_s, the receiver's reading of sentences s (…, width)."""
        z: Tensor = self.receiver.reader(s)
        return z


class Candidates(NamedTuple):
    """The inputs of a batch of B among which the receiver looks for each target.

    - ``rows``: (B, 1 + distractors) their numbers in the batch, the target first;
    - ``present``: (B, 1 + distractors) False where the batch had no distractor left.
    """

    rows: Tensor
    present: Tensor


def draw_candidates(x: Tensor, distractors: int) -> Candidates:
    """Each input of a batch as a target, and distractors drawn without replacement from the others.

    An input x (B, …) that equals the target is no distractor, since no sentence could tell them
    apart. Where a batch has too few inputs that differ, there are fewer distractors.
    """
    n = len(x)
    name = number_inputs(x)
    lots = torch.rand(n, n, device=x.device).masked_fill(name[:, None] == name, -1.0)
    drawn = lots.topk(distractors, -1)
    rows = torch.cat([torch.arange(n, device=x.device)[:, None], drawn.indices], -1)
    return Candidates(rows, nn.functional.pad(drawn.values >= 0, (1, 0), value=True))


class Choice(NamedTuple):
    """The receiver's choices for B targets.

    - ``loss``: (B,) −log P(target), nats;
    - ``right``: (B,) 1 where the target has the highest score of all, 1/n where n share it, else 0.
    """

    loss: Tensor
    right: Tensor


def choose(scores: Tensor, candidates: Candidates) -> Choice:
    """P(candidate) is the softmax of the candidates' scores; `scores` (B, B) of the whole batch."""
    scores = scores.gather(-1, candidates.rows).masked_fill(~candidates.present, -torch.inf)
    best = scores == scores.amax(-1, keepdim=True)
    return Choice(-scores.log_softmax(-1)[:, 0], best[:, 0] / best.sum(-1))

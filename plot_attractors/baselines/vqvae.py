"""A VQ-VAE whose every token sees the whole input; the codes of its codebooks are summed."""

from __future__ import annotations

from typing import NamedTuple

import torch
from pyro.distributions import Bernoulli
from torch import Tensor, nn

from plot_attractors.language import Language
from plot_attractors.model.protocols import Description

__all__ = ["VQVAE", "MovingAverages", "Quantisation"]

SPREAD = 0.5  # standard deviation of the first codes
DECAY = 0.99  # γ of moving averages
DEAD = 0.01  # share of inputs below which a code is reset, or half of an equal share


class Quantisation(NamedTuple):
    """What codebooks make of B inputs.

    - ``queries``: (B, K, d) one of every codebook, by the encoder;
    - ``codes``: (B, K, d) the nearest code to each;
    - ``s``: (B, width) the sentence, the chosen codes' tokens.
    """

    queries: Tensor
    codes: Tensor
    s: Tensor


class VQVAE(nn.Module):
    r"""K codebooks, one for each exclusive group of tokens; a token is a code, a vector in ℝ^d.

    The encoder makes K queries q_k(x) of the whole input. Each is replaced by the nearest code of
    its codebook, and the codes are summed:

    .. math:: e_k = \arg\min_{e \in \text{codebook}_k} \|q_k(x) - e\|, \qquad
        \hat z_s = \sum_k e_k, \qquad P(x \mid s) = \prod_i P(x_i \mid \hat z_s).

    With ``null_code`` each codebook has one more code, the origin, that stands for no token and is
    not learned, so that sentences may be short. Without it sentences have K tokens; a partial
    sentence then stands for the mean of its completions, the mean code of each missing codebook.

    ``continuous_decoder`` decodes the sum of the queries, which tells the information that codes
    lose. It has no gradient to the encoder.

    Sources: van den Oord, Vinyals and Kavukcuoglu 2017; Section *Comparison models*.

    Args:
        language: its groups are the codebooks; its shortest sentence has 0 tokens with null codes,
            and K without.
        latent: d.
        encoder: (B, …) → (B, K · d) the queries.
        decoder, continuous_decoder: (…, d) → a distribution of inputs.
        null_code: whether a codebook may be left out.
    """

    def __init__(
        self,
        language: Language,
        latent: int,
        encoder: nn.Module,
        decoder: nn.Module,
        continuous_decoder: nn.Module,
        null_code: bool = False,
    ) -> None:
        super().__init__()
        self.language, self.latent, self.null_code = language, latent, null_code
        self.encoder, self.decoder, self.continuous_decoder = encoder, decoder, continuous_decoder
        self.codes = nn.Parameter(SPREAD * torch.randn(language.tokens, latent))

    def queries(self, x: Tensor) -> Tensor:
        """(B, K, d) the encoder's queries of inputs x (B, …)."""
        queries: Tensor = self.encoder(x)
        return queries.unflatten(-1, (len(self.language.groups), self.latent))

    def quantise(self, x: Tensor) -> Quantisation:
        """The nearest codes to the queries of inputs x (B, …)."""
        queries, group = self.queries(x), self.language.token_group.to(self.codes.device)
        books = torch.arange(len(self.language.groups), device=group.device)
        distance = (queries[:, group] - self.codes).square().sum(-1)  # (B, tokens)
        own = torch.where(books[:, None] == group, distance[:, None], torch.inf)  # (B, K, tokens)
        codes: Tensor = self.codes
        if self.null_code:  # the last choice of every codebook
            own = torch.cat([own, queries.square().sum(-1, keepdim=True)], -1)
            codes = torch.cat([codes, codes.new_zeros(1, self.latent)])
        choice = own.argmin(-1)
        tokens = torch.arange(self.language.tokens, device=group.device)
        s = (choice[..., None] == tokens).any(-2).to(queries)
        return Quantisation(queries, codes[choice], s)

    def losses(self, x: Tensor) -> tuple[Quantisation, dict[str, Tensor]]:
        r"""The terms of the loss, means over inputs x (B, …), to be weighted and added up:

        - ``reconstruction``: −log P(x | s) in nats, its gradient straight through from e_k to q_k;
        - ``dictionary``: Σ_k ‖sg[q_k] − e_k‖², which moves codes to queries;
        - ``commitment``: Σ_k ‖q_k − sg[e_k]‖², which moves queries to codes;
        - ``continuous``: −log P(x | sg[Σ_k q_k]) in nats, of the continuous decoder alone.
        """
        codes = self.quantise(x)
        q, e = codes.queries, codes.codes

        def loss(decoder: nn.Module, z: Tensor) -> Tensor:
            nll: Tensor = -decoder(z).log_prob(x).flatten(1).sum(-1).mean()
            return nll

        return codes, {
            "reconstruction": loss(self.decoder, (q + (e - q).detach()).sum(-2)),
            "dictionary": (q.detach() - e).square().sum((-1, -2)).mean(),
            "commitment": (q - e.detach()).square().sum((-1, -2)).mean(),
            "continuous": loss(self.continuous_decoder, q.detach().sum(-2)),
        }

    def embed(self, s: Tensor) -> Tensor:
        """(…, d) ẑ_s, the sum of the codes of sentences s (…, width), missing ones replaced."""
        if self.null_code:
            return s @ self.codes
        groups, group = self.language.groups, self.language.token_group.to(s.device)
        filled = torch.zeros(*s.shape[:-1], len(groups), dtype=s.dtype, device=s.device)
        filled = filled.index_add(-1, group, s)
        means = torch.stack([codebook.mean(0) for codebook in self.codes.split(groups)])
        return s @ self.codes + (1 - filled) @ means

    def reconstruct(self, x: Tensor) -> Bernoulli:
        """P(x | Σ_k q_k(x)) by the continuous decoder, with no gradient to the encoder."""
        decoded: Bernoulli = self.continuous_decoder(self.queries(x).detach().sum(-2))
        return decoded

    @torch.no_grad()
    def describe(self, x: Tensor, draws: int = 1) -> Description:
        """The one sentence of each of the inputs x (B, …), `draws` times."""
        s = self.quantise(x).s[:, None].expand(-1, draws, -1)
        return Description(self.embed(s[:, :1]).expand(-1, draws, -1), s)


class MovingAverages(nn.Module):
    r"""Codes as means of the queries that chose them, in place of a dictionary loss, with resets.

    After a batch, with n_j the share of its inputs that chose code j, and m_j the mean over all its
    inputs of the queries that chose it (0 for the others),

    .. math:: N_j \leftarrow \gamma N_j + (1 - \gamma) n_j, \quad
        M_j \leftarrow \gamma M_j + (1 - \gamma) m_j, \quad e_j \leftarrow M_j / N_j.

    A code with N_j below 1 %, or half of an equal share, is dead and is reset to the query of a
    random input of the batch (torch's global generator), as if it were used as often as the others.
    Sources: van den Oord et al. 2017, appendix A.1; Razavi, van den Oord and Vinyals 2019.

    The codes of `model` get no gradients. γ is 0.99.
    """

    shares: Tensor
    sums: Tensor

    def __init__(self, model: VQVAE) -> None:
        super().__init__()
        self._model = [model]  # in a list: its parameters are not these's
        model.codes.requires_grad_(False)
        sizes = torch.tensor(model.language.groups)
        self.register_buffer("equal_share", (1 / sizes).repeat_interleave(sizes).to(model.codes))
        self.register_buffer("shares", self.get_buffer("equal_share").clone())
        self.register_buffer("sums", model.codes.detach() * self.shares[:, None])

    @torch.no_grad()
    def update(self, codes: Quantisation) -> int:
        """Move the model's codes by a quantised batch; returns how many were reset."""
        model = self._model[0]
        queries = codes.queries.detach()[:, model.language.token_group]  # (B, tokens, d)
        self.shares.mul_(DECAY).add_((1 - DECAY) * codes.s.mean(0))
        mean = (codes.s[..., None] * queries).mean(0)
        self.sums.mul_(DECAY).add_((1 - DECAY) * mean)
        equal_share = self.get_buffer("equal_share")
        dead = torch.nonzero(self.shares < (equal_share / 2).clamp(max=DEAD)).flatten()
        if len(dead):
            self.shares[dead] = equal_share[dead]
            chosen = torch.randint(len(queries), (len(dead),), device=dead.device)
            self.sums[dead] = queries[chosen, dead] * self.shares[dead][:, None]
        alive = self.shares > 1e-8  # what is never used stays where it is
        model.codes[alive] = self.sums[alive] / self.shares[alive][:, None]
        return len(dead)

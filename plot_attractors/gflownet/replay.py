"""Replay of trajectories and sentences, weighted towards rare sentences and rare tokens, and of
particles of any Pyro program.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from plot_attractors.gflownet.log_ratios import LogRatios
from plot_attractors.gflownet.programs import Values

__all__ = ["Rarity", "Replay", "ReplayBuffer", "rarity_weights"]

Rarity = Literal["product", "geometric_mean"]


def rarity_weights(s: Tensor, of_tokens: Rarity = "product") -> Tensor:
    """(N,) weights 1/count(sentence) · Π_{tokens in it} 1/count(token), summing to 1 (*Weighted
    replay buffer*).

    The product prefers short sentences: a token more divides it by a count. Its geometric mean over
    the tokens of a sentence does not. Computed in log space: a product of six inverse counts
    underflows float32.

    Example:
        >>> s = torch.tensor([[1., 0.], [1., 0.], [0., 1.]])
        >>> rarity_weights(s)  # token counts 2 and 1, sentence counts 2 and 1
        tensor([0.1667, 0.1667, 0.6667])
    """
    _, inverse, counts = torch.unique(s, dim=0, return_inverse=True, return_counts=True)
    tokens = s @ s.sum(0).clamp(min=1).log()
    if of_tokens == "geometric_mean":
        tokens = tokens / s.sum(-1).clamp(min=1)
    return (-counts.to(s).log()[inverse] - tokens).softmax(0)


class ReplayBuffer:
    """The newest `capacity` entries (Algorithm 2, *Populate replay buffer*).

    An entry is a row, dimension 0, of several tensors; where draws are weighted, one of them is
    the sentence s (N, width).

    Args:
        capacity: entries kept; the oldest go first.
        weights: of draws, `rarity_weights` of one kind; None: all alike.
        device: where entries are, those of a loaded state, too.
    """

    def __init__(
        self,
        capacity: int,
        weights: Rarity | None = "product",
        device: torch.device | str = "cpu",
    ) -> None:
        if capacity < 1:
            raise ValueError(f"A replay buffer needs a capacity of at least 1, not {capacity}.")
        self.capacity, self.weights, self.device = capacity, weights, device
        self.entries: dict[str, Tensor] = {}
        self._cumulative: Tensor | None = None  # of the weights, until the next add

    def __len__(self) -> int:
        return len(next(iter(self.entries.values()))) if self.entries else 0

    def add(self, /, **rows: Tensor) -> None:
        """Appends rows; must name the same tensors every time."""
        old = self.entries or {name: new[:0] for name, new in rows.items()}
        self.entries = {
            name: torch.cat([old[name], new]).detach()[-self.capacity :]
            for name, new in rows.items()
        }
        self._cumulative = None

    def clear(self) -> None:
        self.entries, self._cumulative = {}, None

    def draw(self, n: int) -> dict[str, Tensor]:
        """n entries with replacement."""
        if self.weights is None:
            index = torch.randint(len(self), (n,))
        else:
            if self._cumulative is None:
                weights = rarity_weights(self.entries["s"], self.weights)
                self._cumulative = weights.double().cumsum(0)
            total = self._cumulative[-1]
            u = torch.rand(n, dtype=torch.float64, device=total.device) * total
            index = torch.searchsorted(self._cumulative, u).clamp(max=len(self) - 1)
        return {name: rows[index] for name, rows in self.entries.items()}

    def state_dict(self) -> dict[str, Tensor]:
        return {k: v.clone() for k, v in self.entries.items()}  # not all of a view's storage

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.entries = {name: rows.to(self.device) for name, rows in state.items()}
        self._cumulative = None


class Replay:
    """Replaces a share of the particles by earlier ones, all alike.

    It fills while gradients are on, as in training. For one set of data: earlier particles are
    scored on the data of today.

    Args:
        capacity: particles kept; the oldest go first.
        share: of the particles of a step, from 0 to 1, rounded.

    Raises ValueError for particles of other shapes than before.
    """

    def __init__(self, capacity: int = 1000, share: float = 0.5) -> None:
        self.share, self.buffer = share, ReplayBuffer(capacity, weights=None)

    def __call__(self, drawn: LogRatios, fill: bool) -> Values:
        """Values with earlier ones in the place of the first; `fill` keeps what was drawn."""
        old = self.buffer.entries
        if any(v.shape[1:] != drawn.values[k].shape[1:] for k, v in old.items()):
            raise ValueError(
                "Replay holds particles of other shapes: make one for each program and data set."
            )
        values = dict(drawn.values)
        n = int(self.share * len(drawn.of_model) + 0.5)
        if n and len(self.buffer):
            for name, rows in self.buffer.draw(n).items():
                values[name] = torch.cat([rows, values[name][n:]])
        if fill:
            possible = drawn.of_model.isfinite()
            self.buffer.add(**{k: v[possible] for k, v in drawn.values.items()})
        return values

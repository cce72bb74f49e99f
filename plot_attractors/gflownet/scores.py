"""Log-probabilities of a program's sites, by particle and element of its plates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from pyro.distributions.util import scale_and_mask
from pyro.infer.util import is_validation_enabled
from pyro.util import check_site_shape
from torch import Tensor

from plot_attractors.gflownet.programs import Site, quoted, sample_sites
from plot_attractors.gflownet.ratios import Elements

__all__ = ["PARTICLES", "Replan", "Scores"]

PARTICLES = "num_particles_vectorized"  # their plate


class Replan(Exception):
    """Programs are not those that the plate of particles was made for."""


@dataclass
class Scores:
    """How sites are scored.

    Attributes:
        batch_plate, max_plate_nesting: as in `LogRatioLoss`; nesting counts the particle plate.
        particles, particle_dim: their number and dimension in a vectorised run; None of one alone.
        takes_subsamples: whether other plates than the batch plate may be subsampled.
        subsampled: those that were.
    """

    batch_plate: str | None
    max_plate_nesting: float
    particles: int | None
    particle_dim: int | None
    takes_subsamples: bool
    subsampled: set[str] = field(default_factory=set)

    def elements(
        self, trace: Any, program: str, masks: Mapping[str, Tensor] | None = None
    ) -> dict[str, Elements]:
        """Of every site, with the dimension of particles first, of size 1 where one was run; masks
        are joined to the sites' own.
        """
        found: dict[str, Elements] = {}
        for name, site in sample_sites(trace).items():
            mask = _both(site["mask"], (masks or {}).get(name))
            score = _log_prob(site, program)
            if mask is not None:
                score = scale_and_mask(score, 1.0, mask)
            site["log_prob"] = score
            if self.particle_dim is None:
                score = score[None]
            else:
                self._require_particles(site, program, self.particle_dim)
            if is_validation_enabled():
                check_site_shape(site, self.max_plate_nesting)  # type: ignore[arg-type]  # ∞: unknown
            if self.batch_plate is not None:
                self.batch_frame(site)
            frames = [f for f in site["cond_indep_stack"] if f.vectorized and f.name != PARTICLES]
            scale = self._scale(site)
            value = score if _is_one(scale) else scale_and_mask(score, scale)
            found[name] = Elements(value, score, frozenset((f.name, f.dim) for f in frames))
        if not found:  # a program without sites has probability 1
            zero = torch.zeros(self.particles or 1)
            found[""] = Elements(zero, zero, frozenset())
        return found

    def total(self, site: Elements) -> Tensor:
        """(K,) or (K, batch) of a vectorised run, () or (batch,) of one particle."""
        batch = frozenset(plate for plate in site.plates if plate[0] == self.batch_plate)
        value = site.sum_to(batch).value
        particles = [] if self.particle_dim is None else [len(value)]
        return value.reshape(particles + [value.shape[dim] for _, dim in batch])

    def batch_frame(self, site: Site) -> Any:
        """The batch plate where a site lies in it."""
        for frame in site["cond_indep_stack"]:
            if frame.name == self.batch_plate and frame.vectorized:
                return frame
        raise ValueError(
            f"Site {site['name']!r} lies outside the vectorised plate {self.batch_plate!r}, whose "
            "elements are trajectories of their own: move the site into the plate, or drop "
            "batch_plate; VarGrad and ReverseKL keep elements of plates apart by themselves."
        )

    def _require_particles(self, site: Site, program: str, particle_dim: int) -> None:
        """Raises where a site of a vectorised run has no dimension of particles."""
        log_prob = site["log_prob"]
        dims = [f.dim for f in site["cond_indep_stack"] if f.vectorized]
        if any(dim < particle_dim for dim in dims) or log_prob.ndim > -particle_dim:
            raise Replan("Model and guide nest more plates than in a run of one particle")
        sizes = {particle_dim: self.particles}
        if self.batch_plate is not None:
            frame = self.batch_frame(site)
            sizes[frame.dim] = frame.size
        if any(log_prob.ndim < -d or log_prob.shape[d] != n for d, n in sizes.items()):
            raise ValueError(
                f"Site {site['name']!r} of the {program} has log-probabilities of shape "
                f"{tuple(log_prob.shape)}, without the particle or batch dimension: "
                "use a Pyro distribution there, or vectorize_particles=False."
            )

    def _scale(self, site: Site) -> Any:
        """The site's scale without the batch plate's; `poutine.scale` stays, as a temperature."""
        scale = site["scale"]
        if isinstance(scale, float | int) and scale == 1:
            return scale
        subsampled = [f for f in site["cond_indep_stack"] if f.full_size not in (None, f.size)]
        for frame in subsampled:
            if frame.name == self.batch_plate:
                scale = scale * frame.size / frame.full_size
        if _is_one(scale):
            return 1.0
        self.subsampled |= {frame.name for frame in subsampled} - {self.batch_plate}
        if self.subsampled and not self.takes_subsamples:
            raise ValueError(
                f"Site {site['name']!r} lies in the subsampled plate {quoted(self.subsampled)}, "
                "whose scale has no place in a squared log-ratio, nor in a weight: use the whole "
                "plate, or name it as batch_plate if its elements are independent, or take "
                "ReverseKL or VarGrad with particles of the guide, whose gradients are right of "
                "mini-batches."
            )
        return scale


def _is_one(scale: Any) -> bool:
    """Whether a scale changes nothing."""
    if isinstance(scale, float | int):
        return abs(scale - 1) < 1e-6
    return bool((torch.as_tensor(scale) - 1).abs().max() < 1e-6)


def _log_prob(site: Site, program: str) -> Tensor:
    name = site["name"]
    try:
        log_prob: Tensor = site["fn"].log_prob(site["value"], *site["args"], **site["kwargs"])
    except ValueError as error:
        message = f"log_prob fails at site {name!r} of the {program}: {error}"
        raise ValueError(message) from error
    except (KeyError, NotImplementedError) as error:
        raise ValueError(
            f"Site {name!r} of the {program} has a distribution without a density of "
            f"given values ({type(error).__name__}: {error}), such as a flow whose "
            "transform has no inverse: take one with an inverse there."
        ) from error
    return log_prob


def _both(one: Any, other: Any) -> Any:
    """Both masks, either of which may be None."""
    if one is None or other is None:
        return other if one is None else one
    return torch.as_tensor(one) & other

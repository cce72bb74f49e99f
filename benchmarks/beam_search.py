"""How much of an input's reward the best sentences of a beam search hold, and what they cost: RUN
[INPUTS]. A row a width of the beam, against the exact sum over all sentences.
"""

from __future__ import annotations

import sys
import time

import torch
from shared import header, row

from plot_attractors.evaluation.sampling import best_sentences, exact_draws
from plot_attractors.runs.run import Run

BEAMS, KEEP = (1, 2, 4, 8, 16, 32), 256


@torch.no_grad()
def main(path: str, inputs: int = 64) -> None:
    """Prints milliseconds an input, the share of Z(x) found, and that of the worst input."""
    torch.manual_seed(0)
    run = Run(path)
    model = run.model
    q = model.encoder(run.data.batch(inputs).x)
    started = time.perf_counter()
    exact = exact_draws(model, q, draws=1)
    passes = 1 if model.posterior.factored else 2  # by factors, or the sum and the draws
    per_input = (time.perf_counter() - started) / inputs / passes
    print(f"{model.language.count:,} sentences, {inputs} inputs, the best {KEEP} kept")
    header("beams", "ms an input", "share of Z", "worst input")
    for beams in BEAMS:
        started = time.perf_counter()
        best = best_sentences(model, q, beams, KEEP)
        cost = (time.perf_counter() - started) / inputs
        share = (best.log_z - exact.log_z).exp()
        row(beams, f"{1e3 * cost:.2f}", f"{share.mean():.3f}", f"{share.min():.3f}")
    row("all", f"{1e3 * per_input:.2f}", 1, 1)


if __name__ == "__main__":
    main(sys.argv[1], *(int(n) for n in sys.argv[2:]))

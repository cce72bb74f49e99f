"""Under torchrun: fits with the arguments of a JSON text, and keeps the parameters and the random
state that each process ends with, for a test.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from plot_attractors import processes
from plot_attractors.runs import fit, loop

run = loop.Loop.run


def kept(self: Any) -> None:
    run(self)
    parts = {"model": self.model.state_dict(), "random": torch.get_rng_state()}
    torch.save(parts, Path(f"{self.path}-rank-{processes.rank()}.pt"))


loop.Loop.run = kept  # type: ignore[method-assign]
torch.set_num_threads(1)
fit(**json.loads(sys.argv[1]))

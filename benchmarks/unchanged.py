"""Whether a change leaves trainings bit for bit as they were.

Fits pairs of programs small and keeps hashes of parameters and of the columns of metrics.csv in
FOLDER/hashes.json. Where that file is there already, from the code before the change, it compares
instead, by content: names of parameters and columns may differ. It fails where any differs.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from shared import arguments, parser

from plot_attractors.runs import Run, fit

CUT = {"pretrain": 300, "warm_up": 300, "final_e_updates": 300}  # of every phase of a demo
CASES: dict[str, tuple[str, str | None, str, dict[str, Any]]] = {
    **{f"hbv {i}": ("hbv", i, "smoke", {}) for i in ("wake_sleep_em", "gflownet_em")},
    **{
        name: (name, None, "smoke", {})
        for name in (
            "algorithms", "sequences", "dsprites",
            "vqvae", "emergent_communication", "fully_compositional", "not_compositional",
            "grammar",
        )
    },
    "grammar chain": ("grammar", None, "smoke", {"draw_by": "chain"}),
    "hbv demo": ("hbv", None, "demo", {**CUT, "e_updates": 300}),
    "dsprites demo": ("dsprites", None, "demo", {
        **CUT, "vocabulary": 300,
    }),
}  # fmt: skip


SMALL = {"CASES": {"hbv wake_sleep_em": CASES["hbv wake_sleep_em"]}}


def digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def hashes(case: str) -> dict[str, list[str]]:
    """Of the parameters and of the metrics' columns, sorted."""
    program, inference, preset, settings = CASES[case]
    with TemporaryDirectory() as folder:
        run = Run(fit(program, inference, preset=preset, seed=3, out=folder, settings=settings))
        parameters = [digest(p.detach().numpy()) for p in run.model.parameters()]
        metrics = run.metrics().drop(columns=["seconds", "phase"])
    columns = [digest(metrics[name].to_numpy(float)) for name in metrics]
    return {"parameters": sorted(parameters), "metrics": sorted(columns)}


def differs(file: Path) -> bool:
    """Whether anything does from the hashes of a file, which is written where there is none."""
    before = json.loads(file.read_text()) if file.exists() else {}
    digests: dict[str, dict[str, list[str]]] = {}
    others: list[str] = []
    for case in CASES:
        digests[case] = hashes(case)
        other = [
            part for part, digest in before.get(case, {}).items() if digest != digests[case][part]
        ]
        print(case, "differs: " + ", ".join(other) if other else "", flush=True)
        others += other
    if not before:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(digests, indent=1))
    return bool(others)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("folder", nargs="?", type=Path)
    given = arguments(globals(), options)
    torch.set_num_threads(1)
    file = given.folder / "hashes.json"
    raise SystemExit((given.small and differs(file)) or differs(file))


if __name__ == "__main__":
    main()

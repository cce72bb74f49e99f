"""Small files of a user's own data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Settings of data sets that read a table, some of whose bits are missing, vectors or images,
    by name; of a table that is complete, all of whose settings can be used.
    """
    folder, rng, rows = tmp_path_factory.mktemp("data"), np.random.default_rng(0), 60
    x = (rng.random((rows, 12)) < rng.choice([0.2, 0.8], (6, 12))[np.arange(rows) % 6]).astype(int)
    x[0], x[1] = 0, 1  # no constant column
    more = pd.DataFrame(
        {
            "family": np.array(["cat", "dog", "bird"])[np.arange(rows) % 3],
            "animal": [f"a{k}" for k in range(rows)],
            "legs": np.array([0, 2, 4])[np.arange(rows) % 3],
            "size": np.arange(rows) // 2,
            "new": (np.arange(rows) % 5 == 0).astype(int),
        }
    )
    traits = pd.DataFrame(x, columns=[f"t{k}" for k in range(12)])
    missing = traits.mask(np.arange(rows * 12).reshape(rows, 12) % 17 == 0)
    pd.concat([traits, more.drop(columns="size")], axis=1).to_csv(folder / "t.csv", index=False)
    pd.concat([missing, more["family"]], axis=1).to_csv(folder / "missing.csv", index=False)
    more.to_csv(folder / "more.csv", index=False)
    np.save(folder / "v.npy", rng.normal(size=(rows, 8)) + 2 * x[:, :8])
    np.save(folder / "i.npy", rng.integers(0, 256, (rows, 16, 16), dtype=np.uint8))
    other = {"table": folder / "more.csv", "labels": ("family",)}
    return {
        "table": {"path": folder / "missing.csv", "labels": ("family",), "missing": "ignore"},
        "complete": {"path": folder / "t.csv", "labels": ("family",), "ignore": ("legs", "animal")},
        "vectors": {"path": folder / "v.npy", **other},
        "images": {"path": folder / "i.npy", **other},
    }

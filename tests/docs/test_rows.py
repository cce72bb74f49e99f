"""A run's row is what its tables say."""

from __future__ import annotations

import importlib.util
import io
import math
import shutil
from pathlib import Path

import pandas as pd
import pytest

import plot_attractors

PACKAGE = Path(plot_attractors.__file__).parent
PROGRAM = Path(__file__).parents[2] / "docs" / "rows.py"
CALIBRATION = """split,steps,statistic,value,floor
train,20,tv,0.5,0.25
train,20,tv_discretizer,0.625,0.25
train,20,tv_policy_resampled,0.375,0.25
train,20,slope,0.75,1
train,100,slope,0.5,1
train,200,slope,0.1,1
held_out,20,tv_discretizer,0.9,0.3
"""
SETTLING = """last_change,last_change_q1,last_change_q3,entropy
1,0,2,0.5
4,3,5,0.25
6,5,7,1.5
"""
COMPOSITION = """split,feature,source,value
train,branch1,sampled,0.9
train,branch1,composed,0.75
held_out,branch1,composed,0.25
"""
THOUGHT = """split,source,baseline,measure,feature,value
train,learned,paths,js,node,0.25
train,learned,paths,js,branch1,0.125
train,node,paths,js,node,0.875
held_out,learned,paths,js,node,0.625
train,learned,node,js,node,0.375
train,learned,slots,js,node,0.4
train,learned,paths,energy,,0.6
train,learned,node,energy,,0.7
train,learned,paths,translation_tv,,0.1
train,learned,paths,residual,,0.2
train,learned,paths,residual_scrambled,,0.3
"""
TABLES = {
    "calibration/summary": CALIBRATION,
    "trajectories/settling": SETTLING,
    "composition/summary": COMPOSITION,
    "compare_language_of_thought/summary": THOUGHT,
}


def test_a_row_is_what_the_tables_of_a_run_say(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("docs_rows", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    rows = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rows)
    run = tmp_path / "hbv-attractors-30"
    shutil.copytree(PACKAGE / "pretrained" / "hbv", run)
    before = rows.row(run)  # what the run keeps of its analyses
    assert (before["data"], before["model"], before["seed"]) == ("hbv", "attractor", 30)
    assert 0 < before["axes"] < 8
    assert "discretizer" not in before
    values = {n: rows.MORE[n](pd.read_csv(io.StringIO(text))) for n, text in TABLES.items()}
    assert values["calibration/summary"] == {
        "slope_5T": 0.5, "discretizer": 0.125, "policy_64": 0.125,
    }  # fmt: skip
    expected = {"last_change": 4, "before_2": 1 / 3, "settling_entropy": 0.5}
    assert values["trajectories/settling"] == pytest.approx(expected)
    assert values["composition/summary"] == {"composed branch1": 0.75}
    assert values["compare_language_of_thought/summary"] == {
        "js paths": 0.25, "js node": 0.375, "js slots": 0.4, "energy": 0.6, "translation_tv": 0.1,
        "residual": 0.2, "residual_scrambled": 0.3,
    }  # fmt: skip
    # without 5T or a policy there is nothing to tell
    few = pd.read_csv(io.StringIO("\n".join(CALIBRATION.splitlines()[:3])))
    assert math.isnan(rows.calibration(few)["slope_5T"])
    assert math.isnan(rows.calibration(few)["policy_64"])

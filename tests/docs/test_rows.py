"""A run's row is what its tables say."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pandas as pd
import pytest

import plot_attractors
from tests.small import module_at

PACKAGE = Path(plot_attractors.__file__).parent
PROGRAM = Path(__file__).parents[2] / "docs" / "rows.py"
CALIBRATION = """split,steps,statistic,value
train,20,tv,0.5
train,20,tv_discretizer,0.625
train,100,tv,0.75
held_out,20,tv_discretizer,0.9
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
THOUGHT = """split,inputs,source,baseline,reading,measure,feature,value
train,all,learned,paths,heard,js,node,0.25
train,all,learned,paths,heard,js,branch1,0.125
train,all,learned,paths,literal,js,node,0.5
train,leaves,learned,paths,heard,js,node,0.75
train,all,node,paths,heard,js,node,0.875
held_out,all,learned,paths,heard,js,node,0.625
train,all,learned,node,heard,js,node,0.375
train,all,learned,slots,heard,js,node,0.4
train,all,learned,paths,heard,residual,,0.2
train,all,learned,paths,heard,residual_scrambled,,0.3
"""
TABLES = {
    "calibration/summary": CALIBRATION,
    "trajectories/settling": SETTLING,
    "composition/summary": COMPOSITION,
    "compare_language_of_thought/summary": THOUGHT,
}


def test_a_row_is_what_the_tables_of_a_run_say(tmp_path: Path) -> None:
    rows = module_at(PROGRAM)
    run = tmp_path / "hbv-attractors-30"
    shutil.copytree(PACKAGE / "pretrained" / "hbv", run)
    before = rows.row(run)  # what the run keeps of its analyses
    assert (before["data"], before["model"], before["seed"]) == ("hbv", "attractor", 30)
    assert "discretizer" not in before
    values = {n: rows.MORE[n](pd.read_csv(io.StringIO(text))) for n, text in TABLES.items()}
    assert values == {
        "calibration/summary": {"discretizer": 0.125},
        "trajectories/settling": pytest.approx(
            {"last_change": 4, "settling_entropy": 0.5}
        ),
        "composition/summary": {"composed branch1": 0.75},
        "compare_language_of_thought/summary": {
            "js paths": 0.25, "js node": 0.375, "js slots": 0.4, "residual": 0.2,
            "residual_scrambled": 0.3,
        },
    }  # fmt: skip

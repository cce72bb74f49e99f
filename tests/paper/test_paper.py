"""The paper in one command: numbers and figures that exist, and the page shows the numbers of the
analyses and what is not fitted.
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pandas as pd
import pytest

from plot_attractors.measures.registry import HELD_OUT
from plot_attractors.paper import plan, results
from plot_attractors.paper.page import write_page
from plot_attractors.paper.plan import planned
from plot_attractors.report.builder import anchor
from plot_attractors.report.tables import fixed
from plot_attractors.runs import Run, fit, registry, settings
from plot_attractors.runs import analyze as analyses
from plot_attractors.runs.analyze import analyze, unmet

OF_NUMBERS = {number.metric.analysis for number in results.NUMBERS}


ONLY = "attractors", "vqvae"
FITTED = "hbv-attractors-0", "dsprites-vqvae-0"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the preset smoke, the tables of their numbers, and the page of them and of two
    that are not fitted; `.ci/run` makes all models and figures.
    """
    out = tmp_path_factory.mktemp("paper") / "paper"
    runs = planned(out, "smoke", only=ONLY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analyses, "draw_figures", lambda figures, folder: None)
        for run in (run for run in runs if run.name in FITTED):
            fit(**run.arguments, out=run.path)
            sizes = {name: of for name, of in (run.analyses or {}).items() if name in OF_NUMBERS}
            found = analyze(run.path, list(sizes), settings=sizes)
            assert [result.error for result in found] == [None] * len(found)
            assert {result.name for result in found} == {
                name for name in sizes if not unmet(registry.load("analyses", name), Run(run.path))
            }
    write_page(out, runs, "smoke")
    return out


def test_numbers_and_figures_exist(made: Path) -> None:
    for number in results.NUMBERS:
        metric = number.metric
        for model in {*number.models} & {*ONLY}:
            folder = made / "runs" / f"{number.data}-{model}-0" / "analyses" / metric.analysis
            if folder.is_dir():  # some smoke tree has no two meanings
                table = pd.read_csv(folder / "summary.csv")
                assert {*metric.column.split("-"), *metric.where} <= {*table.columns}, metric.name
                for column, value in metric.where.items():
                    assert value == HELD_OUT or (table[column] == value).any(), metric.name
    for result in results.RESULTS:
        for _, analysis, stem in result.shown:
            assert stem in registry.load("analyses", analysis).CAPTIONS


def test_the_page_has_every_result_and_the_numbers_of_the_analyses(made: Path) -> None:
    page = (made / "index.html").read_text(encoding="utf-8")
    text = " ".join(unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.S)).split())
    for result in results.RESULTS:
        assert f'<article id="{anchor(result.title)}">' in page
        assert result.says in text
    assert "no number of it means anything" in text
    assert "Not fitted yet, or not to the end: hbv-vqvae-0, dsprites-attractors-0." in text
    table = pd.read_csv(made / "numbers.csv").set_index(["data", "number", "model"])
    loss = pd.read_csv(made / "runs/hbv-attractors-0/analyses/information_loss/summary.csv")
    for name, split in (("p", "train"), ("p_held_out", "held_out")):
        value = loss[(loss["split"] == split) & (loss["steps"] == 20)]["p"].item()
        shown = table["value"]["hbv", name, "attractors"]
        assert shown == pytest.approx(value, abs=1e-12)
        assert f"{fixed(value, '.3f')} paper: " in text
    rows = pd.read_csv(made / "runs/dsprites-vqvae-0/analyses/language_measures/summary.csv")
    rows = rows[(rows["measure"] == "topographic_similarity") & (rows["split"] == "train")]
    shown = table["value"]["dsprites", "topographic_similarity", "vqvae"]
    assert shown == pytest.approx(rows["value"].item(), abs=1e-12)
    assert f"{fixed(shown, '.3f')} paper: 0.314" in text
    for value in ("0.480", "0.041", "0.621", "0.183", "0.525", "0.156", "0.314"):
        assert page.count(f"<small>paper: {value}</small>") == 1
    assert "<small>paper: −173.660 [−218.620, −62.666]</small>" in page


@pytest.mark.parametrize("preset", plan.PRESETS)
def test_presets_set_what_programs_have(preset: str, tmp_path: Path) -> None:
    runs = planned(tmp_path, preset, [3])
    assert [run.name for run in runs][::6] == ["hbv-attractors-3", "dsprites-attractors-3"]
    for run in runs:
        assert run.plan().config["run"]["seed"] == 3
        for name, sizes in (run.analyses or {}).items():
            settings.from_table(registry.load("analyses", name).Config, sizes)

"""Reports: one file that needs nothing else; variants and seeds, warnings, bad input."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import tomlkit
import torch
from typer.testing import CliRunner

from plot_attractors import cli
from plot_attractors.measures.registry import METRICS
from plot_attractors.report import findings, report, tables, viewer
from plot_attractors.runs import Run, fit
from plot_attractors.runs.analyze import analyze

from .untrained import add_loss, add_picture, add_table, untrained

TOYS = Path(__file__).parents[1] / "toy_programs"


class Page(HTMLParser):
    """The text of a page, its ids, and what a browser would fetch for it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.pieces: list[str] = []
        html = file.read_text(encoding="utf-8")
        self.feed(html)
        self.text = " ".join(" ".join(self.pieces).split())
        self.sources = re.findall(r' src="([^"]*)"', html)
        self.ids = re.findall(r' id="([^"]*)"', html)
        assert len(set(self.ids)) == len(self.ids)
        assert {*re.findall(r' href="#?([^"]*)"', html)} <= set(self.ids)
        assert all(source.startswith("data:image/") for source in self.sources)

    @classmethod
    def of(cls, *runs: Path, out: Path | None = None) -> Page:
        return cls(report(runs, out))

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] not in (["style"], ["script"]):
            self.pieces.append(data)


# One run.


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "toy"
    path = fit(TOYS / "toy_model.py", out=out, preset="smoke")
    (result,) = analyze(path, [TOYS / "toy_analysis.py"])
    assert result.error is None
    return path


def test_a_report_is_one_file_with_tables_figures_and_captions(toy: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, ["report", str(toy)])
    assert result.exit_code == 0, result.output
    results = Page(toy / "report.html")
    assert len(results.sources) == 1
    assert results.sources[0].startswith("data:image/svg+xml;base64,")
    for part in (
        "A straight line through points with noise",
        "Toy analysis",
        "replay.size",
        "A short training: the preset smoke",
        "trajectories needs a model with attractors, and two or more latent dimensions",
    ):
        assert part in results.text
    assert "analysis-toy-analysis" in results.ids
    assert report(toy, tmp_path / "again.html").read_bytes() == (toy / "report.html").read_bytes()


def test_bad_input_gets_a_sentence_and_the_rest_is_reported(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run")
    config = tomlkit.parse((run / "config.toml").read_text()).unwrap()
    config["model"]["gone"] = 1
    (run / "config.toml").write_text(tomlkit.dumps(config))
    environment = {"versions": {"plot-attractors": "0.0.1"}, "dirty": True, "seconds": 30}
    (run / "environment.json").write_text(json.dumps(environment))
    add_table(run, "calibration", [{"steps": 20, "value": 1}])
    broken = add_table(run, "broken", [])
    (broken / "summary.csv").write_bytes(b"\xff\xfe\x00")
    (broken / "picture.png").write_bytes(b"no picture")
    (add_table(run, "trajectories", [{"t": 0}]) / viewer.FILE).write_text("{")
    add_table(run, "mine", [{"what": "<b>", "number": 1.5}])
    result = Page.of(run)
    for sentence in (
        "has no checkpoint yet: fit it first",
        "Trained with plot-attractors 0.0.1",
        "The run does not fit the model program of today: there is no setting 'gone'",
        "Trained with changes to the code that no commit holds.",
        "summary.csv cannot be read",
        "picture cannot be read",
        "<b>",
        "0.5 minutes",
    ):
        assert sentence in result.text, sentence
    assert {f"analysis-{name}" for name in ("trajectories", "broken", "mine")} <= set(result.ids)


# Numbers.


def test_numbers_stand_beside_the_papers(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run")
    add_loss(run, kl=0.0123, p=0.504)
    row = {"measure": "topographic_similarity", "split": "train", "value": 0.4}
    add_table(run, "language_measures", [row])
    text = Page.of(run).text
    assert re.search(r"p of information loss P\(d\) = .*? tell 0\.504 0\.480 ", text)
    assert re.search(r"perfect fit 0\.012 0\.041 ", text)
    assert re.search(r"p, held-out classes .*? saw 0\.252 0\.621 ", text)
    assert re.search(r"topographic similarity, Spearman's ρ .*? sentences 0\.400 – ", text)
    # the paper's numbers are of other data
    table = untrained(tmp_path / "table", program="table", path="animals.csv")
    small = untrained(tmp_path / "small", preset="smoke")  # vectors of 16 bits
    for other in (table, small):
        add_loss(other, kl=0.1, p=0.5)
        text = Page.of(other).text
        assert "p of information loss" in text
        assert "0.480" not in text


def test_variants_are_columns(tmp_path: Path) -> None:
    """A directory that is given twice counts once."""
    paths = [
        untrained(tmp_path / "a0"),
        untrained(tmp_path / "b0", steps=8),
        untrained(tmp_path / "a1", seed=1),
    ]
    for path, p in zip(paths, (0.5, 0.6, 0.7), strict=True):
        add_loss(path, kl=0.1, p=p)
    result = Page.of(*paths, paths[0], out=tmp_path / "all.html")
    assert "3 runs of 2 variants" in result.text
    assert "0.600 ± 0.141 0.600 0.480" in result.text
    assert "A: steps 20, seed 0" in result.text
    assert len(result.sources) == 2  # one a variant


@pytest.mark.parametrize(
    ("values", "form", "shown"),
    [
        ([1.0, math.nan], ".2f", "1.00 (1 of 2)"),
        ([-math.inf, 1.0], ".2f", "−∞"),
        ([1604], ".0f", "1,604"),
        ([604, 605], ".0f", "604.5 ± 0.7"),  # counts have a decimal on average
    ],
)
def test_spread(values: list[float], form: str, shown: str) -> None:
    assert tables.spread(values, form) == shown


# Warnings.

GOOD = dict.fromkeys(METRICS, math.nan) | {
    "tv_excess": 0.1, "k_hat_512": 0.7, "slope": 1.0, "ess_512": 0.3, "sentences_in_use": 600.0,
}  # fmt: skip
MANY = {"language.groups": ",".join(["1"] * 32)}  # 5,488 sentences of 3 tokens, 4,514,872 of 7


@pytest.mark.parametrize(
    ("changed", "settings", "sentence"),
    [
        ({}, {}, ""),
        ({"tv_excess": 0.11}, {}, "total variation from it is 0.11 above its noise floor, a lower"),
        ({"tv_extrapolated": 0.11}, {}, "total variation from it is about 0.11; 0.10 above"),
        ({"tv_excess": 0.2, "tv_extrapolated": 0.1}, {}, ""),
        ({"k_hat_512": 0.71}, {}, "their Pareto k̂ is 0.71"),
        ({"slope": 0.8}, {}, "too uniformly"),
        ({"slope": 1.2}, {}, "too selectively"),
        ({"ess_512": 0.04}, {}, "effective sample size is 4.0%"),
        ({"sentences_in_use": 100.0}, {}, "Few sentences are in use: 100 of 728"),
        (dict.fromkeys(GOOD, math.nan), {}, ""),
        ({}, {**MANY, "language.max_length": 3}, "Few sentences are in use: 600 of"),
        ({}, {**MANY, "language.max_length": 7}, ""),  # of which few are ever drawn
    ],
)
def test_warnings(
    tmp_path: Path, changed: dict[str, float], settings: dict[str, Any], sentence: str
) -> None:
    run = untrained(tmp_path / "run", **settings)
    torch.save({"position": 5, "total": 5}, run / "checkpoint.pt")
    result = findings.warnings(Run(run), GOOD | changed)
    assert len(result) == bool(sentence)
    assert all(sentence in part for part in result)
    torch.save({"position": 1200, "total": 53250}, run / "checkpoint.pt")
    unfinished, *rest = findings.warnings(Run(run), GOOD | changed)
    assert unfinished == "The run is unfinished: 1,200 of 53,250 updates are done."
    assert rest == result


# Figures.


def test_the_view_is_kept_as_it_is(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run")
    folder = add_picture(run / "analyses" / "trajectories", "trajectories")
    assert "view-trajectories" not in Page.of(run).ids
    text = json.dumps({"format": viewer.FORMAT, "evil": "</script><b>"}, separators=(",", ":"))
    (folder / viewer.FILE).write_text(text)
    html, result = report(run).read_text(), Page(run / "report.html")
    assert "view-trajectories" in result.ids
    (kept,) = re.findall(r'<script type="application/json">(.*?)</script>', html)
    assert json.loads(kept) == json.loads(text)

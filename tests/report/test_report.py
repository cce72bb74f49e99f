"""Reports: one file that needs nothing else; variants and seeds, warnings, bad input; and a browser
that opens it.
"""

from __future__ import annotations

import base64
import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomlkit
from PIL import Image
from typer.testing import CliRunner

from plot_attractors import cli
from plot_attractors.report import findings, page, pictures, report, tables, viewer
from plot_attractors.report.variants import group, labels
from plot_attractors.runs import Run, fit, registry, settings
from plot_attractors.runs.analyze import PROGRAM_FILE, analyze

from .. import browser as browser_
from ..small import shrink

TOYS = Path(__file__).parents[1] / "toy_programs"
MODEL = str(TOYS / "toy_model.py")
VOID = ("meta", "img", "br")


class Page(HTMLParser):
    """What a page says, what a browser would fetch for it, and whether its tags close in order."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.titles: list[str] = []
        self.said: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))
        assert self.open == []
        assert len(set(self.ids)) == len(self.ids)
        assert {link.removeprefix("#") for link in self.links} <= set(self.ids)
        assert all(source.startswith("data:image/") for source in self.sources)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.said).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        found = {name: value or "" for name, value in attrs}
        for name, into in (
            ("src", self.sources),
            ("href", self.links),
            ("id", self.ids),
            ("title", self.titles),
        ):
            if name in found:
                into.append(found[name])

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.said.append(data)


# Runs that were never trained: their settings and the tables of their analyses.


def untrained(
    path: Path, seed: int = 0, preset: str = "full", program: str = "hbv", **changed: Any
) -> Path:
    """The directory of a run with a config.toml."""
    model, inference = registry.load("models", program), registry.load("inference", "gflownet_em")
    configs = settings.resolve(
        {"model": model.Config, "inference": inference.Config},
        {"model": model.PRESETS, "inference": inference.PRESETS},
        preset,
        changed,
    )
    run = {
        "program": program,
        "inference": "gflownet_em",
        "preset": preset,
        "seed": seed,
        "log_every": 100,
    }
    path.mkdir(parents=True)
    config = {"run": run, **{part: settings.to_table(value) for part, value in configs.items()}}
    (path / "config.toml").write_text(tomlkit.dumps(config))
    return path


def add_table(
    run: Path, analysis: str, rows: Sequence[Mapping[str, Any]], name: str = "summary.csv"
) -> None:
    folder = run / "analyses" / analysis
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(folder / name, index=False)


def add_loss(run: Path, kl: float, p: float) -> None:
    rest = {"mean": 1.0, "p_negative": 0.1, "kl_exact": 0.01}
    splits = (("train", kl, p), ("held_out", 2 * kl, p / 2))
    add_table(
        run,
        "information_loss",
        [{"split": s, "steps": 20, "p": q, "kl": k, **rest} for s, k, q in splits],
    )


def add_picture(folder: Path, stem: str, noise: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pixels = (
        np.random.default_rng(0).integers(0, 255, (300, 700, 3)) if noise else np.zeros((9, 20, 3))
    )
    Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{stem}.png")


# One run.


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = fit(MODEL, out=tmp_path_factory.mktemp("report") / "toy", preset="smoke")
    (result,) = analyze(path, [str(TOYS / "toy_analysis.py")])
    assert result.error is None
    return path


def test_a_report_is_one_file_with_tables_figures_and_captions(toy: Path) -> None:
    result = CliRunner().invoke(cli.app, ["report", str(toy)])
    assert result.exit_code == 0, result.output
    found = Page(toy / "report.html")
    assert len(found.sources) == 1
    assert found.sources[0].startswith("data:image/svg+xml;base64,")
    for part in (
        "A straight line through points with noise",
        "Predictions <of the line>",
        "on the line they agree & nothing is left.",
        "columns",
        "error",
        "train",
        "A short training: the preset smoke",
        "trajectories does not apply to this model, which asks whether the run's model has "
        "attractors",
    ):
        assert part in found.text
    assert "analysis-toy-analysis" in found.ids


def test_a_report_of_images_shows_them_beside_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch)
    path = fit("dsprites", preset="smoke", out=tmp_path / "run")
    (result,) = analyze(path, ["sentences"])
    assert result.error is None
    found = Page(report(path))
    assert len(found.sources) == 2  # images, and what every token says
    assert (
        "A row for each input: the input; what the decoder makes of its initial state" in found.text
    )
    assert "On images, what each token says." in found.text


def test_reports_do_not_change_from_one_to_the_next(toy: Path, tmp_path: Path) -> None:
    assert (
        report(toy, tmp_path / "a.html").read_bytes()
        == report(toy, tmp_path / "b.html").read_bytes()
    )


def test_what_cannot_be_reported(toy: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one run at least"):
        report([])
    with pytest.raises(ValueError, match="give --out"):
        report([toy, untrained(tmp_path / "other")])
    with pytest.raises(ValueError, match="is not the directory of a run"):
        report(tmp_path)


def test_bad_input_is_said_in_a_sentence_and_the_rest_is_reported(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run")
    config = tomlkit.parse((run / "config.toml").read_text())
    config["model"]["gone"] = 1  # type: ignore[index]
    del config["inference"]["batch"]  # type: ignore[attr-defined]
    (run / "config.toml").write_text(tomlkit.dumps(config))
    versions = {"plot-attractors": "0.0.1"}
    (run / "environment.json").write_text(
        json.dumps({"versions": versions, "dirty": True, "seconds": 30})
    )
    (run / "analyses" / "calibration").mkdir(parents=True)
    (run / "analyses" / "calibration" / "summary.csv").write_text("steps,value\n20,1\n")
    (run / "analyses" / "broken").mkdir()
    (run / "analyses" / "broken" / "summary.csv").write_bytes(b"\xff\xfe\x00")
    (run / "analyses" / "broken" / "picture.png").write_bytes(b"no picture")
    (run / "analyses" / "trajectories").mkdir()
    (run / "analyses" / "trajectories" / viewer.FILE).write_text("{")
    add_table(run, "mine", [{"what": "<b>", "number": 1.5}])
    found = Page(report(run))
    for sentence in (
        "has no checkpoint yet: fit it first",
        "Trained with plot-attractors 0.0.1",
        "The run does not fit the model program of today: there is no setting 'gone'",
        "The inference program has settings today that the run does not know: batch.",
        "Trained with changes to the code that no commit holds.",
        "lacks the column",
        "summary.csv of seed 0 cannot be read",
        "picture cannot be read",
        "<b>",
        "30 s",
    ):
        assert sentence in found.text, sentence
    for name in ("trajectories", "calibration", "broken", "mine"):
        assert f"analysis-{name}" in found.ids


def test_an_unfinished_run_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = untrained(tmp_path / "run")
    monkeypatch.setattr(Run, "position", (1200, 53250))
    assert "The run is unfinished: 1,200 of 53,250 updates are done." in Page(report(run)).text


def test_sections_stand_in_order(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run")
    for name in (
        "data",
        "training",
        "zebra",
        "calibration",
        "diversity",
        "information_loss",
        "basins",
    ):
        add_table(run, name, [{"a": 1}])
    ids = [name for name in Page(report(run)).ids if name.startswith("analysis-")]
    order = ["basins", "information-loss", "diversity", "calibration", "zebra", "training", "data"]
    assert [name.removeprefix("analysis-") for name in ids] == order


# Numbers.


def test_numbers_stand_beside_the_papers(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run")
    add_loss(run, kl=0.0123, p=0.504)
    add_table(
        run, "similarity", [{"measure": "topographic_similarity", "split": "train", "value": 0.4}]
    )
    text = Page(report(run)).text
    assert re.search(r"p of information loss .*? tell 0\.504 0\.480 ", text)
    assert re.search(r"perfect fit 0\.012 0\.041 ", text)
    assert re.search(r"p, held-out classes .*? saw 0\.252 0\.621 ", text)
    assert re.search(r"topographic similarity.*? differ more 0\.400 – ", text)
    table = untrained(tmp_path / "table", program="table", data="animals.csv")
    add_loss(table, kl=0.1, p=0.5)
    assert "0.480" not in Page(report(table)).text  # the paper's numbers are of other data
    small = untrained(tmp_path / "small", preset="smoke")  # vectors of 16 bits
    add_loss(small, kl=0.1, p=0.5)
    text = Page(report(small)).text
    assert "p of information loss 0.500" in text
    assert "paper, HBV" not in text
    assert "0.480" not in text


def test_every_headline_number_has_a_name_and_a_source_of_its_own() -> None:
    names, sources = {h.name for h in findings.HEADLINES}, {h.source for h in findings.HEADLINES}
    assert len(names) == len(sources) == len(findings.HEADLINES)
    known = {name for cells in findings.comparison.HEADLINES.values() for name in cells}
    assert sources <= known


def test_seeds_are_mean_and_standard_deviation(tmp_path: Path) -> None:
    runs = [untrained(tmp_path / f"seed-{seed}", seed=seed) for seed in (3, 1, 2)]
    for run, kl in zip(runs, (0.01, 0.02, 0.06), strict=True):
        add_loss(run, kl=kl, p=0.5)
        add_picture(run / "analyses" / "information_loss", "law")
    found = Page(report(runs, tmp_path / "all.html"))
    assert "hbv: 3 runs" in found.text
    assert "0.030 ± 0.026" in found.text
    assert "seed-1: 0.020, seed-2: 0.060, seed-3: 0.010" in found.titles
    assert "0.03 ± 0.026" in found.text  # in the analysis' own table
    assert "seed 1: 0.02, seed 2: 0.06, seed 3: 0.01" in found.titles
    assert len(found.sources) == 3
    add_table(runs[0], "information_loss", [{"split": "train", "steps": 20, "p": 0.5}])
    text = Page(
        report(runs, tmp_path / "all.html")
    ).text  # one table has other rows: each for itself
    assert "lacks the column" in text
    assert "0.040 ± 0.028 (2 of 3)" in text


def test_rows_of_other_inputs_are_not_averaged(tmp_path: Path) -> None:
    runs = [untrained(tmp_path / f"seed-{seed}", seed=seed) for seed in (0, 1)]
    for run, y, stable in zip(runs, (2, 4), (10, 13), strict=True):
        add_table(run, "diagnostics", [{"input": 0, "y": y, "ess": 10.5 + y}])
        add_table(run, "basins", [{"steps": 20, "stable": stable}])
    found = Page(report(runs, tmp_path / "all.html"))
    assert "seed 0 input y ess 0 2 12.5 seed 1 input y ess 0 4 14.5" in found.text
    assert "3 ± 1.4" not in found.text
    assert "steps stable 20 11.5 ± 2.1" in found.text  # a count is a measurement
    for run, name in zip(runs, "ab", strict=True):
        add_table(run, "mine", [{"kind": name, "value": 1.0}])
    assert (
        "seed 0 kind value a 1 seed 1 kind value b 1"
        in Page(report(runs, tmp_path / "all.html")).text
    )


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    runs = [untrained(tmp_path / name / "run") for name in "xy"]
    for run, kl in zip(runs, (0.01, 0.02), strict=True):
        add_loss(run, kl=kl, p=0.5)
        add_picture(run / "analyses" / "information_loss", "law")
    found = Page(report(runs, tmp_path / "all.html"))
    assert "runs x/run, y/run" in found.text
    assert "x/run: 0.010, y/run: 0.020" in found.titles
    assert "seed 0, x/run: 0.01, seed 0, y/run: 0.02" in found.titles  # two of one seed
    assert list(labels([*runs, tmp_path / "z"]).values()) == ["x/run", "y/run", "z"]


def test_variants_are_columns(tmp_path: Path) -> None:
    paths = [
        untrained(tmp_path / "a0"),
        untrained(tmp_path / "b0", walk=8),
        untrained(tmp_path / "a1", seed=1),
        untrained(tmp_path / "demo", preset="demo"),
    ]
    variants = group(map(Run, [*paths, paths[0]]))  # a directory that is given twice counts once
    assert [[run.path.name for run in variant.runs] for variant in variants] == [
        ["a0", "a1"],
        ["b0"],
        ["demo"],
    ]
    assert [variant.name for variant in variants[2:]] == ["C: preset demo"]
    assert [variant.name for variant in variants[:2]] == [
        "A: preset full, walk 4",
        "B: preset full, walk 8",
    ]
    assert [variant.name for variant in group(map(Run, paths[:3]))] == ["A: walk 4", "B: walk 8"]
    for path, p in zip(paths[:3], (0.5, 0.6, 0.7), strict=True):
        add_loss(path, kl=0.1, p=p)
        add_picture(path / "analyses" / "information_loss", "law")
    found = Page(report(paths[:3], tmp_path / "all.html"))
    assert "3 runs of 2 variants" in found.text
    assert "0.600 ± 0.141 0.600 0.480" in found.text
    assert "A: walk 4, seed 0" in found.text
    assert len(found.sources) == 3


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0.5], "0.50"),
        ([1.0, 2.0], "1.50 ± 0.71"),
        ([1.0, math.nan], "1.00 (1 of 2)"),
        ([math.nan], "–"),
        ([-math.inf, 1.0], "−∞"),
    ],
)
def test_spread(values: list[float], said: str) -> None:
    assert tables.spread(values, 2) == said


def test_counts_have_a_decimal_only_on_average() -> None:
    assert tables.spread([604], 0) == "604"
    assert tables.spread([604, 605], 0) == "604.5 ± 0.7"


# Warnings.

GOOD = {
    "tv_excess": 0.1,
    "slope": 1.0,
    "ess": 0.3,
    "sentences_in_use": 600.0,
    "tokens_in_use": 12.0,
}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({}, ""),
        ({"tv_excess": 0.2}, "total variation from it is 0.20"),
        ({"slope": 0.8}, "too evenly"),
        ({"slope": 1.2}, "too selectively"),
        ({"ess": 0.04}, "effective sample share is 4.0%"),
        ({"sentences_in_use": 100.0}, "Few sentences are in use: 100 of 728"),
        ({"tokens_in_use": 10.0}, "Tokens that are never used: 2 of 12"),
        (dict.fromkeys(GOOD, math.nan), ""),
    ],
)
def test_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, float], sentence: str
) -> None:
    monkeypatch.setattr(Run, "position", (5, 5))
    run = Run(untrained(tmp_path / "run"))
    numbers = {h.name: (GOOD | changed).get(h.source, math.nan) for h in findings.HEADLINES}
    said = findings.warnings(run, numbers)
    assert len(said) == bool(sentence)
    assert all(sentence in part for part in said)


def test_tokens_that_miss_the_sides_of_axes_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "position", (5, 5))
    path = untrained(tmp_path / "run")
    numbers = {h.name: GOOD.get(h.source, math.nan) for h in findings.HEADLINES}
    for recorded, expected in (("-0.5,", 0), (",-0.5", 0), (",-0.84", 1), (",-2.7", 1), (",", 0)):
        rows = [
            "step,phase,cycle,seconds,worth,worth_combined",
            "3,token_m_step,1,9," + recorded,
            "5,e_step,0,20,,",
        ]
        (path / "metrics.csv").write_text("\n".join(rows))
        said = findings.warnings(Run(path), numbers)
        assert len(said) == expected
        assert all(f"learned alone is worth {float(recorded[1:]):.1f} " in part for part in said)


def test_of_too_many_sentences_to_draw_few_are_in_use_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "position", (5, 5))
    good = GOOD | {"sentences_in_use": 2000.0, "tokens_in_use": 32.0}
    numbers = {h.name: good.get(h.source, math.nan) for h in findings.HEADLINES}
    for length, expected in ((7, 0), (3, 1)):  # 4,514,872 and 5,488 sentences
        run = Run(untrained(tmp_path / str(length), groups=",".join(["1"] * 32), max_length=length))
        few = dict(numbers, **{"sentences in use": 50.0})
        assert [part for part in findings.warnings(run, numbers) if "are in use" in part] == []
        assert (
            len([part for part in findings.warnings(run, few) if "are in use" in part]) == expected
        )


# How to reproduce.


@pytest.mark.parametrize(
    ("preset", "changed"),
    [
        ("full", {}),
        ("smoke", {"walk": 8, "groups": (3, 2), "hold_out": False}),
        (
            "demo",
            {
                "max_length": 4,
                "reward_floor": -50.0,
                "forward_sees": ("time",),
                "stray_sd": (0.1, 0.2),
            },
        ),
        ("paper", {"context": "x"}),
    ],
)
def test_the_command_gives_the_same_settings(
    tmp_path: Path, preset: str, changed: dict[str, Any]
) -> None:
    run = Run(untrained(tmp_path / "a run", seed=7, preset=preset, **changed))
    words = shlex.split(findings.commands(run)[0])
    assert words[:3] == ["plot-attractors", "fit", "hbv"]
    assert words[words.index("--seed") + 1] == "7"
    assert words.count("--set") == len(changed)
    given = settings.parse(words[i + 1] for i, word in enumerate(words) if word == "--set")
    again = untrained(tmp_path / "again", seed=7, preset=preset, **given)
    assert Run(again).config == run.config
    assert ("--preset" in words) == (preset != "full")


def test_a_setting_without_default_is_in_the_command(tmp_path: Path) -> None:
    run = Run(untrained(tmp_path / "run", program="table", data="animals.csv"))
    assert f"data={Path('animals.csv').absolute()}" in findings.commands(run)[0]


def test_the_command_of_a_program_that_is_gone(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run")
    text = (
        (run / "config.toml")
        .read_text()
        .replace('program = "hbv"', f'program = "{tmp_path / "gone.py"}"')
    )
    (run / "config.toml").write_text(text)
    (run / "environment.json").write_text(json.dumps({"command": "plot-attractors fit gone.py"}))
    assert findings.commands(Run(run))[0] == "plot-attractors fit gone.py"
    assert "plot-attractors fit gone.py" in Page(report(run)).text


# Figures.


def test_the_smallest_legible_file_is_taken(tmp_path: Path) -> None:
    fine, coarse = pictures.Detail(200, 1800, 80), pictures.Detail(0, 100, 20)
    add_picture(tmp_path, "a", noise=True)
    big = len(pictures.data_uri(tmp_path, "a", fine))
    assert pictures.data_uri(tmp_path, "a", fine).startswith("data:image/webp;base64,")
    assert len(pictures.data_uri(tmp_path, "a", coarse)) < big / 20
    (tmp_path / "a.svg").write_text("<svg/>")
    assert pictures.data_uri(tmp_path, "a", fine).startswith("data:image/svg+xml;base64,")
    assert pictures.data_uri(tmp_path, "a", coarse).startswith("data:image/webp")
    (tmp_path / "a.svg").write_text(f"<svg>{' ' * 200}</svg>")
    assert pictures.data_uri(tmp_path, "a", fine).startswith("data:image/webp")
    (tmp_path / "a.png").unlink()
    assert pictures.data_uri(tmp_path, "a", fine).startswith("data:image/svg+xml")
    assert fine.coarser(coarse) == coarse


def test_a_page_that_is_too_large_has_coarser_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = untrained(tmp_path / "run")
    add_picture(run / "analyses" / "mine", "noise", noise=True)
    before = report(run).stat().st_size
    monkeypatch.setattr(page, "LARGEST_PAGE", before * 2 // 3)
    assert report(run).stat().st_size <= before * 2 // 3


def test_an_animation_gives_way_to_the_view(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run")
    folder = run / "analyses" / "trajectories"
    add_picture(folder, "trajectories")
    Image.new("RGB", (4, 4)).save(folder / "convergence.gif")
    assert any(source.startswith("data:image/gif") for source in Page(report(run)).sources)
    text = json.dumps({"format": viewer.FORMAT, "evil": "</script><b>"})
    (folder / viewer.FILE).write_text(text)
    html = report(run).read_text()
    assert not any(
        source.startswith("data:image/gif") for source in Page(run / "report.html").sources
    )
    kept = re.search(r'<script type="application/json">(.*?)</script>', html)
    assert kept is not None
    assert json.loads(kept[1]) == json.loads(text)


def test_the_view_comes_first(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run")
    add_loss(run, kl=0.1, p=0.5)
    add_table(run, "trajectories", [{"t": 0}])
    assert "view-trajectories" not in Page(report(run)).ids
    (run / "analyses" / "trajectories" / viewer.FILE).write_text(
        json.dumps({"format": viewer.FORMAT})
    )
    found = Page(report(run))
    places = [
        found.ids.index(name)
        for name in ("view-trajectories", "headlines", "analysis-trajectories")
    ]
    assert places == sorted(places)
    assert "#view-trajectories" in found.links
    assert (run / "report.html").read_text().count('<div class="view"><script') == 1


def test_analyses_that_are_there_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Titles and captions are read from the text of a program: many take seconds to import."""
    run = untrained(tmp_path / "run")
    for name in registry.names("analyses"):
        add_picture(run / "analyses" / name, name)
    monkeypatch.setattr(findings.comparison, "numbers", lambda _: {"p": 0.5})  # of tables, not here
    imported: list[str] = []
    load = registry.load
    monkeypatch.setattr(
        registry,
        "load",
        lambda shelf, name: imported.append(f"{shelf}/{name}") or load(shelf, name),
    )
    text = Page(report(run)).text
    assert "Whether the trajectories of an input can be weighted into exact ones" in text
    assert "models/hbv" in imported
    assert [name for name in imported if name.startswith("analyses/")] == []


def test_a_caption_that_is_computed_is_found(tmp_path: Path) -> None:
    program = tmp_path / "mine.py"
    program.write_text(
        "STEPS = 7\nCAPTIONS = {'law': f'After {STEPS} steps.'}\ndef analyze(run, out): ...\n"
    )
    run = untrained(tmp_path / "run")
    add_picture(run / "analyses" / "mine", "law")
    (run / "analyses" / "mine" / PROGRAM_FILE).write_text(str(program))
    assert "After 7 steps." in Page(report(run)).text


# A browser.


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a short training with its trajectories."""
    path = fit("hbv", preset="smoke", out=tmp_path_factory.mktemp("browser") / "smoke")
    (result,) = analyze(path, ["trajectories"])
    assert result.error is None
    return report(path)


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser_.Browser]:
    if why := browser_.missing():
        pytest.skip(why)
    with browser_.browsing() as opened:
        yield opened


@pytest.fixture
def opened(chromium: browser_.Browser, written: Path) -> Iterator[browser_.Browser]:
    """The report in a window of a desk, with nothing wrong at the end."""
    chromium.resize(1200, 900)
    chromium.scheme("light")
    chromium.log("performance")
    chromium.open(written)
    yield chromium
    assert chromium.log("browser") == []
    asked = [address for address in chromium.requests() if not address.startswith("data:")]
    assert set(asked) == {written.resolve().as_uri()}


PLANE = ".view canvas.plane"


def picture(page: browser_.Browser) -> str:
    return str(page.run(f"return document.querySelector('{PLANE}').toDataURL()"))


def said(page: browser_.Browser, selector: str) -> str:
    return str(page.run("return document.querySelector(arguments[0]).textContent", selector))


def bring(page: browser_.Browser) -> None:
    page.run(
        f"document.querySelector('{PLANE}').scrollIntoView({{block: 'center', behavior: 'instant'}})"
    )


def test_the_slider_moves_the_states(opened: browser_.Browser) -> None:
    assert said(opened, ".view output") == "20 of T = 20"
    before = picture(opened)
    opened.type(".view input[type=range]", "\ue014\ue014")  # the right arrow key, twice
    assert said(opened, ".view output") == "22, 2 after T"
    after = picture(opened)
    assert after != before
    opened.point(".view input[type=range]", -opened.run(
        "return document.querySelector('.view input[type=range]').clientWidth / 4"
    ), 0, press=True)  # fmt: skip
    assert int(said(opened, ".view output").split()[0]) in range(8, 13)
    assert picture(opened) not in (before, after)


def test_play_runs_to_the_end(opened: browser_.Browser) -> None:
    opened.type(".view input[type=range]", "\ue010")  # the End key
    assert said(opened, ".view output") == "40, 20 after T"
    opened.type(".view input[type=range]", "\ue012\ue012\ue012")
    opened.click(".view .play")
    assert "Pause" in said(opened, ".view .play")
    opened.wait("return document.querySelector('.view .play').textContent.includes('Play')")
    assert said(opened, ".view output") == "40, 20 after T"


def test_colours_follow_the_label(opened: browser_.Browser) -> None:
    before = picture(opened)
    names = opened.run(
        "return [...document.querySelectorAll('.view .labels option')].map(o => o.textContent)"
    )
    tokens = ["token A or B", "token C or D", "token E or F"]
    assert names == ["class", "branch1", "branch2", "branch3", "sentence", *tokens]
    choose = (
        "const s = document.querySelector(arguments[0]); s.selectedIndex = arguments[1];"
        "s.dispatchEvent(new Event('change'))"
    )
    opened.run(choose, ".view .labels", 1)
    assert picture(opened) != before
    assert re.fullmatch(r"left \(\d+\)right \(\d+\)embedding.*", said(opened, ".view .legend"))
    opened.run(choose, ".view .groups", 2)
    assert re.fullmatch(
        r"\d+ training inputs", said(opened, ".view .groups option:nth-child(3)").strip()
    )
    before = picture(opened)
    opened.click(".view .legend button")
    assert picture(opened) != before


def test_more_values_than_colours_are_summed_up(opened: browser_.Browser) -> None:
    legend = opened.run(
        "const view = views[0]; view.label = null;"
        "view.data.labels[0].values = [...Array(30).keys()].map(String);"
        "view.data.labels[0].codes = view.data.labels[0].codes.map((_, i) => i % 25); "
        "view.labels.selectedIndex = 0;"
        "view.recolour(); return [...view.legend.querySelectorAll('button')].map(b => "
        "b.textContent)"
    )
    assert len(legend) == 10
    assert legend[0].startswith("0 (")
    assert legend[-1].startswith("16 other values (")


def test_pointing_tapping_and_keys_tell_of_a_state(opened: browser_.Browser) -> None:
    assert "Point at a state" in said(opened, ".view .card")
    bring(opened)
    place = opened.run(
        "const v = views[0]; const [x, y] = v.place(v.k, 3);"
        "return [x - v.canvas.clientWidth / 2, y - v.canvas.clientHeight / 2]"
    )
    opened.point(PLANE, *place)
    card = said(opened, ".view .card")
    assert "Sentence read at step 20: " in card
    assert "decoded from the state: " in card
    assert opened.run("return document.querySelectorAll('.view .strips canvas').length") == 3
    opened.point(PLANE, -place[0] or 300, 200)  # away from it
    opened.type(PLANE, "\ue014\ue014")  # arrow keys
    assert opened.run("return views[0].chosen") == 1
    second = opened.run("return views[0].data.inputs[1]")
    assert second.startswith("class ")
    assert f"Input: {second} (branch1 " in said(opened, ".view .card")  # the class once
    opened.type(PLANE, "\ue00c")  # Escape
    assert "Point at a state" in said(opened, ".view .card")
    opened.point(PLANE, *place, press=True, kind="touch")
    assert "Sentence read at step 20: " in said(opened, ".view .card")


def test_a_class_of_a_table_is_told(opened: browser_.Browser) -> None:
    card = opened.run(
        "const v = views[0]; v.data.inputs = v.data.inputs.map((_, i) => `row ${i}`); v.choose(0);"
        "return [v.card.textContent, v.data.labels[0].values[v.data.labels[0].codes[0]]]"
    )
    assert card[0].startswith(f"Input: row 0 (class {card[1]}, branch1 ")


def test_bits_are_those_of_the_input(opened: browser_.Browser, written: Path) -> None:
    """The strip of the input, read back from its pixels."""
    opened.type(PLANE, "\ue014")
    pixels = opened.run(
        "const c = document.querySelector('.view .strips canvas');"
        "return [...c.getContext('2d').getImageData(0, 0, c.width, 1).data].filter((_, i) => i % 4 "
        "== 0)"
    )
    view = json.loads((written.parent / "analyses" / "trajectories" / viewer.FILE).read_text())
    packed = np.frombuffer(base64.b64decode(view["bits"]["inputs"]), dtype=np.uint8).reshape(
        len(view["inputs"]), -1
    )
    bits = np.unpackbits(packed, axis=-1)[0, : view["bits"]["count"]]
    assert [value // 255 for value in pixels] == bits.tolist()


def test_pictures_of_a_state_are_those_of_its_trajectory(opened: browser_.Browser) -> None:
    """A sheet of two columns, whose k-th picture of trajectory i is number 3i + k."""
    said = opened.run(
        "const v = views[0]; v.data.bits = null; v.data.pictures = {names: ['a', 'b', 'c'], "
        "columns: 2, rows: 9};"
        "v.choose(3); return [...v.card.querySelectorAll('.pictures i')].map("
        "p => [p.ariaLabel, p.style.backgroundSize, p.style.backgroundPosition])"
    )
    assert [name for name, _, _ in said] == ["a", "b", "c"]
    assert {size for _, size, _ in said} == {"200% 900%"}
    assert [place for _, _, place in said] == ["100% 50%", "0% 62.5%", "100% 62.5%"]


def test_dark_is_dark(opened: browser_.Browser) -> None:
    light = picture(opened)
    opened.scheme("dark")
    opened.wait("return getComputedStyle(document.body).backgroundColor === 'rgb(22, 24, 29)'")
    opened.wait(f"return document.querySelector('{PLANE}').toDataURL() !== arguments[0]", light)


def test_a_phone_has_no_page_to_move_sideways(opened: browser_.Browser, written: Path) -> None:
    opened.resize(390, 844, 2)
    opened.open(written)
    assert opened.run("return document.documentElement.scrollWidth") <= 390
    assert (
        opened.run(f"return document.querySelector('{PLANE}').getBoundingClientRect().right") <= 390
    )


def test_paper_shows_the_state_at_t_without_controls(opened: browser_.Browser) -> None:
    assert opened.pdf().startswith(b"%PDF")
    opened.devtools("Emulation.setEmulatedMedia", media="print")
    shown = opened.run(
        "return ['.view .controls', 'nav', '.view canvas.plane'].map("
        "s => getComputedStyle(document.querySelector(s)).display !== 'none')"
    )
    opened.devtools("Emulation.setEmulatedMedia", media="")
    assert shown == [False, False, True]

"""The interactive view in a report, in a browser where there is one."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from plot_attractors.report import report
from plot_attractors.runs import Run, fit, registry
from plot_attractors.runs.analyze import analyze

from .. import browser as browser_
from ..small import untrained


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a short training with its trajectories."""
    path = fit("hbv", preset="smoke", out=tmp_path_factory.mktemp("browser") / "smoke")
    (result,) = analyze(path, ["trajectories"])
    assert result.error is None
    return report(path)


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser_.Browser]:
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("there is no browser here: apt-get install chromium-driver")
    with browser_.browsing() as opened:
        yield opened


@pytest.fixture
def opened(chromium: browser_.Browser, written: Path) -> Iterator[browser_.Browser]:
    """The report in a window of a desk, with nothing wrong at the end."""
    chromium.resize(1200, 900)
    chromium.call("url", url=written.resolve().as_uri())
    yield chromium
    assert chromium.console() == []


PLANE = ".view canvas.plane"


def picture(page: browser_.Browser) -> str:
    return str(page.run(f"return document.querySelector('{PLANE}').toDataURL()"))


def text(page: browser_.Browser, selector: str) -> str:
    return str(page.run("return document.querySelector(arguments[0]).textContent", selector))


def test_the_slider_and_play_move_the_states(opened: browser_.Browser) -> None:
    slider = ".view input[type=range]"
    assert text(opened, ".view output") == "20 of T = 20"
    before = picture(opened)
    opened.on(slider, "value", text="\ue014\ue014")  # the right arrow key, twice
    assert text(opened, ".view output") == "22, 2 after T"
    after = picture(opened)
    assert after != before
    opened.on(slider, "value", text="\ue010\ue012\ue012\ue012")  # End, and left
    assert text(opened, ".view output") == "37, 17 after T"
    opened.on(".view .play", "click")
    assert "Pause" in text(opened, ".view .play")
    opened.wait("return document.querySelector('.view .play').textContent.includes('Play')")
    assert text(opened, ".view output") == "40, 20 after T"


def test_the_live_model_is_the_forward_step(opened: browser_.Browser, written: Path) -> None:
    """Mean and standard deviation, at random states and at inputs, beside torch."""
    model = Run(written.parent).model
    torch.manual_seed(0)
    z = torch.cat([torch.randn(20, model.latent), model.embeddings()[:5]])
    result = torch.tensor(
        opened.run(
            "return arguments[0].map((z) => views[0].live.step(Float64Array.from(z))"
            ".map((part) => [...part]))",
            z.tolist(),
        )
    )
    to = model.transition(z, 0.0, z)
    assert torch.allclose(result[:, 0], to.mean, rtol=0, atol=1e-4)
    assert torch.allclose(result[:, 1], to.stddev, rtol=0, atol=1e-4)
    near = opened.run(
        "return [...views[0].live.nearest(Float64Array.from(arguments[0]))]", z[-1].tolist()
    )
    assert near[1] < 1e-4


def test_an_input_is_run_again_and_states_fall_where_they_are_dropped(
    opened: browser_.Browser,
) -> None:
    opened.run("views[0].pinned = true; views[0].choose(2)")
    before = picture(opened)
    opened.on(".view .again", "click")
    opened.on(".view input[type=range]", "value", text="\ue010")
    shown = text(opened, ".view .card")
    assert "100 trajectories of" in shown
    assert re.search(r"\d+ of them give (a response after \d+ steps|no response)", shown)
    assert "Nearest sentences at step 40" in shown
    shares = opened.run(
        "return [...document.querySelectorAll('.view .shares span:last-child')]"
        ".map((s) => Number(s.textContent))"
    )
    assert 0 < sum(shares) <= 1.01
    assert picture(opened) != before
    opened.run("views[0].pinned = false; views[0].choose(-1)")
    opened.on(".view .drop", "click")
    opened.run(f"document.querySelector('{PLANE}').scrollIntoView({{block: 'center'}})")
    opened.press(PLANE, 40, 30)
    place = opened.run(
        "const v = views[0]; return v.at(v.runs.all[0].places[0])"
        ".map((x, k) => x - [v.canvas.clientWidth, v.canvas.clientHeight][k] / 2)"
    )
    assert place == pytest.approx([40, 30], abs=2)
    assert "100 states dropped here" in text(opened, ".view .card")
    opened.on(PLANE, "value", text="\ue00c")  # Escape
    assert opened.run("return views[0].runs") is None


def test_models_whose_step_needs_more_than_the_state_are_not_live() -> None:
    program = registry.load("analyses", "trajectories")
    for settings, live in (({}, True), ({"dynamics.sees": ("time",)}, False)):
        model = untrained(**settings).model
        z = torch.randn(4, model.latent)
        plane = torch.eye(model.latent)[:, :2]
        made = program.live_model(model, z, z, z[0], plane)
        assert (made is not None) == live
    assert made is None

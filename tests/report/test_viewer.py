"""The interactive view in a report, in a browser where there is one."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from plot_attractors.model.networks import Dynamics
from plot_attractors.report import report, viewer
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


STEPS = """const live = arguments[1] ? new LiveModel(arguments[1]) : views[0].live;
return arguments[0].map((z) => live.step(Float64Array.from(z)).map((part) => [...part]))"""


def compare_steps(page: browser_.Browser, model: Any, live: Any = None) -> None:
    """Mean and standard deviation, at states early and late, beside torch; in double precision, as
    in the page.
    """
    torch.manual_seed(0)
    z0 = torch.cat([torch.randn(20, model.latent), model.embeddings()[:5]])
    z = torch.cat([model.initial(z0), model.at_rest(z0), model.trajectories(z0)[-1]])
    result = torch.tensor(page.run(STEPS, z.tolist(), live), dtype=torch.float64)
    to = model.double().transition(z.double(), 0.0, z0)
    torch.testing.assert_close(result[:, 0], to.mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(result[:, 1], to.stddev, rtol=1e-5, atol=1e-6)


def test_the_live_model_is_the_forward_step(opened: browser_.Browser, written: Path) -> None:
    model = Run(written.parent).model
    z0, z_hat = opened.run("const l = views[0].live; return [[...l.start(1)], [...l.embeddings]]")
    start = model.initial(torch.tensor(z0[: model.latent]))
    assert z0 == pytest.approx(start.tolist(), rel=1e-5)
    dropped = opened.run("return [...views[0].live.stateAt([0.5, 0])]")
    assert len(dropped) == len(z0)
    assert not any(dropped[model.latent :])
    near = opened.run(
        "return [...views[0].live.nearest(Float64Array.from(arguments[0]))]",
        [*z_hat[model.latent : 2 * model.latent], *[9.0] * (len(z0) - model.latent)],
    )
    assert near == [1, 0]
    compare_steps(opened, model)


@pytest.mark.parametrize("axes", [False, True])
@pytest.mark.parametrize("memory", [0.0, 2.0])
def test_live_models_of_one_head_and_of_one_for_each_axis(
    opened: browser_.Browser, axes: bool, memory: float
) -> None:
    """Of networks far from how they begin, whose means reach their bound and stay below it."""
    settings: Any = {"token_axes": axes, "dynamics.memory": memory}
    model = untrained(**settings).model
    torch.manual_seed(0)
    for parameter in model.forward_dynamics.parameters():
        parameter += 0.2 * torch.randn_like(parameter)
    model.prepare(torch.randn(1, model.latent).expand(2, -1), model.sentences.expand(2, -1, -1))
    model.forward_dynamics.bias += torch.randn_like(model.forward_dynamics.bias)
    compare_steps(opened, model, viewer._live(live_model(model)))


ALL_RUN = "return views[0].runs.all.length === 100"


def test_an_input_is_run_again_and_states_fall_where_they_are_dropped(
    opened: browser_.Browser,
) -> None:
    opened.run("views[0].pinned = true; views[0].choose(2)")
    before = picture(opened)
    opened.run(f"document.querySelector('{PLANE}').focus()")
    opened.on(".view .again", "click")
    opened.wait(ALL_RUN)
    assert opened.run("return document.activeElement.className") == "again"  # made anew meanwhile
    opened.on(".view input[type=range]", "value", text="\ue010")
    shown = text(opened, ".view .card")
    assert "100 trajectories of" in shown
    assert re.search(r": (\d+ respond, after \d+ steps|none responds)", shown)
    assert "Nearest sentences at step 40" in shown
    shares = opened.run(
        "return [...document.querySelectorAll('.view .shares span:last-child')]"
        ".map((s) => Number(s.textContent))"
    )
    assert 0 < sum(shares) <= 1.01
    assert picture(opened) != before
    opened.on(PLANE, "value", text="\ue014")  # the right arrow key: another input, not run yet
    assert "trajectories of" not in text(opened, ".view .card")
    opened.on(".view .drop", "click")
    opened.run(f"document.querySelector('{PLANE}').scrollIntoView({{block: 'center'}})")
    opened.press(PLANE, 40, 30)
    opened.wait(ALL_RUN)
    place = opened.run(
        "const v = views[0]; return v.at(v.runs.all[0].places[0])"
        ".map((x, k) => x - [v.canvas.clientWidth, v.canvas.clientHeight][k] / 2)"
    )
    assert place == pytest.approx([40, 30], abs=2)
    assert "100 states dropped here" in text(opened, ".view .card")
    opened.on(PLANE, "value", text="\ue014\ue007")  # the place to the right, Enter
    opened.wait(ALL_RUN)
    u, v, x, y = opened.run("const w = views[0]; return [...w.runs.all[0].places[0], ...w.cursor]")
    assert [u, v] == pytest.approx([x, y], abs=1e-3)
    opened.on(".view .drop", "value", text="\ue00c")  # Escape
    assert opened.run("return views[0].runs") is None
    right, up = opened.run(
        "const w = views[0]; return [w.at([1, 0])[0] - w.at([0, 0])[0],"
        " w.at([0, 0])[1] - w.at([0, 1])[1]]"
    )
    assert right == pytest.approx(up)  # one scale


def live_model(model: Any) -> Any:
    z = torch.randn(4, model.latent)
    plane = torch.eye(model.latent)[:, :2]
    return registry.load("analyses", "trajectories").live_model(model, z, z, z[0], plane)


def test_models_with_other_dynamics_are_not_live() -> None:
    model = untrained().model
    assert live_model(model) is not None
    model.forward_dynamics = Dynamics(model.latent, model.steps, memory=model.memory.size)
    assert live_model(model) is None

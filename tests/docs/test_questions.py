"""Questions of readers: each leads from the page of questions to a section that answers it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "questions.md").read_text(encoding="utf-8")
LINKS = dict(re.findall(r"^\| (.+?\?) \| \[.+?\]\((.+?)\) \|$", PAGE, re.MULTILINE))

# beginning of a question → the page that answers it, and words of the answer
ANSWERS = {
    "Where is the equation of the forward-looking flow": (
        "explanation/equations.md", "plot_attractors.gflownet.flows.SampledFlow"),
    "What is the noise floor": ("explanation/judging.md", "the same statistic of as many exact"),
    "What does the default assume": ("explanation/deviations.md", "sentence policy P(s"),
    "How is critical perturbation": ("explanation/judging.md", "half of the states that return"),
    "What is the unit of diversity": ("explanation/judging.md", "Its unit is nats"),
    "How do I change the reward": ("how-to/variants.md", "subclass of"),
    "How do I change the prior": ("tutorials/variant.md", "log_weight"),
    "How do I resume": ("how-to/settings.md", "--resume"),
    "How do I add an analysis": ("how-to/analyses.md", "measure(run, config)"),
    "Which GFlowNet loss": ("how-to/trajectory-balance.md", "`VarGrad(K)`"),
    "Which loss for programs of one step": ("how-to/one-step-losses.md", "`DetailedBalance`"),
    "How do I use my own table": ("how-to/tables.md", "plot-attractors fit table"),
}  # fmt: skip


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower().replace("*", "")).strip().replace(" ", "-")


def sections(text: str) -> dict[str, str]:
    """Sections by anchor, each up to the next heading that is not below it."""
    text = re.sub(r"^```.*?^```", lambda m: m[0].replace("\n#", "\n "), text, flags=re.M | re.S)
    parts = re.split(r"^(#+) (.+)$", text, flags=re.MULTILINE)
    found = {}
    for k in range(1, len(parts), 3):
        depth, end = len(parts[k]), k + 3
        while end < len(parts) and len(parts[end]) > depth:
            end += 3
        found[slug(parts[k + 1])] = "".join(parts[k + 2 : end])
    return found


@pytest.mark.parametrize("question", LINKS)
def test_every_question_leads_to_a_section(question: str) -> None:
    page, _, anchor = LINKS[question].partition("#")
    text = (DOCS / page).read_text(encoding="utf-8")
    assert not anchor or anchor in sections(text), f"{page} has no section {anchor}"


@pytest.mark.parametrize("beginning", ANSWERS)
def test_the_section_answers(beginning: str) -> None:
    (link,) = [link for question, link in LINKS.items() if question.startswith(beginning)]
    page, phrase = ANSWERS[beginning]
    target, _, anchor = link.partition("#")
    assert target == page
    assert phrase in sections((DOCS / page).read_text(encoding="utf-8"))[anchor]

"""What a report says of runs in words and numbers: headline numbers beside the paper's, warnings,
how to reproduce.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple

from plot_attractors.language import MOST_SENTENCES, Language
from plot_attractors.report.variants import name_of
from plot_attractors.runs import DEFAULT_INFERENCE, Run, registry, settings
from plot_attractors.runs import analyze as analysis
from plot_attractors.runs import compare as comparison

__all__ = [
    "HEADLINES",
    "IN_SHORT",
    "PAPER_DATA",
    "Headline",
    "commands",
    "data_of",
    "machine",
    "missing_analyses",
    "numbers",
    "report_command",
    "shown_path",
    "total_of",
    "warnings",
]

Data = Literal["hbv", "dsprites"]
PAPER_DATA: dict[Data, str] = {"hbv": "HBV", "dsprites": "dSprites"}
PAPER_TREE = (6, 128)  # generations, bits
DIVERSITY: dict[Data, str] = {
    "hbv": "−18.198 [−34.199, −5.203]",
    "dsprites": "−9.415 [−16.231, −3.832]",
}
DIVERSITY_SIGMA: dict[Data, str] = {"hbv": "0.088", "dsprites": "0.085"}


class Headline(NamedTuple):
    """A number that a report shows beside the paper's.

    - ``source``: a number of `comparison.numbers`;
    - ``name``, ``meaning``: what it is, and what to see in it; ``decimals``: how it is shown;
    - ``paper``: the paper's value, by data set.
    """

    source: str
    name: str
    meaning: str
    paper: Mapping[Data, str] = {}
    decimals: int = 3


HEADLINES = (
    Headline(
        "p",
        "p of information loss",
        "bits that a sentence loses follow a geometric law with this parameter; ½ says that "
        "sentences are sampled in "
        "proportion to what they tell",
        {"hbv": "0.480"},
    ),
    Headline(
        "kl",
        "KL from Geometric(½), nats",
        "how far the law of the bits lost is from that law; 0 is a perfect fit",
        {"hbv": "0.041"},
    ),
    Headline(
        "kl_exact",
        "the same of exact samples, nats",
        "what the model's own posterior allows; the rest is the sampler",
    ),
    Headline(
        "p_held_out",
        "p, held-out classes",
        "the same for classes that training never saw",
        {"hbv": "0.621"},
    ),
    Headline(
        "kl_held_out", "KL, held-out classes, nats", "the same for these classes", {"hbv": "0.183"}
    ),
    Headline(
        "kl_5T",
        "KL after 5T steps, nats",
        "training looks at T only; still small where sentences are attractors",
    ),
    Headline(
        "p_negative",
        "share of losses below 0",
        "a sentence that decodes better than the input's own state",
    ),
    Headline(
        "tv_excess",
        "total variation from the exact posterior, above its noise floor",
        "P(sentence | input) of the trajectories against the exact one; 0 is perfect",
    ),
    Headline(
        "ess",
        "effective sample share",
        "of importance-weighted trajectories; 1 is perfect",
        decimals=2,
    ),
    Headline(
        "slope",
        "slope of log-frequency on log-reward",
        "1 where frequencies follow the reward",
        decimals=2,
    ),
    Headline(
        "recovery",
        "recovery from a push half way",
        "share of states that come back to their meaning after a push half way to another; near 1 "
        "for attractors",
    ),
    Headline(
        "distance",
        "distance to the nearest embedding, in ε√d",
        "about 1 for exact samples: states end at sentences",
        decimals=2,
    ),
    Headline(
        "sentences_in_use",
        "sentences in use",
        "said more than a tenth as often as an equal share",
        decimals=0,
    ),
    Headline("tokens_in_use", "tokens in use", "that some sentence in use holds", decimals=0),
    Headline(
        "accuracy",
        "features decoded from sentences",
        "share of features that are rightly decoded from a sentence; of a tree, its first four "
        "levels",
    ),
    Headline(
        "accuracy_held_out",
        "features decoded, held-out inputs",
        "of inputs that neither model nor decoder saw",
    ),
    Headline(
        "composed",
        "features decoded from composed sentences",
        "sentences are put together one feature at a time; as good as the row above where tokens "
        "compose",
    ),
    Headline(
        "topographic_similarity",
        "topographic similarity, Spearman's ρ",
        "inputs that differ more are described by sentences that differ more",
        {"dsprites": "0.525"},
    ),
    Headline(
        "receiver_accuracy",
        "receiver's accuracy",
        "share of targets that the receiver finds among the distractors",
    ),
    Headline(
        "receiver_accuracy_held_out",
        "receiver's accuracy, held-out inputs",
        "among distractors that are held out, too",
    ),
    Headline(
        "diversity",
        "sample diversity, nats",
        "entropy of what is decoded from descriptions of one input, mean over inputs, by 256 of "
        "them (k = 1); it "
        "depends on their number, which the paper does not tell",
        DIVERSITY,
    ),
    Headline(
        "diversity_sigma",
        "σ of sample diversity",
        "standard deviation of a Gaussian of this entropy",
        DIVERSITY_SIGMA,
    ),
    Headline(
        "diversity_16",
        "sample diversity by 16 descriptions, nats",
        "the same by few of them, with the tenth nearest",
        DIVERSITY,
    ),
    Headline(
        "diversity_16_sigma",
        "σ of sample diversity by 16",
        "of a Gaussian of this entropy",
        DIVERSITY_SIGMA,
    ),
)

IN_SHORT = ("p", "kl", "recovery")  # sources of the numbers that stand beside what was fitted


# Numbers.


def data_of(run: Run) -> Data | None:
    """The data set of the paper that a run was trained on, told by its settings; None for any other
    data.

    Vectors of another depth or number of bits, as in the preset smoke, are other data.
    """
    table = run.config["model"]
    if {"depth", "bits"} <= table.keys() and table.get("data", "hbv") == "hbv":
        return "hbv" if (table["depth"], table["bits"]) == PAPER_TREE else None
    return (
        "dsprites"
        if "dsprites" in name_of(run.program_name) or table.get("data") == "dsprites"
        else None
    )


def numbers(run: Run) -> tuple[dict[str, float], str]:
    """Headline numbers by name, NaN where missing, and the sentence that says which table cannot be
    read, if any.
    """
    try:
        known, problem = comparison.numbers(run), ""
    except ValueError as error:
        known, problem = {}, str(error)
    return {headline.name: known.get(headline.source, math.nan) for headline in HEADLINES}, problem


def total_of(headline: Headline, run: Run) -> int | None:
    """All sentences or tokens, of a headline number that counts those in use."""
    language = _language(run)
    if language is None:
        return None
    return {"sentences_in_use": language.count, "tokens_in_use": language.tokens}.get(
        headline.source
    )


def _language(run: Run) -> Language | None:
    """The language that the settings describe, where they do."""
    fields = [
        field.name for field in dataclasses.fields(Language) if field.name != "token_costs"
    ]  # which are learned
    table = run.config["model"]
    if not set(fields) <= table.keys():
        return None
    try:
        return settings.from_table(Language, {name: table[name] for name in fields})
    except ValueError:
        return None


# Warnings.

SHORT = {
    "smoke": "seconds: it shows that all parts work, and no number of it means anything",
    "demo": "minutes",
}
MOST_EXCESS = 0.15
SLOPES = (0.85, 1.15)
LEAST_ESS = 0.05
FEW_SENTENCES = 0.25  # of all
USUAL_WORTH = -0.5  # of tokens of sprites, at least
LEAST_WORTH = -0.7  # where axes mixed, it was -2.7; where y was on two axes, -0.84


def warnings(run: Run, found: Mapping[str, float]) -> list[str]:
    """Sentences on what a reader should know before reading on; `found` are the headline
    numbers.
    """
    by_source = {h.source: found[h.name] for h in HEADLINES}
    of_run = [*_unfinished(run), *_other_version(run), *_short(run), *_mixing(run)]
    return [*of_run, *_few(run, by_source), *_miscalibrated(by_source)]


def _unfinished(run: Run) -> list[str]:
    try:
        position, total = run.position
    except ValueError as error:
        return [f"{str(error)[:1].upper()}{str(error)[1:]}."]
    return (
        []
        if position >= total
        else [f"The run is unfinished: {position:,} of {total:,} updates are done."]
    )


def _other_version(run: Run) -> list[str]:
    said = []
    version = run.environment.get("versions", {}).get("plot-attractors")
    with contextlib.suppress(metadata.PackageNotFoundError):
        installed = metadata.version("plot-attractors")
        if version is not None and version != installed:
            said.append(
                f"Trained with plot-attractors {version}, and this report was written with "
                f"{installed}."
            )
    for part, shelf, program in (
        ("model", "models", run.program_name),
        ("inference", "inference", run.inference_name),
    ):
        said += _other_settings(run, part, shelf, program)
    if run.environment.get("dirty"):
        said.append("Trained with changes to the code that no commit holds.")
    elif changed := _changed(run):
        said.append(f"Changed since the training: {' and '.join(changed)}.")
    return said


def _other_settings(run: Run, part: str, shelf: Any, program: str) -> list[str]:
    """Whether the program of today has the settings of the run."""
    try:
        config = registry.load(shelf, program).Config
        settings.from_table(config, run.config[part])
    except ValueError as error:
        return [f"The run does not fit the {part} program of today: {error}."]
    new = [field.name for field in dataclasses.fields(config) if field.name not in run.config[part]]
    if new:
        return [
            f"The {part} program has settings today that the run does not know: {', '.join(new)}."
        ]
    return []


def _changed(run: Run) -> list[str]:
    """Files of the two programs that differ from the commit of the training, by git."""
    commit = run.environment.get("commit")
    root = Path(__file__).resolve().parents[2]
    if not commit or not (root / ".git").exists():
        return []
    files = []
    for shelf, program in (("models", run.program_name), ("inference", run.inference_name)):
        with contextlib.suppress(ValueError):
            path = registry.find("models" if shelf == "models" else "inference", program)
            if path.is_relative_to(root):
                files.append(str(path.relative_to(root)))
    if not files:
        return []
    command = ["git", "-C", str(root), "diff", "--name-only", str(commit), "--", *files]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):  # a commit of another clone
        return []
    return done.stdout.split()


def _short(run: Run) -> list[str]:
    if run.preset not in SHORT:
        return []
    return [f"A short training: the preset {run.preset} takes {SHORT[run.preset]}."]


def _mixing(run: Run) -> list[str]:
    metrics = run.metrics()
    if "worth_combined" not in metrics or metrics["worth_combined"].isna().all():
        return []
    worth = float(metrics["worth_combined"].dropna().iloc[-1])
    if worth >= LEAST_WORTH:
        return []
    return [
        f"What tokens learned alone is worth {worth:.1f} (figure training; sprites: "
        f"{USUAL_WORTH:g} or more): they "
        "miss much of what the encoder knows, as they do where axes mix what varies, or share it. "
        "Try another seed."
    ]


def _few(run: Run, found: Mapping[str, float]) -> list[str]:
    language = _language(run)
    sentences, tokens = found["sentences_in_use"], found["tokens_in_use"]
    said: list[str] = []
    if language is None:
        return said
    if (
        sentences < FEW_SENTENCES * language.count <= FEW_SENTENCES * MOST_SENTENCES
    ):  # of more, few are ever drawn
        said.append(f"Few sentences are in use: {sentences:.0f} of {language.count:,}.")
    if tokens < language.tokens:
        said.append(
            f"Tokens that are never used: {language.tokens - tokens:.0f} of {language.tokens}."
        )
    return said


def _miscalibrated(found: Mapping[str, float]) -> list[str]:
    said = []
    if found["tv_excess"] > MOST_EXCESS:
        said.append(
            f"Trajectories do not sample the posterior well: their total variation from it is "
            f"{found['tv_excess']:.2f} "
            f"above the noise floor (good: below {MOST_EXCESS})."
        )
    if not math.isnan(found["slope"]) and not SLOPES[0] <= found["slope"] <= SLOPES[1]:
        said.append(
            f"Sentences are said {'too evenly' if found['slope'] < 1 else 'too selectively'}: the "
            f"slope of "
            f"log-frequency on log-reward is {found['slope']:.2f} (good: {SLOPES[0]} to "
            f"{SLOPES[1]})."
        )
    if found["ess"] < LEAST_ESS:
        said.append(
            f"Importance weights are uneven: the effective sample share is {found['ess']:.1%} "
            f"(good: 5 % or more)."
        )
    return said


def missing_analyses(run: Run, path: str) -> list[str]:
    """A sentence on every analysis of the shelf that the run at `path` lacks: it does not apply, or
    how to make it.
    """
    said, to_make = [], []
    for name in registry.names("analyses"):
        if (run.path / "analyses" / name).is_dir():
            continue
        try:
            program = registry.load("analyses", name)
            applies = analysis.applies(program, run)
        except Exception as error:  # of a program or a model, of any kind
            said.append(
                f"{name} cannot be made: {' '.join(str(error).split()) or type(error).__name__}."
            )
            continue
        if applies:
            to_make.append(name)
        else:
            asked = " ".join((program.applies.__doc__ or "").split()).partition(". ")[0].rstrip(".")
            why = (
                f", which asks {asked[0].lower()}{asked[1:]}"
                if asked.startswith("Whether ")
                else ""
            )
            said.append(f"{name} does not apply to this model{why}.")
    if to_make:
        command = shlex.join(["plot-attractors", "analyze", path, *to_make])
        said.append(
            f"Not made, or failed: {', '.join(to_make)}. The command that makes them, or says why "
            f"not: {command}"
        )
    return said


# How to reproduce.


def shown_path(run: Run) -> str:
    """Path of a run as it is shown: relative to the working directory where it lies below."""
    with contextlib.suppress(ValueError, OSError):
        return str(run.path.resolve().relative_to(Path.cwd()))
    return str(run.path)


def commands(run: Run) -> list[str]:
    """The commands that train, analyse and report the run anew, with the settings in which it
    differs from its preset.

    Where a program is gone, the training's command is the one that was given then.
    """
    path = shown_path(run)
    try:
        fit = ["plot-attractors", "fit", run.program_name, *_options(run), "--out", path]
    except (ValueError, TypeError):
        fit = shlex.split(str(run.environment.get("command", "")))
    rest = [["plot-attractors", "analyze", path], ["plot-attractors", "report", path]]
    return [shlex.join(command) for command in (fit, *rest) if command]


def report_command(runs: Sequence[Run]) -> str:
    """The command that reports several runs."""
    return shlex.join(["plot-attractors", "report", *map(shown_path, runs), "--out", "report.html"])


def machine(run: Run) -> dict[str, Any]:
    """Commit, versions, machine and times of a training."""
    environment = run.environment
    commit = environment.get("commit")
    if commit and environment.get("dirty"):
        commit = f"{commit}, with changes"
    facts = {
        "commit": commit,
        "python": environment.get("python"),
        **environment.get("versions", {}),
    }
    facts |= {
        key: environment.get(key)
        for key in ("platform", "processors", "threads", "device", "started", "ended")
    }
    return {key: value for key, value in facts.items() if value is not None}


def _options(run: Run) -> list[str]:
    options = ["--seed", str(run.seed)]
    default = str(
        getattr(registry.load("models", run.program_name), "INFERENCE", DEFAULT_INFERENCE)
    )
    if run.inference_name != registry.identifier("inference", default):
        options += ["--inference", run.inference_name]
    if run.preset != "full":
        options += ["--preset", run.preset]
    if isinstance(threads := run.environment.get("threads"), int):
        options += ["--threads", str(threads)]
    if run.environment.get("device", "cpu") != "cpu":
        options += ["--device", "cuda"]
    for part, program in (
        ("model", registry.load("models", run.program_name)),
        ("inference", registry.load("inference", run.inference_name)),
    ):
        table = run.config[part]
        needed = {
            field.name: table[field.name]
            for field in dataclasses.fields(program.Config)
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }
        before = settings.to_table(
            settings.from_table(program.Config, needed | program.PRESETS.get(run.preset, {}))
        )
        for key, value in table.items():
            if key in needed or before.get(key) != value:
                options += ["--set", f"{key}={_plain(value)}"]
    return options


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)

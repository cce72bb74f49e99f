"""What a report says of runs: headline numbers, warnings, and which analyses are missing."""

from __future__ import annotations

import contextlib
import math
import shlex
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from plot_attractors.language import MOST_SENTENCES, Language
from plot_attractors.measures.registry import METRICS, PAPER_DATA
from plot_attractors.runs import Run, registry, trust
from plot_attractors.runs import analyze as analysis
from plot_attractors.runs import numbers as numbers_
from plot_attractors.runs.settings import flatten, from_table, to_table
from plot_attractors.runs.variants import fitted_name

__all__ = [
    "HEADLINES", "data_of", "missing_analyses", "numbers", "summary", "terms", "total_of",
    "warnings",
]  # fmt: skip

_HEADLINES = """
    p kl kl_exact kl_control p_held_out kl_held_out kl_5T p_negative tv_extrapolated tv_brownian
    tv_encoder tv_excess ess_512 slope recovery recovery_control fixed_points distance
    sentences_in_use tokens_in_use accuracy accuracy_held_out composed topographic_similarity
    language_compositionality receiver_accuracy receiver_accuracy_held_out diversity
    diversity_sigma diversity_16 diversity_16_sigma
"""
HEADLINES = [METRICS[name] for name in _HEADLINES.split()]
PAPER_TREE = (6, 128)  # generations, bits


# Numbers.


def data_of(run: Run) -> str | None:
    """The data set of the paper that a run was trained on, by its settings; None for other data.

    Vectors of another depth or number of bits, as in the preset smoke, are other data.
    """
    table, name = run.config["data"], run.data_name
    if name == "hbv" and (table["depth"], table["bits"]) != PAPER_TREE:
        return None
    return name if name in PAPER_DATA else None


def numbers(run: Run) -> tuple[dict[str, float], str]:
    """Metrics by name, NaN where missing, and the sentence that says which table cannot be read."""
    try:
        return numbers_.numbers(run), ""
    except ValueError as error:
        return dict.fromkeys(METRICS, math.nan), f"{error}."


def total_of(name: str, run: Run) -> int | None:
    """All sentences or tokens, of a metric that counts those in use."""
    if (language := _language(run)) is None:
        return None
    return {"sentences_in_use": language.count, "tokens_in_use": language.tokens}.get(name)


def _language(run: Run) -> Language | None:
    """The language that a model program makes of the settings, where it has `language`."""
    try:
        made = getattr(registry.load("models", run.program_name), "language", None)
        config = run.model_config
        if not callable(made) or not hasattr(config, "language"):
            return None
        data = None if config.language.groups else run.data  # read where groups depend on it
        language: Language = made(config, data)
        return language
    except (ValueError, OSError):
        return None


# What was asked and found.


def summary(run: Run, numbers: Mapping[str, float]) -> list[str]:
    """Three sentences at most: what was asked, what was found, and whether to trust it."""
    model = fitted_name(run)
    asked = f"Asked: which sentences does the model {model} say of an input, and what do they tell?"
    language, told = _language(run), list[str]()
    if not math.isnan(numbers["sentences_in_use"]):
        count = "" if language is None else f" of {language.count:,}"
        told.append(f"{numbers['sentences_in_use']:,.0f}{count} sentences are in use")
    if not math.isnan(numbers["kl"]):
        told.append(f"the bits they lose are {numbers['kl']:.3f} nats from Geometric(½)")
    if not math.isnan(numbers["accuracy"]):
        told.append(
            f"{numbers['accuracy']:.0%} of the features are decoded right from one sentence"
        )
    if not math.isnan(numbers["topographic_similarity"]):
        told.append(f"topographic similarity is {numbers['topographic_similarity']:.2f}")
    if not math.isnan(ratio := numbers["language_compositionality"]):
        told.append(f"sentences make the code of the features {ratio:.2f} times shorter")
    parts = [asked] + ([f"Found: {'; '.join(told)}."] if told else [])
    return [*parts, *filter(None, [trust.verdict(numbers)])]


def terms(run: Run, numbers: Mapping[str, float]) -> dict[str, str]:
    """What the terms mean that a report of an attractor model uses throughout; none of others."""
    if (steps := run.config["model"].get("steps")) is None:
        return {}
    of_bits = {
        "d = c0 − cT": "bits of the input that are decoded right from z0, less those decoded right "
        "from z_T: what the sentence loses. The paper predicts Geometric(½), half as often with "
        "every bit more",
    }
    return {
        "sentence": "a set or sequence of tokens, which are written as letters",
        "z0, z_t, T": "the latent state that the encoder makes of an input x, and where the "
        f"stochastic dynamics have taken it after t steps; trained for T = {steps}",
        "embedding ẑ_s": "the latent state that stands for a sentence s; ε√d, how far samples lie "
        "from theirs",
        "posterior": "P(s | x) ∝ R(s; x), the reward, which is greater the more a sentence tells "
        "of the input; exact samples are drawn from it, without dynamics",
        "sampler": "sentences read where trajectories end, which are to follow the posterior",
        **({} if math.isnan(numbers["kl"]) else of_bits),
        "total variation": "a distance of two distributions, 0 to 1; its noise floor is what as "
        "many exact samples have",
    }


# Warnings.

SMOKE = "seconds: it shows that all parts work, and no number of it means anything"
SHORT = {"smoke": SMOKE, "demo": "minutes"}
FEW_SENTENCES = 0.25  # of all


def warnings(run: Run, numbers: Mapping[str, float]) -> list[str]:
    """Sentences that a reader should know before reading on; `found` are the metrics by name."""
    of_run = [*_exported(run), *_unfinished(run), *_other_version(run), *_short(run)]
    with contextlib.suppress(ValueError):  # no checkpoint, which `_unfinished` tells
        of_run += trust.lost_onset(run)
    return [*of_run, *_few(run, numbers), *trust.doubts(numbers)]


def _exported(run: Run) -> list[str]:
    if not numbers_.kept(run):
        return []
    return ["An exported model: numbers of analyses that are not here are those of its card."]


def _unfinished(run: Run) -> list[str]:
    try:
        position, total = run.position
    except ValueError as error:
        return [f"{str(error)[:1].upper()}{str(error)[1:]}."]
    if position >= total:
        return []
    return [f"The run is unfinished: {position:,} of {total:,} updates are done."]


def _other_version(run: Run) -> list[str]:
    sentences = []
    version = run.environment.get("versions", {}).get("plot-attractors")
    with contextlib.suppress(metadata.PackageNotFoundError):
        installed = metadata.version("plot-attractors")
        if version not in (None, installed):
            sentences.append(
                f"Trained with plot-attractors {version}, and this report was written with "
                f"{installed}."
            )
    for kind, (part, program) in run.programs.items():
        try:
            config = from_table(registry.load(kind, program).Config, run.config[part])
        except ValueError as error:
            sentences.append(f"The run does not fit the {part} program of today: {error}.")
            continue
        known = flatten(run.config[part])
        if new := [name for name in flatten(to_table(config)) if name not in known]:
            sentences.append(
                f"The {part} program has settings today that the run does not know: "
                f"{', '.join(new)}."
            )
    if run.environment.get("dirty"):
        sentences.append("Trained with changes to the code that no commit holds.")
    elif changed := _changed(run):
        sentences.append(f"Changed since the training: {' and '.join(changed)}.")
    return sentences


def _changed(run: Run) -> list[str]:
    """Files of the programs that differ from the commit of the training, by git."""
    commit = run.environment.get("commit")
    root = Path(__file__).resolve().parents[2]
    files = []
    for kind, (_, program) in run.programs.items():
        with contextlib.suppress(ValueError):
            files.append(str(registry.find(kind, program).relative_to(root)))
    if not commit or not files or not (root / ".git").exists():
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


def _few(run: Run, numbers: Mapping[str, float]) -> list[str]:
    language = _language(run)
    if language is None:
        return []
    sentences, tokens, warned = numbers["sentences_in_use"], numbers["tokens_in_use"], []
    # of more sentences than can be listed, few are ever drawn
    if language.count <= MOST_SENTENCES and sentences < FEW_SENTENCES * language.count:
        warned.append(f"Few sentences are in use: {sentences:.0f} of {language.count:,}.")
    if tokens < language.tokens:
        unused = language.tokens - tokens
        warned.append(f"Tokens that are never used: {unused:.0f} of {language.tokens}.")
    return warned


def missing_analyses(run: Run, path: str) -> list[str]:
    """A sentence on every analysis that the run at `path` lacks: why, or how to make it."""
    sentences, to_make = [], []
    for name in registry.names("analyses"):
        if (run.path / "analyses" / name).is_dir():
            continue
        try:
            program = registry.load("analyses", name)
            applies = analysis.applies(program, run)
        except Exception as error:  # of a program or a model, of any kind
            why = " ".join(str(error).split()) or type(error).__name__
            sentences.append(f"{name} cannot be made: {why}.")
            continue
        if applies:
            to_make.append(name)
            continue
        sentences.append(f"{analysis.condition(program, name)}.")
    if to_make:
        command = shlex.join(["plot-attractors", "analyze", path, *to_make])
        sentences.append(
            f"Not made, or failed: {', '.join(to_make)}. The command that makes them, or says why "
            f"not: {command}"
        )
    return sentences

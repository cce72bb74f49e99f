"""What a report says of runs: headline numbers, warnings, and which analyses are missing."""

from __future__ import annotations

import contextlib
import math
import shlex
from collections.abc import Mapping
from importlib import metadata

from plot_attractors.language import MOST_SENTENCES
from plot_attractors.measures.registry import METRICS, PAPER_DATA, doubts
from plot_attractors.runs import Run, registry
from plot_attractors.runs import analyze as analysis
from plot_attractors.runs import numbers as numbers_
from plot_attractors.runs.settings import from_table

__all__ = ["HEADLINES", "data_of", "missing", "numbers", "short", "trust", "warnings"]

_HEADLINES = """
    p kl kl_exact kl_control p_held_out kl_held_out kl_5T p_negative tv_extrapolated tv_brownian
    tv_encoder tv_excess ess_512 slope recovery recovery_control fixed_points distance
    sentences_in_use tokens_in_use accuracy accuracy_held_out composed topographic_similarity
    receiver_accuracy receiver_accuracy_held_out diversity diversity_sigma diversity_16
"""
HEADLINES = [METRICS[name] for name in _HEADLINES.split()]
PAPER_TREE = (6, 128)  # generations, bits


def data_of(run: Run) -> str | None:
    """The data set of the paper that a run was trained on, by its settings; None for other data.

    Vectors of another depth or number of bits, as in the preset smoke, are other data.
    """
    table, name = run.config["data"], run.data_name
    if name == "hbv" and (table["depth"], table["bits"]) != PAPER_TREE:
        return None
    return name if name in PAPER_DATA else None


def numbers(run: Run) -> tuple[dict[str, float], list[str]]:
    """Metrics by name, NaN where missing, and the sentence that says which table cannot be read."""
    try:
        return numbers_.numbers(run), []
    except ValueError as error:
        return dict.fromkeys(METRICS, math.nan), [f"{error}."]


def trust(numbers: Mapping[str, float]) -> str:
    """How far trajectories sample as they should, beside what learned nothing; empty if unknown."""
    distance, nothing = numbers["tv_extrapolated"], numbers["tv_brownian"]
    if math.isnan(distance) or math.isnan(nothing):
        return ""
    return (
        f"Sampled sentences have a total variation of {max(distance, 0):.2f} from the exact "
        f"posterior; those of Brownian motion, which has learned nothing, {nothing:.2f} (0: equal, "
        "1: nothing in common)."
    )


# Warnings.

SMOKE = "seconds: it shows that all parts work, and no number of it means anything"
SHORT = {"smoke": SMOKE, "demo": "minutes"}
FEW_SENTENCES = 0.25  # of all


def warnings(run: Run, numbers: Mapping[str, float]) -> list[str]:
    """Sentences that a reader should know before reading on; `numbers` are the metrics by name."""
    of_run = [*_unfinished(run), *_other_version(run), *short(run.preset)]
    return [*of_run, *_few(run, numbers), *doubts(numbers)]


def short(preset: str) -> list[str]:
    """The sentence on a short training."""
    known = preset in SHORT
    return [f"A short training: the preset {preset} takes {SHORT[preset]}."] if known else []


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
        if version not in (None, installed) and not numbers_.kept(run):
            sentences.append(
                f"Trained with plot-attractors {version}, and this report was written with "
                f"{installed}."
            )
    for kind, (part, program) in run.programs.items():
        try:
            from_table(registry.load(kind, program).Config, run.config[part])
        except ValueError as error:
            sentences.append(f"The run does not fit the {part} program of today: {error}.")
    if run.environment.get("dirty"):
        sentences.append("Trained with changes to the code that no commit holds.")
    return sentences


def _few(run: Run, numbers: Mapping[str, float]) -> list[str]:
    used, count = numbers["sentences_in_use"], math.inf
    # models without a language of their settings, and data that are gone
    with contextlib.suppress(AttributeError, ValueError, OSError):
        program = registry.load("models", run.program_name)
        count = program.language(run.model_config, run.data).count
    # of more sentences than can be listed, few are ever drawn
    few = count <= MOST_SENTENCES and used < FEW_SENTENCES * count
    return [f"Few sentences are in use: {used:.0f} of {count:,}."] if few else []


def missing(run: Run, path: str) -> list[str]:
    """A sentence on every analysis that the run at `path` lacks: why, or how to make it."""
    sentences, to_make = [], []
    if numbers_.kept(run):
        sentences.append("An exported model: its card has the numbers of analyses not made here.")
    for name in registry.names("analyses"):
        if (run.path / "analyses" / name).is_dir():
            continue
        program = registry.load("analyses", name)
        try:
            lacked = analysis.unmet(program, run)
        except Exception as error:  # of a model, of any kind
            why = " ".join(str(error).split()) or type(error).__name__
            sentences.append(f"{name} cannot be made: {why}.")
            continue
        if lacked:
            sentences.append(f"{name} needs {lacked}.")
        else:
            to_make.append(name)
    if to_make:
        command = shlex.join(["plot-attractors", "analyze", path, *to_make])
        sentences.append(f"Not made, or failed: the command that makes them is {command}")
    return sentences

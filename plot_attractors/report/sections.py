"""The analyses in a report: interactive views, figures with captions, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from plot_attractors.report import pictures, tables, viewer
from plot_attractors.report.builder import Block, Figure, Image, Part, Section, View, anchor
from plot_attractors.runs import Run, registry
from plot_attractors.runs.variants import Variant

__all__ = ["SECTIONS", "sections", "views"]

# From the question of the paper to what it was answered with; analyses that are not named stand
# under OTHERS.
OTHERS = "More analyses"
SECTIONS = {
    "Attractor dynamics": "trajectories perturbation neighbours basins",
    "Choices and times": "behaviour continuum people",
    "Emergent language": "sentences information_loss decodability composition language_measures",
    "Diversity": "diversity",
    "Comparison with a Bayesian language of thought": "compare_language_of_thought",
    "Calibration and diagnostics": "calibration diagnostics",
    OTHERS: "",
    "Training": "training",
    "Data": "data",
}

Having = Sequence[tuple[str, Path]]  # titles of runs, and their folders of an analysis


def sections(variants: Sequence[Variant]) -> list[Section]:
    """The analyses that some variant has, of its first seed that has them, by section."""
    names = _names(variants)
    known = " ".join(SECTIONS.values()).split()
    found = []
    for title, members in SECTIONS.items():
        others = [name for name in names if name not in known] if title == OTHERS else []
        chosen = others + [name for name in members.split() if name in names]
        if chosen:
            parts = [_analysis(name, _having(variants, name)) for name in chosen]
            found.append(Section(title, parts=parts))
    return found


def views(variants: Sequence[Variant]) -> list[Block]:
    """The interactive views of all analyses with their figures: what a reader sees first."""
    blocks: list[Block] = []
    for name in _names(variants):
        files = [(title, folder / viewer.FILE) for title, folder in _having(variants, name)]
        texts = [(title, file.read_text("utf-8")) for title, file in files if file.is_file()]
        if cells := [View(title, text) for title, text in texts if viewer.is_view(text)]:
            caption = about(name)[1].get("view", "")
            blocks.append(Figure(cells, caption, f"view-{anchor(name)}"))
            blocks += _figures(name, _having(variants, name))
    return blocks


def _names(variants: Sequence[Variant]) -> list[str]:
    runs = [run for variant in variants for run in variant.runs]
    folders = [path for run in runs for path in (run.path / "analyses").glob("*")]
    return sorted({path.name for path in folders if path.is_dir() and path.name[0] != "."})


def _having(variants: Sequence[Variant], name: str) -> Having:
    """The first seed of each variant that has an analysis."""
    found = []
    for variant in variants:
        having = [run for run in variant.runs if (run.path / "analyses" / name).is_dir()]
        if having:
            found.append((_title(having[0], variant, variants), having[0].path / "analyses" / name))
    return found


def _title(run: Run, variant: Variant, variants: Sequence[Variant]) -> str:
    named = [variant.name] if len(variants) > 1 else []
    return ", ".join([*named, *([f"seed {run.seed}"] if len(variant.runs) > 1 else [])])


def _figures(name: str, having: Having) -> list[Block]:
    captions, blocks = about(name)[1], list[Block]()
    stems = set().union(*(pictures.stems(folder) for _, folder in having))
    for stem in [*(stem for stem in captions if stem in stems), *sorted(stems - captions.keys())]:
        cells = [
            Image(of, stem, pictures.data_uri(folder, stem))
            for of, folder in having
            if stem in pictures.stems(folder)
        ]
        blocks.append(Figure(cells, captions.get(stem, stem.replace("_", " "))))
    return blocks


def _analysis(name: str, having: Having) -> Part:
    first = any((folder / viewer.FILE).is_file() for _, folder in having)  # which stand above
    blocks = [] if first else _figures(name, having)
    for of, folder in having:
        files = sorted(folder.glob("*.csv"), key=lambda file: (file.name != "summary.csv", file))
        blocks += [
            tables.csv_table(file, ", ".join(filter(None, (file.name, of)))) for file in files
        ]
    return Part(f"analysis-{anchor(name)}", about(name)[0], blocks)


def about(name: str) -> tuple[str, dict[str, str]]:
    """TITLE and CAPTIONS of an analysis of the package; of a user's own, a title of its name."""
    if name not in registry.names("analyses"):
        return name.replace("_", " ").capitalize(), {}
    program = registry.load("analyses", name)
    return program.TITLE, getattr(program, "CAPTIONS", {})

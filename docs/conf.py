"""The documentation site: `make docs` writes it to docs/_build/html."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import unicodedata
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT)]
# Notebooks call plot-attractors, which stands beside the Python that builds the site.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
os.environ.update(MPLBACKEND="Agg", OMP_NUM_THREADS="1")

import reference_pages  # noqa: E402 (beside this file)

from plot_attractors.report import report  # noqa: E402
from plot_attractors.runs import Run  # noqa: E402
from plot_attractors.runs.analyze import analyze  # noqa: E402

project = "plot-attractors"
copyright = "the authors of plot-attractors"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "notebook.md"]  # the notebook is for readers of the repository
suppress_warnings = ["myst.header", "ref.python"]  # several chapters on a page; short names

myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_inline"]
myst_heading_anchors = 4
nb_execution_mode = "force"  # a cache would not see that the package has changed
nb_execution_in_temp = True
nb_execution_timeout = -1  # a busy machine is no failure; that of a cell is an error, by -W
nb_execution_show_tb = True
nb_merge_streams = True
nb_output_stderr = "remove"  # warnings of other packages, with paths of this machine

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
napoleon_custom_sections = [("Columns", "params_style")]
napoleon_use_rtype = False
napoleon_use_param = True
default_role = "py:obj"

html_theme = "furo"
html_title = "plot-attractors"
html_static_path = ["_static"]
html_extra_path = ["_build/extra"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
copybutton_exclude = ".linenos, .gp, .go"


# -- docstrings: the formulas of the code, as reStructuredText ------------------------------------
_EQUATION = re.compile(r"\bEqs?\.\s+\*(\w+)\*")
_ALGORITHM = re.compile(r"\bAlgorithm (\d)\b")
_CODE = re.compile(r"(``.+?``|`[^`]+`_{0,2})", re.DOTALL)


def _escaped(text: str) -> str:
    """Outside of code: s_:i is a formula and no link, |x| no substitution, *args no emphasis."""
    text = re.sub(r"(?<=\w)_(?=[^\w{]|$)", r"\\_", text)
    text = re.sub(r"\|(?=\S)|(?<=[\s(])\*(?=\w+[,)])", r"\\\g<0>", text)
    text = _EQUATION.sub(r":ref:`Eq. \1 <eq-\1>`", text)
    return _ALGORITHM.sub(r":ref:`Algorithm \1 <algorithm-\1>`", text)


def _formulas(app: Sphinx, what: str, name: str, of: Any, options: Any, lines: list[str]) -> None:
    text = "\n".join(lines)
    prose, *examples = re.split(r"(?m)^(?=\s*>>> )", text, maxsplit=1)
    parts = _CODE.split(prose)
    prose = "".join(f"{part}\\ " if k % 2 else _escaped(part) for k, part in enumerate(parts))
    prose = re.sub(r"(?<=`)\\ (?=[\s.,:;!?)\]}'\"/-]|$)", "", prose)
    lines[:] = "".join([prose, *examples]).split("\n")


# -- pages: links to files of the repository become links to the pages about them ------------------
_PROGRAM = re.compile(r"\]\((?:\.\./)+(models|inference|analyses)/(\w+)\.py\)")
_NOTEBOOK = re.compile(r"\[([^]]+)\]\((?:\.\./)*notebook\.md[^)]*\)")
_METRICS = re.compile(r"\]\((?:\.\./)+plot_attractors/measures/registry\.py\)")
_MODULE = re.compile(r"\[`?([^]`]+)`?\]\((?:\.\./)+(plot_attractors/[\w/]+)\.py\)")


def _links(app: Sphinx, page: str, source: list[str]) -> None:
    text = _PROGRAM.sub(r"](/reference/programs/\1/\2.md)", source[0])
    text = _NOTEBOOK.sub(r"\1 (docs/notebook.md)", text)
    text = _METRICS.sub("](/reference/metrics.md)", text)
    source[0] = _MODULE.sub(lambda m: f"{{py:mod}}`{m[1]} <{m[2].replace('/', '.')}>`", text)


# -- formulas as MathML, which browsers draw themselves --------------------------------------------
def _hat(letter: re.Match[str]) -> str:
    """A letter with its hat, beside which an index stands; an accent would have it below."""
    composed = unicodedata.normalize("NFC", f"{letter[1]}\N{COMBINING CIRCUMFLEX ACCENT}")
    return composed if len(composed) == 1 else f"\\operatorname{{{composed}}}"


def _mathml(tex: str, block: bool = False) -> str:
    found: str = tex2mathml(re.sub(r"\\hat *(\w)", _hat, tex), as_block=block)
    return found


def _visit_math(translator: Any, node: nodes.math) -> None:
    translator.body.append(_mathml(node.astext()))
    raise nodes.SkipNode


def _visit_math_block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(
        f'<div class="math">{_mathml(node.astext(), block=True)}</div>'
    )  # fmt: skip
    raise nodes.SkipNode


def _viewer(page: Path) -> None:
    """The report of a shipped model with its view alone."""
    with tempfile.TemporaryDirectory() as folder:
        run = shutil.copytree(Run("pretrained:hbv").path, Path(folder) / "hbv")
        (result,) = analyze(run, ["trajectories"])
        if result.error is not None:
            raise result.error
        page.parent.mkdir(parents=True, exist_ok=True)
        report(run, page)


def setup(app: Sphinx) -> None:
    """Writes the generated pages before any is read."""
    reference_pages.write(HERE / "reference")
    _viewer(HERE / html_extra_path[0] / "viewer.html")
    app.connect("autodoc-process-docstring", _formulas)
    app.connect("source-read", _links)
    app.add_html_math_renderer("mathml", (_visit_math, None), (_visit_math_block, None))

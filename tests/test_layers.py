"""Which packages may not load which: measures draw nothing and know no runs, training measures
nothing, and `gflownet` is for any Pyro program.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import plot_attractors

FOLDER = Path(plot_attractors.__file__).parent
ATTRACTORS = {f"plot_attractors.{of.parent.name}" for of in FOLDER.glob("*/__init__.py")} - {
    "plot_attractors.gflownet"
}

CODE = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(module.name)
print(*sys.modules)
"""


@pytest.mark.parametrize(
    ("package", "without"),
    [
        ("measures", {"matplotlib", "plot_attractors.analysis"}),
        ("report", {"matplotlib"}),
        ("training", {"plot_attractors.analysis", "plot_attractors.measures"}),
        ("gflownet", ATTRACTORS),
    ],
)
def test_no_module_loads_what_its_package_does_without(package: str, without: set[str]) -> None:
    command = [sys.executable, "-c", CODE, f"plot_attractors.{package}"]
    result = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert f"plot_attractors.{package}" in result
    assert not without & {*result}


@pytest.mark.parametrize("file", sorted(FOLDER.glob("gflownet/*.py")), ids=lambda of: of.stem)
def test_gflownet_imports_itself_alone(file: Path) -> None:
    """Inside functions and for types, too, which no module loads."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    result = {alias.name for of in nodes if isinstance(of, ast.Import) for alias in of.names}
    result |= {of.module or "." for of in nodes if isinstance(of, ast.ImportFrom)}
    own = {name for name in result if name.startswith((".", "plot_attractors"))}
    assert not {of for of in own if not of.startswith("plot_attractors.gflownet")}

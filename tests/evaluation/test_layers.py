"""Which packages may not load which: evaluation draws nothing, figures are made without torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
        ("evaluation", {"matplotlib", "plot_attractors.plots"}),
        ("report", {"matplotlib"}),
        ("plots", {"torch", "plot_attractors.evaluation"}),
        ("training", {"plot_attractors.evaluation"}),
    ],
)
def test_no_module_loads_what_its_package_does_without(package: str, without: set[str]) -> None:
    command = [sys.executable, "-c", CODE, f"plot_attractors.{package}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert f"plot_attractors.{package}" in found
    assert not without & {*found}

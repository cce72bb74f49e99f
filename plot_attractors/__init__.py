"""Symbols from neural dynamics: attractor models as Pyro programs, and GFlowNet inference
for Pyro.
"""

from importlib import metadata

try:
    __version__ = metadata.version("plot-attractors")
except metadata.PackageNotFoundError:  # a clone that is not installed
    __version__ = "unknown"

"""Reports: runs as one self-contained HTML file, readable on a phone, in print, in light and dark."""

from plot_attractors.report.page import report

__all__ = ["report"]

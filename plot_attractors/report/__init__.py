"""Reports: runs as one self-contained HTML file, for screens, phones and print."""

from plot_attractors.report.page import report

__all__ = ["report"]

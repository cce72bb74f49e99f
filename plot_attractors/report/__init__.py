"""Reports: runs as one self-contained HTML file, readable on a phone, in print, in light and dark.

`page` puts it together, of `variants` (runs that differ in the seed only), `findings` (headline
numbers beside the paper's, warnings, the command to reproduce), `pictures`, and the interactive
`viewer` of trajectories.
"""

from plot_attractors.report.page import report

__all__ = ["report"]

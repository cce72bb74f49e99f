"""The paper in one command: every model of its comparisons fitted and analysed, and one page."""

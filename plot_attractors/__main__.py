"""``python -m plot_attractors``: the command line."""

from plot_attractors.cli import main

main()

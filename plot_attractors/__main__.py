"""``python -m plot_attractors``: the command line."""

from plot_attractors.cli import main

if __name__ == "__main__":  # not in the processes of a sweep
    main()

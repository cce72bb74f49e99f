"""What splits of a data set are called in figures and views."""

__all__ = ["SPLIT_NAMES"]

SPLIT_NAMES = {
    "train": "training inputs",
    "held_out": "held-out inputs",
    "position": "held-out positions",
    "position+colour": "held-out positions of a colour",
    "position+shape": "held-out shape of a colour",
}

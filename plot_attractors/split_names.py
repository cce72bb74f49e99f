"""What splits of a data set are called in figures and views."""

__all__ = ["split_name"]

NAMES = {
    "train": "training inputs",
    "held_out": "held-out inputs",
    "position": "held-out positions",
    "position+colour": "held-out positions of a colour",
    "position+shape": "held-out shape of a colour",
}


def split_name(split: str) -> str:
    """How figures and views name a split of the inputs."""
    return NAMES.get(split, split)

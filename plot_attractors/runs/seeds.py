"""Seeds as text: ``0-4`` or ``0,2,7-9``."""

from __future__ import annotations

import re

__all__ = ["MOST", "seeds"]

MOST = 10_000
_RANGE = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")


def seeds(text: str) -> list[int]:
    """The seeds that a text names, each once, in its order.

    >>> seeds("0-4"), seeds("7, 0-2")
    ([0, 1, 2, 3, 4], [7, 0, 1, 2])

    Raises ValueError for anything else, a range that falls, a seed above 2**63 - 1, or more than
    10,000 of them.
    """
    numbers: dict[int, None] = {}
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = (int(n or match[1]) for n in match.groups()) if match else (1, 0)
        if first > last:
            raise ValueError(
                "seeds are whole numbers and ranges of them, such as 0-4 or 0,2,7-9, and "
                f"{text!r} is not that"
            )
        if last >= 2**63:
            raise ValueError(f"a seed is at most 2**63 - 1, and {last} is more")
        if last - first + len(numbers) >= MOST:
            raise ValueError(f"{text!r} names more than {MOST:,} seeds: give fewer")
        numbers |= dict.fromkeys(range(first, last + 1))
    return list(numbers)

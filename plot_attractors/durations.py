"""Durations as text."""

from __future__ import annotations

__all__ = ["duration"]


def duration(seconds: float) -> str:
    """Seconds as text.

    >>> duration(8.2), duration(75), duration(3700)
    ('8 s', '1 min 15 s', '1 h 01 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"

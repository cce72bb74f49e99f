"""The command line: ``plot-attractors fit``, ``sweep``, ``paper``, ``analyze``, ``list``,
``settings``, ``copy``, ``ask``, ``samples``, ``compare``, ``export`` and ``report``.
"""

from . import programs, questions, runs, training
from .shared import app

__all__ = ["app", "main", "programs", "questions", "runs", "training"]

_ORDER = [
    "fit", "sweep", "paper", "analyze", "report", "ask", "samples", "compare", "measure", "export",
    "list", "settings", "copy",
]  # fmt: skip
app.registered_commands.sort(key=lambda one: _ORDER.index(one.name or one.callback.__name__))  # type: ignore[union-attr]
main = app  # the console script

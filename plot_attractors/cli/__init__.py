"""The command line: ``plot-attractors fit``, ``sweep``, ``paper``, ``analyze``, ``list``,
``settings``, ``copy``, ``ask``, ``samples``, ``compare``, ``export`` and ``report``.
"""

from . import programs, questions, runs, training
from .shared import app

__all__ = ["app", "main", "programs", "questions", "runs", "training"]

main = app  # the console script

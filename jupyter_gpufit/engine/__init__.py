"""Where workers run: here, so far. Another engine has a module of its own beside `local`, and is chosen here."""

from .local import Started, WaitingWorker, environment_of
from .spare import Spare

__all__ = ["Spare", "Started", "WaitingWorker", "environment_of"]

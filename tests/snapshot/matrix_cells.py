"""Trainings as people write them, small. Every one says at its end what it came to, to the last bit."""

from __future__ import annotations

from .matrix_cell import BEGIN, DATA, Cell
from .matrix_libraries import OF_LIBRARIES
from .matrix_loops import LOOPS
from .matrix_things import THINGS

__all__ = ["BEGIN", "CELLS", "DATA", "Cell"]

CELLS = {**LOOPS, **THINGS, **OF_LIBRARIES}

"""Cells of which every safe point is tried. Their names say what would go wrong."""

from . import calls, comprehensions, control, generators, methods, modules
from .registry import PROBES

__all__ = ["PROBES", "calls", "comprehensions", "control", "generators", "methods", "modules"]

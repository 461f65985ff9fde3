"""Widgets of ipywidgets: a checkpoint has them as they are, and whoever follows the job sees them anew.

Between a notebook and a worker they do not travel (graph/refusals.py): there a widget is where its kernel is.
"""

from __future__ import annotations

from ...graph.kind import Kind
from ...graph.kinds import instances
from ...system.objects import module_of


def find(cls: type) -> Kind | None:
    ours = any(module_of(base).partition(".")[0] == "ipywidgets" for base in cls.__mro__)
    return instances.find(cls) if ours else None

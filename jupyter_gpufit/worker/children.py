"""Ending what the cell has started: the workers of its DataLoaders, and whatever else is below this process."""

from __future__ import annotations

import psutil

PATIENCE = 2.0  # seconds between asking and killing


def end_children() -> None:
    """Leave no process behind that a checkpoint would start once more, or that keeps the device."""
    children = psutil.Process().children(recursive=True)
    for ask in (psutil.Process.terminate, psutil.Process.kill):
        for child in children:
            try:
                ask(child)
            except psutil.NoSuchProcess:
                continue
        children = psutil.wait_procs(children, timeout=PATIENCE)[1]

"""Ending what the cell has started: the workers of its DataLoaders, and whatever else is below this process."""

from __future__ import annotations

from contextlib import suppress

import psutil

PATIENCE = 2.0  # seconds between asking and killing


def end_children() -> None:
    """Leave no process behind that a checkpoint would start once more, or that keeps the device."""
    children = psutil.Process().children(recursive=True)
    for ask in (psutil.Process.terminate, psutil.Process.kill):
        for child in children:
            with suppress(psutil.Error):  # it has ended; or it is another user's (sudo), and not ours to end
                ask(child)
        children = psutil.wait_procs(children, timeout=PATIENCE)[1]

"""What a worker's process needs of itself for its last steps: no children, and descriptors of its own."""

from __future__ import annotations

import resource
from contextlib import suppress

import psutil

PATIENCE = 2.0  # seconds between asking and killing
OURS = 256  # descriptors: the result's memory, the record, the journal, the libraries that are asked for their part


def end_children() -> None:
    """End what the cell has started (the workers of its DataLoaders, say), and what is below that.

    A checkpoint would start it once more, and it may keep the device.
    """
    children = psutil.Process().children(recursive=True)
    for ask in (psutil.Process.terminate, psutil.Process.kill):
        for child in children:
            with suppress(psutil.Error):  # it has ended; or it is another user's (sudo), and not ours to end
                ask(child)
        children = psutil.wait_procs(children, timeout=PATIENCE)[1]


def have_descriptors() -> None:
    """Let this process open a few more files than the cell could, which may have left as many open as it was allowed.

    Where its hard limit is reached, there are none.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        more = soft + OURS if hard == resource.RLIM_INFINITY else min(soft + OURS, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))

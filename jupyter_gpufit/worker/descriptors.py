"""Descriptors for a worker's last steps: its cell may have left as many files open as the process could open."""

from __future__ import annotations

import resource

OURS = 256  # the result's memory, the record, the journal, and the libraries that are asked for their part


def have_some_of_our_own() -> None:
    """Let this process open a few more than the cell could; where its hard limit is reached, there are none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        more = soft + OURS if hard == resource.RLIM_INFINITY else min(soft + OURS, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))

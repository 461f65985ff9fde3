"""A cell that uses no GPU claims none: it starts at once, and nobody in the lab waits for it.

Everything else of a job holds a device (its claim, a release, a move), and does so here, too: one of the job's own, in
a lab of its own, which nobody else sees. Should the cell use `cuda` after all, it leaves, and goes on with a GPU.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import psutil
import torch

from ..cuda.slot import Budget
from ..devices import sides
from ..devices.device import Device
from ..estimate.need import Needed
from ..jobs.handover import Handover
from ..lab import Granted, Lab
from ..lab.directory import own_lab
from ..settings import Settings

LABEL = "no device"


def suffices(needed: Needed, handover: Handover) -> bool:
    return needed.memory == 0 and handover.claim is None


def is_held(granted: Granted) -> bool:
    return granted.devices[0].label == LABEL


async def look() -> Sequence[Device]:
    """All of the host's memory, which is nobody's in particular."""
    total = int(psutil.virtual_memory().total)
    return [Device(uuid=LABEL, label=LABEL, name=LABEL, index=0, kind="slot", total=total, free=total)]


@contextmanager
def lab_of(job_id: str, settings: Settings) -> Iterator[Lab]:
    lab = replace(own_lab(settings, f"none-{job_id}"), remark="")
    try:
        yield lab
    finally:
        shutil.rmtree(lab.path, ignore_errors=True)


class NoBudget(Budget):
    """Of a slot that is none: the first use of `cuda` is one too many, and the host's memory is no matter of ours."""

    def is_exceeded(self) -> bool:
        return sides.is_used

    def check(self, asked: int) -> None:
        raise self.exceeded()

    def exceeded(self, asked: int = 0) -> torch.OutOfMemoryError:
        sides.is_used = False  # told once: the next use tells again
        return torch.OutOfMemoryError(
            "This cell used no GPU in its trial run, so it claimed none, and now it uses one. Run it with --exclusive,"
            " or with --memory and the bytes that it needs."
        )

"""A training on several devices that lost one of its ranks goes on by itself, from its newest checkpoint.

It queues again, since the device may be what failed. One that loses a rank again and again without a newer checkpoint
in between would do so for ever: then its cell fails, with what that rank said last.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace

from ..checkpoint.files import newest_listed
from ..errors import RanksError
from ..estimate.need import Needed
from ..jobs.handover import note_start, noted_start
from ..train import Requeued
from .saving import Saver
from .training import Training

MOST = 2  # times in a row from the same checkpoint


@dataclass
class Losses:
    """Of one training."""

    training: Training
    saver: Saver | None = None  # made later than this

    def goes_on(self, lost: RanksError) -> None:
        """In the main thread; does not return where the job can go on without this process."""
        training, saver = self.training, self.saver
        newest = newest_listed(training.paths.checkpoints)
        if newest is None or saver is None:
            return
        step, before = newest.about.step, training.handover.lost
        if before.count(step) >= MOST:
            return
        training.note(
            f"{lost}\n\n{training.name} goes on from its checkpoint at step {step:,} by itself; what follows may repeat"
            " lines from above."
        )
        granted = training.granted
        whole = granted.alone and granted.claim.request.needed is None
        needed = Needed(None if whole else granted.bytes, f"goes on from its checkpoint at step {step:,}")
        training.handover = replace(training.handover, lost=[*before, step])
        with suppress(OSError):  # on a full disk, a later resume knows less of how it ended
            note_start(training.paths, replace(noted_start(training.paths), alive_until=time.time()))
        saver.leave(Requeued(needed, repeats=True))

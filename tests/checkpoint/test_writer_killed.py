"""The process that writes, killed at random moments: what was acknowledged loads, and nothing broken is offered."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from pathlib import Path

import pytest

from jupyter_gpufit.checkpoint.files import newest
from jupyter_gpufit.errors import NotSaved
from jupyter_gpufit.jobs.epoch import name_of
from jupyter_gpufit.units import MiB
from tests.checkpoint.snapshots import about, assert_is, training, writing
from tests.people import PATIENCE

SIZE = 2 * MiB  # bytes


@pytest.mark.slow(9)
@pytest.mark.parametrize(
    "kills", [pytest.param(25, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.soak)]
)
def test_no_acknowledged_checkpoint_is_lost(tmp_path: Path, kills: int) -> None:
    directory = tmp_path / "checkpoints"
    chance = random.Random(11)
    refused, half_written, usual = 0, 0, 0.05  # usual: seconds of a save
    with writing(directory) as writer:
        for step in range(0, 2 * kills, 2):
            writer.save(training(step, SIZE), about(step)).result(PATIENCE)  # now the process is there
            acknowledged = step
            snapshot = training(step + 1, SIZE)
            assert writer._process is not None
            process = writer._process._process
            begun = threading.Event()
            moment = chance.uniform(0, usual)
            killer = threading.Thread(target=_kill, args=(process, begun, moment))
            killer.start()
            saving = writer.save(snapshot, about(step + 1))
            begun.set()
            try:
                saved = saving.result(PATIENCE)
                acknowledged, usual = step + 1, (usual + saved.seconds) / 2
            except NotSaved:
                refused += 1
            killer.join()
            process.wait(PATIENCE)
            half_written += any(name.startswith(f".{name_of(1, step + 2)}.") for name in os.listdir(directory))
            found = newest(directory)
            assert found.opened is not None and found.skipped == ()
            with found.opened as opened:
                assert acknowledged <= opened.about.step <= step + 1
                assert_is(opened, snapshot if opened.about.step > step else training(step, SIZE))
    told = f"{refused} of {kills} kills before the acknowledgement, {half_written} with files half-written"
    assert refused > kills // 10 and half_written, f"{told}: the test tested little"


def _kill(process: subprocess.Popen[bytes], begun: threading.Event, moment: float) -> None:
    begun.wait(PATIENCE)
    time.sleep(moment)
    process.kill()

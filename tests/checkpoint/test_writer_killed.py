"""The process that writes, killed at 100 random moments: what was acknowledged loads, and nothing broken is offered."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from jupyter_gpufit.checkpoint.files import newest
from jupyter_gpufit.errors import NotSaved
from jupyter_gpufit.units import MiB
from tests.checkpoint.snapshots import about, step_of, training, writing
from tests.people import PATIENCE

pytestmark = pytest.mark.slow  # half a minute

KILLS = 100
SIZE = 3 * MiB  # bytes


def test_no_acknowledged_checkpoint_is_lost(tmp_path: Path) -> None:
    directory = tmp_path / "checkpoints"
    chance = random.Random(11)
    acknowledged, refused, half_written, step = 0, 0, 0, 0
    with writing(directory) as writer:
        began = time.monotonic()
        writer.save(training(0, SIZE), about(0)).result(PATIENCE)
        usual = time.monotonic() - began
        while refused < KILLS:
            step += 1
            saving = writer.save(training(step, SIZE), about(step))
            assert writer._process is not None
            process = writer._process._process
            killer = threading.Timer(chance.uniform(0, 1.3 * usual), process.send_signal, [signal.SIGKILL])
            killer.start()
            try:
                acknowledged = saving.result(PATIENCE).about.step
            except NotSaved:
                refused += 1
            began = time.monotonic()
            killer.join()
            process.wait(PATIENCE)
            half_written += any(name.endswith(".tmp") for name in os.listdir(directory))
            found = step_of(directory)  # every byte of it is compared
            assert found is not None and acknowledged <= found <= step
            assert newest(directory).skipped == ()
    assert half_written > KILLS // 20, "too few kills hit a checkpoint that was being written: the test tested little"
    assert not any(name.endswith(".tmp") for name in os.listdir(directory)) or refused

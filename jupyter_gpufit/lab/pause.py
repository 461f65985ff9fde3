"""Where the crash tests stop a process, to kill it there."""

from __future__ import annotations

import os
import signal


def gpufit_test_pause(point: str) -> None:
    """Stop this process if the test asked for it; the test sees that it stopped, and then kills or continues it."""
    if os.environ.get("GPUFIT_TEST_PAUSE") == point:
        os.kill(os.getpid(), signal.SIGSTOP)

"""What tests hear of a real kernel's cells, of which nothing is lost, and what they leave: no worker."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import kill_workers
from tests.kernels import TIMEOUT, Kernel


class Said:
    """A client whose kernel has said all this already."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.messages = list(messages)

    def get_iopub_msg(self, timeout: float) -> dict[str, Any]:
        return self.messages.pop(0)


def wrote(text: str) -> dict[str, Any]:
    return of_the_cell("stream", name="stdout", text=text)


def of_the_cell(kind: str, **content: object) -> dict[str, Any]:
    return {"msg_type": kind, "content": content, "parent_header": {"msg_id": "cell"}}


ENDED = of_the_cell("status", execution_state="idle")


def hearing(*messages: dict[str, Any]) -> Kernel:
    return Kernel(None, Said(*messages))  # type: ignore[arg-type]


def test_what_came_before_what_was_waited_for_first_need_not_come_again() -> None:
    kernel = hearing(wrote("saved\n"), wrote("step 2\n"), wrote("step 3\n"), ENDED)

    first = kernel.until("cell", "step 2")

    assert kernel.until("cell", "saved").stdout == first.stdout == "saved\nstep 2\n"
    assert kernel.until("cell", "step 3").stdout == "saved\nstep 2\nstep 3\n"
    assert first.stdout == "saved\nstep 2\n", "what had been shown by then"
    assert kernel.finish("cell").stdout == ""


def test_what_never_came_is_said_with_all_that_did() -> None:
    kernel = hearing(wrote("step 1\n"), wrote("step 2\n"), ENDED)
    kernel.until("cell", "step 1")

    with pytest.raises(AssertionError, match=r"ended without 'step 3'.*step 1.*step 2"):
        kernel.until("cell", "step 3")


def test_no_worker_is_left_wherever_a_test_has_had_its_jobs_kept(tmp_path: Path) -> None:
    lock = tmp_path / "data" / "jobs" / "a1b2" / "lock"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as held, subprocess.Popen(["sleep", "infinity"], stdin=held) as holds:
        kill_workers(tmp_path)

        assert holds.wait(TIMEOUT) == -signal.SIGKILL

"""A training that is split over two devices is saved by one of its processes, killed, and goes on with two."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from tests.command_line import gpufit, jobs
from tests.kernels import Kernel
from tests.worker.ranks.test_ranks import near, nothing_is_held, scratch, until


def killed_and_resumed(
    kernel: Kernel, env: dict[str, str], home: Path, name: str, set_up: str, cell: str, whole: str, words: str
) -> tuple[list[Any], list[Any]]:
    """What `whole` says of it and of a plain run, beside the losses, which are near; `words`: how it is split."""
    kernel.check(set_up + cell.format(stands=False, hold="").replace("'cuda'", "'cpu'"))
    losses, plain = json.loads(kernel.check(whole).stdout)
    kernel.check(set_up)
    hold = home / "go-on"
    sent = kernel.send(f"%%gpufit train --gpus 2 --name {name}\n{cell.format(stands=True, hold=str(hold))}")
    ran = kernel.until(sent, "step 2\n")
    assert words in ran.shown, ran.shown
    saved = gpufit(env, "checkpoint", name)
    assert saved.returncode == 0, saved.stderr
    os.kill(jobs(env)[name]["pid"], signal.SIGKILL)
    kernel.finish(sent)
    until(lambda: not scratch(home))
    hold.touch()
    ran = kernel.run(f"%gpufit resume {name}")
    assert ran.ok, ran.traceback
    found, own = json.loads(kernel.check(whole).stdout)
    near(found, losses)
    nothing_is_held(env)
    return own, plain

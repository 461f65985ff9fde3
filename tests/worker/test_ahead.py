"""What a notebook has imported is imported by its spare, once, and comes out as it would in a worker."""

from __future__ import annotations

import json
import mmap
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpufit.jobs.forking import KernelModules
from jupyter_gpufit.worker.ahead import Ahead
from tests.kernels import TIMEOUT, environment, running_kernel

ON_A_SLOT = (8, 0)


def in_a_fork(does: Callable[[], Any]) -> Any:
    """What it gives, in a process of its own, which it may change as it likes."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, json.dumps(does()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        found = json.loads(answer.read())
    os.waitpid(pid, 0)
    return found


def package(site: Path, name: str, text: str) -> None:
    site.mkdir(parents=True, exist_ok=True)
    (site / f"{name}.py").write_text(text)


def spoiled_by(site: Path, *names: str, capability: tuple[int, int] | None = ON_A_SLOT) -> str:
    def found() -> str:
        sys.path.insert(0, str(site))
        ahead = Ahead()
        ahead.want(KernelModules(names, capability))
        while ahead:
            ahead.import_next()
        return ahead.spoiled_by

    return str(in_a_fork(found))


@pytest.mark.slow(3)
@pytest.mark.parametrize(
    "text",
    [
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "import socket; line = socket.socketpair()",
        "log = open('/dev/null', 'a'); import tempfile; kept = tempfile.TemporaryFile()",
        "import multiprocessing; lock = multiprocessing.Lock()",
        "import mmap; shared = mmap.mmap(-1, 4096)",
        "import subprocess; child = subprocess.Popen(['sleep', '60'])",
        "import torch; name = torch.cuda.get_device_name()",
        "import torch\ntry: torch.cuda.synchronize()\nexcept Exception: pass",
        "raise RuntimeError('not here')",
        "import sys; sys.exit(3)",
        "import nobody_has_this",
    ],
    ids=lambda text: text[:40],
)
def test_what_a_fork_would_share_or_miss_spoils_the_process(tmp_path: Path, text: str) -> None:
    package(tmp_path, "harmless", "import torch; there = torch.cuda.is_available(), torch.cuda.device_count()")
    package(tmp_path, "spoils", text)
    here = mmap.mmap(-1, 4096)  # there was such memory before

    assert spoiled_by(tmp_path, "harmless") == ""
    assert spoiled_by(tmp_path, "harmless", "spoils") == "spoils"
    here.close()


@pytest.mark.slow(1)
def test_a_capability_is_told_where_all_devices_have_it(tmp_path: Path) -> None:
    package(tmp_path, "asks", "import torch; major = torch.cuda.get_device_capability()[0]")

    assert spoiled_by(tmp_path, "asks", capability=ON_A_SLOT) == ""
    assert spoiled_by(tmp_path, "asks", capability=None) == "asks"


@pytest.mark.slow(1)
def test_a_package_that_takes_for_ever_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jupyter_gpufit.worker.ahead.LONGEST", 1)
    package(tmp_path, "slow", "import threading; threading.Event().wait()")

    assert spoiled_by(tmp_path, "slow") == "slow"


LIBRARY = """
import os, torch
from torch import Generator
from torch.cuda import Event, is_available, get_device_name

with open({log!r}, "a") as log:
    log.write(f"{{os.getpid()}}\\n")
cuda = is_available()

def name():
    return get_device_name()

def generator():
    return Generator("cuda").device.type

def event():
    Event().record()
    return "recorded"
"""
TRAIN = """%%gpufit train
model = torch.nn.Linear(2, 1).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.ones(1, 2, device="cuda")).sum()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
told = library.cuda, library.name(), library.generator(), library.event()
"""


@pytest.mark.slow
@pytest.mark.parametrize("spoils", [False, True])
def test_a_library_is_imported_once_for_all_trainings(tmp_path: Path, spoils: bool) -> None:
    site, log = tmp_path / "site-packages", tmp_path / "imported"
    text = LIBRARY.format(log=str(log))
    if spoils:
        text += "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    package(site, "library", text)
    env = environment(tmp_path, PYTHONPATH=str(site), GPUFIT_SPARE_WORKER="always")

    def imports() -> int:
        return len(log.read_text().splitlines())

    with running_kernel(env, tmp_path) as kernel:
        kernel.check("import torch, library")
        until = time.monotonic() + TIMEOUT
        while imports() < 2 and time.monotonic() < until:
            time.sleep(0.02)
        told = [kernel.check(f"{TRAIN}\nprint(told)").stdout for _ in range(2)]

    on_a_slot = "(True, 'CPU slot cpu:0', 'cuda', 'recorded')"
    assert all(on_a_slot in one for one in told)
    # By the kernel and the spare; or by each trial run and each worker, too.
    assert imports() == 2 if not spoils else imports() >= 4


@pytest.mark.slow(1)
def test_what_a_worker_needs_at_once_is_imported_first(tmp_path: Path) -> None:
    """And descriptors that came meanwhile, with the wish for that worker, spoil nothing."""
    for name in ("first", "second", "third"):
        package(tmp_path, name, "")

    def found() -> tuple[list[str], list[str], str]:
        sys.path.insert(0, str(tmp_path))
        ahead = Ahead()
        ahead.want(KernelModules(("first", "second", "third"), ON_A_SLOT))
        ahead.import_next()
        kept = os.memfd_create("came-meanwhile")
        ahead.import_those({"third", "elsewhere"})
        then = [str(name) for name in ("first", "second", "third") if name in sys.modules]
        while ahead:
            ahead.import_next()
        os.close(kept)
        return then, [name for name in ("second",) if name in sys.modules], ahead.spoiled_by

    assert in_a_fork(found) == [["first", "third"], ["second"], ""]

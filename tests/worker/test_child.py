"""What a worker has imported when its job comes. A spare has time for more; nobody waits for what is not used."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

# Three workers one after the other, in one process, since torch takes seconds: whatever one imports stays.
PROGRAM = """
import os, socket, sys
from jupyter_gpufit.worker import child

def start(limit, asked=b""):
    os.environ["GPUFIT_ESTIMATE_LIMIT"] = limit
    kernel, channel = socket.socketpair()
    kernel.sendall(asked)
    sys.argv = ["worker", str(channel.detach())]
    child.main()
    print("torch" in sys.modules, "jupyter_gpufit.estimate.tracing.child" in sys.modules)

child.receive = lambda channel: None
print("torch" in sys.modules)
start("0")
start("60", b"a job")
import torch
def looked_for(*_):
    raise AssertionError("whoever looks for a GPU can have no workers forked that use one")
for name in ("is_available", "device_count", "init", "_lazy_init"):
    setattr(torch.cuda, name, looked_for)
start("60")
"""


def test_only_a_spare_imports_what_traces_and_only_where_cells_are_traced_and_looks_for_no_gpu() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=os.environ, timeout=300)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["False", "True False", "True False", "True True"]

"""The process on the device, spoken to as the desk speaks to it."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_gpufit.calls.protocol import LARGEST, Call, Lying, encode
from jupyter_gpufit.calls.region import SharedRegion
from jupyter_gpufit.deploy.instance import Instance
from jupyter_gpufit.models.taken import models_to_json
from jupyter_gpufit.models.taking import take
from tests.deploy.memory import sealed_memory, unwritable_memory
from tests.models.zoo import affine

pytestmark = pytest.mark.slow


class Standing:
    """One that holds a model of four features and two answers, in a thread."""

    def __init__(self, folder: Path) -> None:
        affine(folder / "net.onnx")
        (folder / "taken.json").write_text(models_to_json({"net": take(folder / "net.onnx", 4, {})}))
        asked = {
            "paths": [str(folder / "net.onnx")],
            "taken": str(folder / "taken.json"),
            "provider": {"names": ["CPUExecutionProvider"], "threads": 1},
            "kind": "slot",
            "room": None,
            "rows": 4,
            "sizes": {},
        }
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.loads, their_loads = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.thread = threading.Thread(
            target=self._work, args=(Instance(asked, theirs, their_loads), theirs, their_loads)
        )
        self.thread.start()
        assert "loaded" in json.loads(self.channel.recv(LARGEST))

    def _work(self, instance: Instance, channel: socket.socket, loads: socket.socket) -> None:
        with channel, loads:  # whoever waits for an answer hears that it has ended
            instance.work()

    def know(self, region: int, *fds: int) -> None:
        socket.send_fds(self.channel, [encode({"do": "know", "region": region})], list(fds))

    def run(self, region: int, rows: int = 1) -> dict[str, Any]:
        call = Call((Lying("float32", (rows, 4), 0),), 64)
        self.channel.send(encode({"do": "run", "model": 0, "calls": [{"region": region, "call": call.said}]}))
        [answer] = json.loads(self.channel.recv(LARGEST))["done"]
        return dict(answer)

    def close(self) -> None:
        self.channel.close()
        self.loads.close()  # its thread ends with it
        self.thread.join()


@pytest.fixture
def standing(tmp_path: Path) -> Iterator[Standing]:
    with closing(Standing(tmp_path)) as found:
        yield found


def test_memory_that_cannot_be_used_is_an_error_of_the_call_that_brought_it(standing: Standing) -> None:
    """The desk looks at it before, and its owner can seal it meanwhile."""
    for number, fd in enumerate(unwritable_memory()):
        standing.know(number, fd)
        os.close(fd)
        assert "ermi" in standing.run(number)["failed"]  # PermissionError, "not permitted"
    standing.know(4)  # no descriptor was free for it
    assert "no descriptor" in standing.run(4)["failed"]
    region = SharedRegion.make(4096)
    with closing(region):
        region.array(Lying("float32", (1, 4), 0))[...] = np.ones((1, 4))
        standing.know(5, region.fd)
        assert standing.run(5)["outputs"]


def test_no_rows_need_no_memory(standing: Standing) -> None:
    fd = sealed_memory(0, size=0)
    standing.know(1, fd)
    os.close(fd)
    assert standing.run(1, rows=0)["outputs"] == [["float32", [0, 2], 64]]

"""`python -m jupyter_gpufit.deploy.instance`: the process on the device. It holds one session, and ends to leave.

It is spoken to over a socket pair, and does one thing at a time. When the job's process is gone it ends at once, also
in the middle of a run: nobody may use a device without a claim, nor answer for nobody.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..calls.protocol import LARGEST, Call, Lying, encode, lay_out
from ..calls.region import SharedRegion
from ..devices.device import Kind
from ..errors import GpufitError
from ..models.taken import TakenModel
from .providers import Provider
from .session import Arrays, Model, first_line, load


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked: dict[str, Any] = json.loads(sys.argv[1])
    channel = socket.socket(fileno=int(sys.argv[2]))
    threading.Thread(target=_end_with, args=(int(sys.argv[3]),), daemon=True).start()
    allow_many_files()
    Instance(asked, channel).work()


def allow_many_files() -> None:
    """Each who calls brings a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _end_with(life: int) -> None:
    os.read(life, 1)  # nothing is ever written: it returns when the other end is gone
    os._exit(1)


class Instance:
    """One model on one device."""

    def __init__(self, asked: Mapping[str, Any], channel: socket.socket) -> None:
        self._asked = asked
        self._channel = channel
        self._regions: dict[int, SharedRegion] = {}
        self._rows: int = asked["rows"]

    def work(self) -> None:
        try:
            self._load()
        except GpufitError as error:
            return self._say({"failed": str(error)})
        except Exception as error:  # ONNX Runtime's own, of many kinds
            return self._say({"failed": f"ONNX Runtime cannot load it: {first_line(error)}."})
        while self._hear():
            pass

    def _load(self) -> None:
        asked = self._asked
        taken = TakenModel.from_json(Path(asked["taken"]).read_text())
        provider = Provider(**{**asked["provider"], "names": tuple(asked["provider"]["names"])})
        kind: Kind = asked["kind"]
        took = _took(kind)
        self._model, loaded = load(
            lambda: Model(asked["path"], taken.signature, provider), self._rows, asked["sizes"], took
        )
        self._say({"loaded": loaded.to_record()})

    def _say(self, message: Mapping[str, Any]) -> None:
        self._channel.send(encode(message))

    def _hear(self) -> bool:
        packet, fds, _, _ = socket.recv_fds(self._channel, LARGEST, 1)
        if not packet:
            return False
        message: dict[str, Any] = json.loads(packet)
        match message["do"]:
            case "know":
                self._regions[message["region"]] = SharedRegion(fds[0])
            case "forget":
                if (region := self._regions.pop(message["region"], None)) is not None:
                    region.close()
            case "run":
                began = time.perf_counter()
                answers = self._answers([(one["region"], Call.of(one["call"])) for one in message["calls"]])
                self._say({"done": answers, "seconds": time.perf_counter() - began})
        return True

    def _answers(self, calls: list[tuple[int, Call]]) -> list[dict[str, Any]]:
        try:
            given = [[self._regions[at].array(one) for one in call.inputs] for at, call in calls]
            if len(calls) == 1:
                found = [self._alone(given[0])]
            else:
                found = self._model.run_together(given, self._rows)
            return [self._written(*call, answers) for call, answers in zip(calls, found, strict=True)]
        except Exception as error:  # the model's: by its input, say
            if len(calls) > 1:
                return [one for call in calls for one in self._answers([call])]
            return [{"failed": f"{first_line(error)}."}]

    def _alone(self, given: Arrays) -> Arrays:
        if self._model.signature.may_batch:
            return self._model.run_in_parts(given, self._rows)
        return self._model.run(given)

    def _written(self, region: int, call: Call, answers: Arrays) -> dict[str, Any]:
        places, end = lay_out([one.nbytes for one in answers], call.out)
        memory = self._regions[region]
        memory.ensure(end)
        lying = [Lying(one.dtype.name, one.shape, at) for one, at in zip(answers, places, strict=True)]
        for one, place in zip(answers, lying, strict=True):
            memory.array(place)[...] = one
        return {"outputs": [place.said for place in lying]}


def _took(kind: Kind) -> Callable[[], int]:
    """A reader of what this process has taken of its device at most, in bytes."""
    if kind != "slot":
        return _gpu_took
    return lambda: _resident("VmHWM")  # of the whole process: it is there for the model alone


def _gpu_took() -> int:
    """As the driver sees this process; 0 where it cannot tell."""
    from ..devices.nvml import read_gpus

    ours = [one.bytes for device in read_gpus() for one in device.processes if one.pid == os.getpid()]
    return sum(one or 0 for one in ours)


def _resident(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


if __name__ == "__main__":
    main()

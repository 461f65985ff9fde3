"""`python -m jupyter_gpufit.deploy.instance`: the process on the device. It holds the sessions, and ends to leave.

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
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

from ..calls.protocol import LARGEST, Call, Lying, encode, lay_out
from ..calls.region import SharedRegion
from ..devices.device import Kind
from ..errors import GpufitError
from ..models.shell import WHOLE
from ..models.signature import Signature
from ..models.taken import models_from_json
from ..system.identity import kernel_text
from .loader import Loader, timed
from .providers import Provider
from .residents import Residents
from .session import Arrays, LoadedModels, Model, first_line, tried
from .shells import ShellModel


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked: dict[str, Any] = json.loads(sys.argv[1])
    channel = socket.socket(fileno=int(sys.argv[2]))
    loads = socket.socket(fileno=int(sys.argv[3]))
    threading.Thread(target=_end_with, args=(int(sys.argv[4]),), daemon=True).start()
    allow_many_files()
    Instance(asked, channel, loads).work()


def allow_many_files() -> None:
    """Each who calls brings a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _end_with(life: int) -> None:
    os.read(life, 1)  # nothing is ever written: it returns when the other end is gone
    os._exit(1)


class Instance:
    """One model on one device, or several of which one runs at a time."""

    def __init__(self, asked: Mapping[str, Any], channel: socket.socket, loads: socket.socket) -> None:
        self._asked = asked
        self._channel = channel
        self._loads = loads
        self._regions: dict[int, SharedRegion] = {}
        self._rows: int = asked["rows"]

    def work(self) -> None:
        try:
            self._load()
        except GpufitError as error:
            return self._say({"failed": str(error)})
        except Exception as error:  # ONNX Runtime's own, of many kinds
            return self._say({"failed": f"ONNX Runtime cannot load it: {first_line(error)}."})
        self._loader = Loader(self._models, self._loads)
        while self._hear():
            pass

    def _load(self) -> None:
        began, asked = time.monotonic(), self._asked
        taken = models_from_json(Path(asked["taken"]).read_text())
        provider = Provider(**{**asked["provider"], "names": tuple(asked["provider"]["names"])})
        kind: Kind = asked["kind"]
        self._models = [
            self._model(Path(path), one.signature, provider)
            for path, one in zip(asked["paths"], taken.values(), strict=True)
        ]
        residents = Residents([model.weights for model in self._models], asked["room"] or 0)
        found = []
        for number, model in enumerate(self._models):
            for leaving in residents.use(number) if model.weights else ():
                self._models[leaving].evict()
            found.append(tried(model, self._rows, asked["sizes"], timed(model.load)))
        loaded = LoadedModels(
            seconds=time.monotonic() - began,
            took=_took(kind),
            models=tuple(found),
            room=residents.room,
            inside=residents.inside,
        )
        self._say({"loaded": loaded.to_record()})

    def _model(self, path: Path, signature: Signature, provider: Provider) -> Model:
        if not path.is_dir():
            return Model(str(path), signature, provider)
        if self._asked["room"] is None:
            return Model(str(path / WHOLE), signature, provider, shared=True)
        return ShellModel(path, signature, provider)

    def _say(self, message: Mapping[str, Any]) -> None:
        self._channel.send(encode(message))

    def _hear(self) -> bool:
        packet, fds, _, _ = socket.recv_fds(self._channel, LARGEST, 1)
        if not packet:
            return False
        message: dict[str, Any] = json.loads(packet)
        match message["do"]:
            case "know" if fds:  # else no descriptor was free, which the call that needs it is told
                self._regions[message["region"]] = SharedRegion(fds[0])
            case "forget":
                if (region := self._regions.pop(message["region"], None)) is not None:
                    region.close()
            case "run":
                self._say(self._run(message))
        return True

    def _run(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Unless it is too late for it: what cannot begin in time is not done at all."""
        model = self._models[message["model"]]
        waited, loading = timed(lambda: self._loader.wait(message.get("after", 0))), 0.0
        for leaving in message.get("leaving", ()):
            self._models[leaving].evict()
        late = time.monotonic() > message.get("latest", inf)
        if message.get("load"):
            loading = 0.0 if late else timed(model.load)
            self._loader.loaded_in_run()
        if late:
            return {"late": True}
        began = time.perf_counter()
        answers = self._answers(model, [(one["region"], Call.of(one["call"])) for one in message["calls"]])
        return {"done": answers, "seconds": time.perf_counter() - began, "loading": loading, "waited": waited}

    def _answers(self, model: Model, calls: list[tuple[int, Call]]) -> list[dict[str, Any]]:
        try:
            given = [[self._region(at).array(one) for one in call.inputs] for at, call in calls]
            if len(calls) == 1:
                found = [self._alone(model, given[0])]
            else:
                found = model.run_together(given, self._rows)
            return [self._written(*call, answers) for call, answers in zip(calls, found, strict=True)]
        except Exception as error:  # the model's: by its input, say; or by memory that its owner has sealed meanwhile
            if len(calls) > 1:
                return [one for call in calls for one in self._answers(model, [call])]
            return [{"failed": f"{first_line(error)}."}]

    def _alone(self, model: Model, given: Arrays) -> Arrays:
        return model.run_in_parts(given, self._rows) if model.signature.may_batch else model.run(given)

    def _written(self, region: int, call: Call, answers: Arrays) -> dict[str, Any]:
        places, end = lay_out([one.nbytes for one in answers], call.out)
        memory = self._region(region)
        memory.ensure(end)
        lying = [Lying(one.dtype.name, one.shape, at) for one, at in zip(answers, places, strict=True)]
        for one, place in zip(answers, lying, strict=True):
            memory.array(place)[...] = one
        return {"outputs": [place.said for place in lying]}

    def _region(self, number: int) -> SharedRegion:
        if number not in self._regions:
            raise OSError("no descriptor was free for the memory of the call")
        return self._regions[number]


def _took(kind: Kind) -> int:
    """What this process has taken of its device at most, in bytes; on a slot all of it is there for the models."""
    return _resident("VmHWM") if kind == "slot" else _gpu_took()


def _gpu_took() -> int:
    """As the driver sees this process; 0 where it cannot tell."""
    from ..devices.nvml import read_gpus

    ours = [one.bytes for device in read_gpus() for one in device.processes if one.pid == os.getpid()]
    return sum(one or 0 for one in ours)


def _resident(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", kernel_text("/proc/self/status"))
    return int(found[1]) * 1024 if found else 0


if __name__ == "__main__":
    main()

"""A process that reads the devices when asked: a line in, a line of JSON out.

One process serves many tests, each of which changes the world under it. `anew` stands for a process that just started.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from types import TracebackType
from typing import Any

from jupyter_gpufit.devices import nvml
from jupyter_gpufit.devices.here import read_devices
from jupyter_gpufit.errors import GpufitError
from jupyter_gpufit.settings import Settings

from . import FakeNvml


class Refused(Exception):
    """The reading ended in one of our errors: its class's name, and its sentence."""


class Reader:
    """The asking side."""

    def __init__(self, fake: FakeNvml) -> None:
        self.fake = fake
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], env=fake.env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def read(self) -> list[dict[str, Any]]:
        """The devices as JSON."""
        devices: list[dict[str, Any]] = self._ask("read")
        return devices

    def driver(self) -> dict[str, str]:
        driver: dict[str, str] = self._ask("driver")
        return driver

    def close_nvml(self) -> None:
        self._ask("close")

    def anew(self) -> None:
        self._ask("anew")

    def _ask(self, what: str) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise Refused(answer["error"], answer["says"])
        return answer["answer"]

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # the end of its input is its end


def _answer(what: str) -> object:
    match what:
        case "read":
            return [
                asdict(device) for device in read_devices(Settings(devices="gpu"))
            ]  # by that word, no slot comes instead
        case "driver":
            return asdict(nvml.read_driver())
        case "close":
            nvml.close_nvml()
            return None
        case "anew":
            nvml.close_nvml()
            nvml._nvml = nvml.Nvml()
            return None
    raise AssertionError(what)


def _serve() -> None:
    for line in sys.stdin:
        try:
            reply: dict[str, object] = {"answer": _answer(line.strip())}
        except GpufitError as error:
            reply = {"error": type(error).__name__, "says": str(error)}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()

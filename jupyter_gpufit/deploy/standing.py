"""An instance as the job's process sees it: started on what was granted, heard of, ended."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import anyio
import anyio.to_thread

from ..calls.protocol import LARGEST, encode
from ..errors import CouldNotDeploy
from ..jobs.job import Deployed
from ..jobs.paths import JobPaths
from ..lab import Granted
from ..system import processes
from ..system.foreign import parsed_record
from ..system.signals import name_of
from .providers import Provider
from .session import LoadedModels

ENDING = 10.0  # seconds that it may take to end by itself


@dataclass
class StandingInstance:
    """One process on a device."""

    process: subprocess.Popen[bytes]
    channel: socket.socket
    loads: socket.socket  # what is loaded while it runs something else
    life: int  # as long as this is open, it lives
    label: str  # of its device
    loaded: LoadedModels | None = None
    ordered: int = 0  # loads over that channel
    in_runs: int = 0  # loads that were ordered with a run

    @classmethod
    def start(
        cls, model: Deployed, paths: JobPaths, granted: Granted, provider: Provider, room: int | None
    ) -> StandingInstance:
        """Start it with the claim's lock: the claim lives as long as the process does."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        our_loads, their_loads = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        our_loads.setblocking(False)
        reading, life = os.pipe2(os.O_CLOEXEC)
        device = granted.devices[0]
        asked = {
            "paths": [str(paths.input / one) for one in model.files.values()],
            "room": room,  # bytes for weights that come and go; None: all are there at once
            "taken": str(paths.model),
            "kind": device.kind,
            "provider": asdict(provider),
            "rows": model.rows,
            "sizes": model.sizes,
        }
        their_ends = (theirs.fileno(), their_loads.fileno(), reading)
        try:
            with open(paths.log, "ab") as log:
                process = processes.start(
                    *("deploy.instance", json.dumps(asked), *map(str, their_ends)),
                    env=environment(granted),
                    descriptors=[*their_ends, *granted.fds],
                    stdout=log,
                    stderr=log,
                )
        except BaseException:
            ours.close()
            our_loads.close()
            os.close(life)
            raise
        finally:
            theirs.close()
            their_loads.close()
            os.close(reading)
        return cls(process, ours, our_loads, life, device.label)

    async def load(self, name: str) -> LoadedModels:
        """Wait until it can answer; raises CouldNotDeploy where it cannot."""
        self.channel.setblocking(False)
        while True:
            await anyio.wait_readable(self.channel)
            try:
                packet = self.channel.recv(LARGEST)
                break
            except BlockingIOError:
                continue
        if not packet:
            raise CouldNotDeploy(name, f"its process ended unexpectedly while it was loaded ({await self.end()}).")
        said = parsed_record(packet)
        if "failed" in said:
            raise CouldNotDeploy(name, str(said["failed"]))
        self.loaded = LoadedModels.from_record(said["loaded"])
        return self.loaded

    def say(self, message: Mapping[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Blocks while it does not read: it has as much to do as it can."""
        packet = encode(message)
        while True:
            try:
                if fds:
                    socket.send_fds(self.channel, [packet], list(fds))
                else:
                    self.channel.send(packet)
                return
            except BlockingIOError:
                select.select([], [self.channel], [])

    def load_ahead(self, model: int, leaving: Sequence[int]) -> None:
        """Have a model's weights loaded, and the others' evicted, whatever runs."""
        self.loads.send(encode({"model": model, "leaving": leaving, "after": self.in_runs}))
        self.ordered += 1

    async def end(self) -> str:
        """Have it end, and wait for that, so that nothing of it stays on its device; how it ended, in words."""
        self.close()
        with anyio.move_on_after(ENDING, shield=True) as patience:
            await anyio.to_thread.run_sync(self.process.wait, abandon_on_cancel=True)
        if patience.cancelled_caught:
            self.process.kill()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.process.wait)
        return how_it_ended(self.process.returncode)

    def close(self) -> None:
        """Let go of it: it ends."""
        self.channel.close()
        self.loads.close()
        if self.life >= 0:
            os.close(self.life)
            self.life = -1


def environment(granted: Granted) -> dict[str, str]:
    """It sees what was granted and no other device."""
    gpus = [device.uuid for device in granted.devices if device.kind != "slot"]
    return {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(gpus), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def how_it_ended(code: int) -> str:
    """ "it was ended by SIGKILL" """
    if code >= 0:
        return f"exit code {code}"
    return f"it was ended by {name_of(-code)}"


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0))

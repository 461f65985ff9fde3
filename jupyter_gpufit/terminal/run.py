"""`gpufit run -- python train.py`: people outside notebooks wait in the same queue and hold the same claims.

    queue -> claim -> start the command -> wait for its end -> release

The command stays in our process group, so that the terminal is its own. It inherits the claim's lock: the claim lives
as long as the command, or whatever it forked, even if this process is killed. Its memory is not enforced, since we
know nothing of what it runs.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio import CancelScope, to_thread

from ..devices.device import Device
from ..devices.here import read_devices_async
from ..errors import CommandError, DeviceError, NoSuchCommand, NotExecutable
from ..jobs.job import new_job_id
from ..lab import Granted, Request, Waiting, claim, open_lab
from ..lab.holder import keep
from ..settings import Settings
from ..system.identity import ProcessId
from ..system.once import is_news
from ..system.signals import Signals
from ..units import device_words, format_bytes
from .said import Said

PATIENCE = 5.0  # seconds for the driver to say what is wrong with it
NEVER_NAMES = ("-c", "-")  # of Python: what follows is no script


async def run(command: Sequence[str], request: Request, settings: Settings, said: Said, signals: Signals) -> int:
    """Run the command on what the lab grants; its exit code, as a shell would tell it."""
    _check(command[0])
    return await _Run(command, request, settings, said).run(signals)


def request_for(
    command: Sequence[str], *, name: str | None, memory: int | None, gpu: str, count: int, exclusive: bool
) -> Request:
    """What `gpufit run` asks of the lab."""
    return Request(
        job_id=new_job_id(),
        name=name or name_of(command),
        label=shlex.join(command),
        needed=memory,
        exclusive=exclusive,
        gpu=gpu,
        count=count,
    )


def name_of(command: Sequence[str]) -> str:
    """What people would call it: "train" for python -u train.py --lr 3, "pkg.train" for python -m pkg.train."""
    program = Path(command[0]).name
    if not program.startswith(("python", "torchrun", "accelerate")):
        return program
    words = iter(command[1:])
    for word in words:
        if word in NEVER_NAMES:
            break
        if word == "-m":
            return next(words, program)
        if word.endswith(".py"):
            return Path(word).stem
    return program


def environment(granted: Granted) -> dict[str, str]:
    """What the command finds in its environment beside ours."""
    gpus = [device.uuid for device in granted.devices if device.kind != "slot"]
    return {
        # By UUID, and in place of an inherited one: nvidia-smi's order is not CUDA's. On a slot, no GPU at all.
        "CUDA_VISIBLE_DEVICES": ",".join(gpus),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "GPUFIT_DEVICE": ",".join(device.label for device in granted.devices),
        "GPUFIT_MEMORY": str(granted.bytes),
        "GPUFIT_CLAIM": granted.claim.id,
    }


@dataclass
class _Run:
    """One command, from the queue to its end."""

    command: Sequence[str]
    request: Request
    settings: Settings
    said: Said
    child: ProcessId | None = None
    left_by: int = 0  # the signal that ended the waiting
    queueing: CancelScope = field(default_factory=CancelScope)
    refreshing: CancelScope = field(default_factory=CancelScope)

    async def run(self, signals: Signals) -> int:
        lab = open_lab(self.settings, waits=True)
        code = 0
        async with anyio.create_task_group() as group:
            group.start_soon(self._obey, signals)
            group.start_soon(self._refresh)
            with self.queueing:
                async with claim(lab, self.request, self._look, self._waiting) as granted:
                    if not self.queueing.cancel_called:
                        if granted.remark and is_news(self.settings, granted.remark):
                            self.said.line(granted.remark)
                        code = await self._hold(granted)
                        await self._explain(code, granted)
            group.cancel_scope.cancel()
        if self.left_by:
            self.said.line(f"{self.request.name} left the queue.")
            return 128 + self.left_by
        return code

    def _waiting(self, waiting: Waiting) -> None:
        self.said.passing(lambda now: f"{self.request.name} waits: {waiting.sentence(now)}")

    async def _refresh(self) -> None:
        with self.refreshing:
            await self.said.refresh()

    async def _look(self) -> Sequence[Device]:
        return await read_devices_async(self.settings)

    async def _obey(self, signals: Signals) -> None:
        """Leave the queue at the first signal; once the command runs, pass signals on."""
        async for sent in signals.sent():
            if self.child is None:
                self.left_by = sent.number
                self.queueing.cancel()
            elif not sent.by_terminal:  # else the terminal has sent it to the whole group, and so to the command
                if sent.stranger:
                    self.said.line(f"{sent.stranger} sent {signal.Signals(sent.number).name}; it is passed on.")
                self.child.signal(signal.Signals(sent.number))

    async def _hold(self, granted: Granted) -> int:
        self.refreshing.cancel()
        for sentence in self._begin(granted):
            self.said.line(sentence)
        pid = _start(self.command, granted)
        self.child = ProcessId.of(pid)
        self.queueing.shield = True  # whatever happens to us, the command is waited for
        await _close_driver(granted)
        async with anyio.create_task_group() as group:
            group.start_soon(keep, granted, self.said.line)
            code = await _end_of(pid)
            group.cancel_scope.cancel()
        return code

    def _begin(self, granted: Granted) -> list[str]:
        where = device_words([device.label for device in granted.devices])
        each = " each" if len(granted.devices) > 1 else ""
        sentences = [f"{self.request.name} runs on {where} ({format_bytes(granted.bytes)}{each})."]
        if granted.devices[0].kind == "slot":
            much = format_bytes(granted.bytes)
            sentences.append(
                f"On a CPU slot the command sees no GPU. Others leave {much} to it; whether it takes more is up to it."
            )
        return sentences

    async def _explain(self, code: int, granted: Granted) -> None:
        """Where the command failed because its device did, say so."""
        if code == 0 or granted.devices[0].kind == "slot":
            return
        held = {device.uuid: device for device in granted.devices}
        try:
            with anyio.move_on_after(PATIENCE):
                for device in await self._look():
                    if device.uuid in held and device.problem:
                        self.said.line(f"{device_words([device.label])} has a problem: {device.problem}")
        except DeviceError as error:
            self.said.line(str(error))


def _check(program: str) -> None:
    """Refuse before the queue what could not be started after it."""
    if shutil.which(program) is not None:
        return
    if os.path.dirname(program) and os.path.exists(program):
        raise NotExecutable(program, "it is a directory" if os.path.isdir(program) else "it is not executable")
    raise NoSuchCommand(program)


def _start(command: Sequence[str], granted: Granted) -> int:
    for fd in granted.fds:
        os.set_inheritable(fd, True)
    try:
        # Not subprocess: it cannot give the child back the signals that we have blocked.
        return os.posix_spawnp(
            command[0],
            list(command),
            os.environ | environment(granted),
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # which Python ignores
        )
    except OSError as error:
        raise _not_started(command[0], error) from error
    finally:
        for fd in granted.fds:
            os.set_inheritable(fd, False)


async def _close_driver(granted: Granted) -> None:
    """Let go of the driver, which could not be updated, nor the GPU reset, as long as we had it open."""
    if granted.devices[0].kind != "slot":
        from ..devices.nvml import close_nvml

        await to_thread.run_sync(close_nvml, abandon_on_cancel=True)


def _not_started(program: str, error: OSError) -> CommandError:
    if isinstance(error, FileNotFoundError) and shutil.which(program) is None:
        return NoSuchCommand(program)
    return NotExecutable(program, error.strerror or str(error))


async def _end_of(pid: int) -> int:
    """Wait for our child; its exit code, or 128 and its signal."""
    fd = os.pidfd_open(pid)
    try:
        await anyio.wait_readable(fd)
    finally:
        os.close(fd)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])  # noqa: ASYNC222 - it has ended
    return code if code >= 0 else 128 - code

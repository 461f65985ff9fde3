"""People who type `gpufit` into terminals: real processes, each as a user of its own where the tests run as root."""

from __future__ import annotations

import io
import os
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.terminal import cli

PATIENCE = 300.0  # seconds: for what must come; never a measure of speed
ADA, BOB, EVE = 61001, 61002, 61003


@dataclass
class Said:
    """One of the two things a process writes to."""

    fd: int
    text: str = ""
    heard: int = 0  # characters
    ended: bool = False


@dataclass
class Typed:
    """A `gpufit` that somebody started."""

    pid: int
    out: Said
    err: Said
    code: int | None = None

    def hear(self, wanted: str) -> str:
        """Wait until it has said this, on stdout or stderr, and return all that it said there up to now."""
        deadline = time.monotonic() + PATIENCE
        while True:
            for said in (self.out, self.err):
                at = said.text.find(wanted, said.heard)
                if at >= 0:
                    said.heard = at + len(wanted)
                    return said.text
            assert self._listen(deadline), f"it ended without {wanted!r}: {self.out.text}\n{self.err.text}"

    def end(self) -> int:
        """Wait for its end; its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._listen(deadline):
            pass
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def clear_up(self) -> None:
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.code = -signal.SIGKILL
        for said in (self.out, self.err):
            os.close(said.fd)

    def _listen(self, deadline: float) -> bool:
        """Take in what it says next; False at the end of both."""
        going_on = [said for said in (self.out, self.err) if not said.ended]
        if not going_on:
            return False
        ready = select.select([said.fd for said in going_on], [], [], max(0.0, deadline - time.monotonic()))[0]
        assert ready, f"nothing was said for too long: {self.out.text}\n{self.err.text}"
        for said in going_on:
            if said.fd in ready:
                more = os.read(said.fd, 1 << 16)
                said.text, said.ended = said.text + more.decode(), not more
        return True


@dataclass
class Town:
    """A machine with a lab and people."""

    lab: Path
    homes: Path
    devices: str = "cpu:2x4GiB"
    more: dict[str, str] = field(default_factory=dict)  # environment
    typed: list[Typed] = field(default_factory=list)

    def env(self, uid: int | None = None) -> dict[str, str]:
        """The environment of a person: a home of their own, and the lab that all share."""
        home = self.homes / str(os.geteuid() if uid is None else uid)
        if not home.exists():
            home.mkdir(mode=0o700)
            os.chown(home, *((-1, -1) if uid is None else (uid, uid)))
        given = {name: value for name, value in os.environ.items() if not name.startswith(("GPUFIT_", "XDG_", "CUDA_"))}
        mine = {"HOME": str(home), "GPUFIT_RUNTIME": str(home / "run"), "GPUFIT_LAB": str(self.lab)}
        return given | mine | {"GPUFIT_DEVICES": self.devices} | self.more

    def types(self, *arguments: str, uid: int | None = None) -> Typed:
        """Start `gpufit` with these arguments, as that user."""
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        pid = (_spawn if uid is None else _fork)(arguments, self.env(uid), out_end, err_end, uid)
        for fd in (out_end, err_end):
            os.close(fd)
        self.typed.append(Typed(pid, Said(out), Said(err)))
        return self.typed[-1]

    def asks(self, *arguments: str, uid: int | None = None) -> str:
        """What a `gpufit` that must succeed says."""
        typed = self.types(*arguments, uid=uid)
        code = typed.end()
        assert code == 0, typed.err.text
        return typed.out.text

    def holds(self, name: str, *options: str, uid: int | None = None) -> Typed:
        """Somebody who holds what the options say, until the end of the test or a signal."""
        typed = self.types("run", "--name", name, *options, "--", "bash", "-c", HOLD, uid=uid)
        typed.hear("holding")
        return typed


HOLD = "echo holding; exec sleep 1000"


def _spawn(arguments: tuple[str, ...], env: dict[str, str], out: int, err: int, _: int | None) -> int:
    """The real program."""
    command = [sys.executable, "-m", "jupyter_gpufit.terminal.cli", *arguments]
    devnull = os.open(os.devnull, os.O_RDONLY)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, devnull, 0), (os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2)]
        return os.posix_spawn(sys.executable, command, env, file_actions=actions)
    finally:
        os.close(devnull)


def _fork(arguments: tuple[str, ...], env: dict[str, str], out: int, err: int, uid: int | None) -> int:
    """A copy of this process that becomes the user: Python itself may lie where that user cannot read it."""
    assert uid is not None
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.environ.clear()
        os.environ.update(env)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout, sys.stderr = (io.TextIOWrapper(open(fd, "wb", buffering=0), write_through=True) for fd in (1, 2))
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        os.chdir("/")
        sys.argv = ["gpufit", *arguments]
        cli.main()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException as error:
        os.write(2, f"{error!r}".encode())
    finally:
        os._exit(code)  # whatever happens, it never goes on as a second pytest


def make_shared(path: Path) -> None:
    """Make the directory a lab as `gpufit lab init` does."""
    path.mkdir(exist_ok=True)
    path.chmod(0o1777)
    (path / "mutex").touch()
    (path / "mutex").chmod(0o666)


def preload() -> None:
    """Load what is loaded late: a child that became another user may not be able to read it."""
    from jupyter_gpufit.devices import nvml
    from jupyter_gpufit.system import signals
    from jupyter_gpufit.terminal import run, said

    assert nvml and run and said and signals
    # In a thread: the main one's event loop belongs to the tests of others.
    loading = threading.Thread(target=anyio.run, args=(anyio.sleep, 0))
    loading.start()
    loading.join()
    subprocess.run(["true"], check=True)


def need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: what users do to each other. Run the tests as root, in a container, to test it.")

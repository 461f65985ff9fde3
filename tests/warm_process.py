"""The process behind tests/warm.py: it has imported what others need, and forks one for each that is wanted.

    python warm_process.py FD MODULES HIDDEN

It has one thread. Each process that it forks runs `python -m MODULE ARGUMENTS`, with an environment, a directory and
descriptors of its own, in a session of its own. What is imported as hidden is taken away from it again, until it
imports it itself: it begins as any other, and only has to wait less.

It knows nothing of the tests: a kernel that it forks must not find modules that it would not have otherwise.
"""

from __future__ import annotations

import gc
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from jupyter_gpufit.system import ending, processes

MOST = 1 << 20  # bytes of a message
CHANNELS = "TESTS_WARM_CHANNELS"  # in a process's environment: the descriptors by which to ask for others
# What a library, or Python itself, reads of the environment as it begins; a forked process comes too late for it. What
# stands in PYTHONPATH it gets.
_AT_IMPORT = ("PYTHON", "OMP_", "MKL_", "OPENBLAS_", "LD_", "TORCH_", "KMP_", "GOMP_", "GLIBC_", "MALLOC_")
_GIVEN = 450  # the first descriptor of those by which a process asks for others
HIGH = 500  # descriptors that arrive are moved out of the way of the numbers that they are to have


@dataclass
class Hidden:
    """A finder of modules that are here already: each package, when it is imported, and all of them with the last."""

    modules: dict[str, ModuleType]
    last: str
    packages: dict[str, ModuleType]  # that were there before and hold one, by its name

    @classmethod
    def importing(cls, name: str) -> Hidden:
        before = set(sys.modules)
        import_module(name)
        found = {key: module for key, module in sys.modules.items() if key not in before}
        packages: dict[str, ModuleType] = {}
        for key, module in found.items():
            package, _, inner = key.rpartition(".")
            if package in before and getattr(sys.modules[package], "__dict__", {}).get(inner) is module:
                packages[key] = sys.modules[package]
        return cls(found, name, packages)

    def begin(self) -> None:
        for name in self.modules:
            del sys.modules[name]
        for name, package in self.packages.items():
            del vars(package)[name.rpartition(".")[2]]  # a package that has it as its own would import it no more
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        module = self.modules.get(name)
        real = getattr(module, "__spec__", None)
        if module is None or real is None:
            return None
        spec = ModuleSpec(name, cast(Loader, _Again(self, module, real)), origin=real.origin)
        spec.submodule_search_locations = real.submodule_search_locations
        spec.has_location = real.has_location
        spec.cached = real.cached
        return spec

    def show(self, name: str) -> None:
        """Put a package back; with what is hidden of one, only what is asked for of it."""
        package = name.partition(".")[0]
        wanted = [key for key in self.modules if package in (self.last, key.partition(".")[0])]
        if package != self.last and not _is_of(name, self.last):
            wanted = [key for key in wanted if not _is_of(key, self.last)]
        for key in wanted:
            sys.modules[key] = module = self.modules.pop(key)
            if key in self.packages:
                setattr(self.packages[key], key.rpartition(".")[2], module)


def _is_of(name: str, package: str) -> bool:
    return f"{name}.".startswith(f"{package}.")


class _Again:
    """The loader of a module that is loaded; its state must be its own, since whoever waits for it changes it."""

    def __init__(self, hidden: Hidden, module: ModuleType, spec: ModuleSpec) -> None:
        self._hidden, self._module, self._spec = hidden, module, spec

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spec.loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        ModuleType.__setattr__(module, "__spec__", self._spec)  # torch's settings refuse names that they do not know
        self._hidden.show(module.__name__)


@dataclass
class Wanted:
    """One process: what it runs, where, and the numbers of its descriptors, of which the first is not for it."""

    module: str
    arguments: Sequence[str]
    env: dict[str, str]
    directory: str
    numbers: Sequence[int]
    finds_the_directory: bool
    ends_with: int = 0  # a process that it is to die with, if any


class Forked:
    """One of them, as subprocess.Popen would have it."""

    stdin = stdout = stderr = None

    def __init__(self, report: socket.socket) -> None:
        self._report = report
        self._lock = threading.Lock()
        self.returncode: int | None = None
        self.pid = int(report.recv(64) or b"0")
        if not self.pid:
            raise RuntimeError("the process that forks has ended")

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        with self._lock:
            return self._wait(timeout)

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            if not select.select([self._report], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a forked process", timeout or 0)
            self.returncode = int(self._report.recv(64) or b"-9")
            self._report.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def ask(channel: socket.socket, wanted: Wanted, descriptors: Sequence[int]) -> Forked:
    """A process more, by the descriptor of whoever forks it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        socket.send_fds(channel, [json.dumps(asdict(wanted)).encode()], [theirs.fileno(), *descriptors])
    return Forked(ours)


def read_at_import(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_AT_IMPORT) and name != "PYTHONPATH"}


@dataclass
class Forks:
    """Stands in the place of `jupyter_gpufit.system.processes.start` and `start_asking`, and has processes forked."""

    channels: Mapping[str, socket.socket]  # by module
    serves: Mapping[str, str]  # those whose environment has this
    cold: Any
    cold_asking: Any

    def start(
        self,
        module: str,
        *arguments: str,
        python: str = "",
        env: Mapping[str, str] | None = None,
        descriptors: Sequence[int] = (),
        **more: Any,
    ) -> Any:
        env = os.environ if env is None else env
        if module != "worker" or python not in ("", sys.executable) or read_at_import(env) != self.serves:
            return self.cold(module, *arguments, python=python, env=env, descriptors=descriptors, **more)
        numbers = dict(zip(descriptors, descriptors, strict=True))
        given, told = self.as_given([module])
        with open(os.devnull, "rb") as nothing:
            numbers |= {0: nothing.fileno(), 1: more["stdout"].fileno(), 2: more["stderr"].fileno()}
            wanted = Wanted(
                f"jupyter_gpufit.{module}",
                arguments,
                processes.with_our_package(env) | told,
                os.getcwd(),
                [*numbers, *given],
                more["finds_the_notebooks"],
            )
            return ask(self.channels[module], wanted, [*numbers.values(), *given.values()])

    async def start_asking(self, module: str, *, descriptors: Sequence[int] = (), stderr: Any = None) -> Any:
        from anyio.abc import UNIXSocketStream

        serves = read_at_import(processes.of_a_worker(os.environ))
        warm = module in self.channels and serves == self.serves and stderr is not None
        if not warm or not hasattr(UNIXSocketStream, "from_socket"):  # as in anyio 4.7
            return await self.cold_asking(module, descriptors=descriptors, stderr=stderr)
        ours, theirs = socket.socketpair()
        with theirs:
            numbers = dict(zip(descriptors, descriptors, strict=True))
            numbers |= {0: theirs.fileno(), 1: theirs.fileno(), 2: stderr.fileno()}
            env = processes.with_our_package(os.environ)
            wanted = Wanted(f"jupyter_gpufit.{module}", [], env, os.getcwd(), [*numbers], False, os.getpid())
            forked = ask(self.channels[module], wanted, [*numbers.values()])
        return Asked(forked, await UNIXSocketStream.from_socket(ours))

    def as_given(self, but: Sequence[str] = ()) -> tuple[dict[int, int], dict[str, str]]:
        """Descriptors and what an environment says of them, for a process that is to have its own forked, too."""
        given = {one: channel.fileno() for one, channel in self.channels.items() if one not in but}
        told = json.dumps([{one: _GIVEN + number for number, one in enumerate(given)}, dict(self.serves)])
        return {_GIVEN + number: fd for number, fd in enumerate(given.values())}, {CHANNELS: told}


@dataclass
class Asked:
    """One that is asked on its stdin, as anyio.open_process would have it."""

    forked: Forked
    stdin: Any

    @property
    def stdout(self) -> Any:
        return self.stdin

    @property
    def pid(self) -> int:
        return self.forked.pid

    @property
    def returncode(self) -> int | None:
        return self.forked.poll()

    async def aclose(self) -> None:
        from anyio.to_thread import run_sync

        await self.stdin.aclose()
        await run_sync(self.forked.wait)


class Warm:
    """Forks until nobody can ask any more."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._reports: dict[int, tuple[int, socket.socket]] = {}  # by pidfd
        self._ends: dict[int, int] = {}  # by that of who is to be outlived by none of its own
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)

    def next(self) -> Wanted | None:
        """Return in each process that is wanted; in this one None, at its end."""
        while True:
            for fd, _ in self._poll.poll():
                if fd in self._ends:
                    self._end_its_own(fd)
                    continue
                if fd != self._channel.fileno():
                    self._has_ended(fd)
                    continue
                message, descriptors, _, _ = socket.recv_fds(self._channel, MOST, 250)
                if not message:
                    return None
                wanted = Wanted(**json.loads(message))
                if self._is_begun(wanted, descriptors):
                    return wanted

    def _is_begun(self, wanted: Wanted, descriptors: list[int]) -> bool:
        """Whether this is the new process."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: numpy's are ended before each fork
            pid = os.fork()
        if pid == 0:
            self._channel.close()
            for fd in self._ends:
                os.close(fd)
            for fd, (_, report) in self._reports.items():
                os.close(fd)
                report.close()
            _begin(wanted, descriptors)
            return True
        report = socket.socket(fileno=descriptors[0])
        for descriptor in descriptors[1:]:
            os.close(descriptor)
        fd = os.pidfd_open(pid)
        self._reports[fd] = (pid, report)
        self._poll.register(fd, select.POLLIN)
        if wanted.ends_with:
            self._watch(wanted.ends_with, pid)
        with suppress(OSError):
            report.send(str(pid).encode())
        return False

    def _watch(self, whom: int, pid: int) -> None:
        try:
            fd = os.pidfd_open(whom)
        except ProcessLookupError:
            os.kill(pid, signal.SIGKILL)
            return
        self._ends[fd] = pid
        self._poll.register(fd, select.POLLIN)

    def _end_its_own(self, fd: int) -> None:
        self._poll.unregister(fd)
        os.close(fd)
        self._kill(self._ends.pop(fd))

    def _kill(self, pid: int) -> None:
        if any(pid == one for one, _ in self._reports.values()):  # else it has been waited for
            os.kill(pid, signal.SIGKILL)

    def _has_ended(self, fd: int) -> None:
        pid, report = self._reports.pop(fd)
        self._poll.unregister(fd)
        os.close(fd)
        for watched in [watched for watched, its in self._ends.items() if its == pid]:
            del self._ends[watched]
            self._poll.unregister(watched)
            os.close(watched)
        with report, suppress(OSError):
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            report.send(str(code).encode())


def _begin(wanted: Wanted, descriptors: list[int]) -> None:
    """What makes a process of its own of a forked one."""
    import fcntl

    os.setsid()
    os.close(descriptors[0])
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, HIGH) for descriptor in descriptors[1:]]
    for descriptor in descriptors[1:]:
        os.close(descriptor)
    for descriptor, number in zip(high, wanted.numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(wanted.env)
    os.chdir(wanted.directory)
    sys.argv = ["-m", *wanted.arguments]
    sys.orig_argv = [sys.executable, "-m", wanted.module, *wanted.arguments]
    added = [path for path in wanted.env.get("PYTHONPATH", "").split(os.pathsep) if path and path not in sys.path]
    sys.path[:0] = [*([wanted.directory] if wanted.finds_the_directory else []), *added]
    tempfile.tempdir = None
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()


def inherited(given: str) -> Forks:
    """Of those who started this process, by what its environment says of them."""
    fds, serves = json.loads(given)
    for fd in fds.values():
        os.set_inheritable(fd, False)
    channels = {module: socket.socket(fileno=fd) for module, fd in fds.items()}
    return Forks(channels, serves, processes.start, processes.start_asking)


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    del sys.path[0]  # of this file
    for module in filter(None, sys.argv[2].split(",")):
        import_module(module)
    hidden = [Hidden.importing(module) for module in filter(None, sys.argv[3].split(","))]
    gc.collect()
    gc.freeze()
    wanted = Warm(channel).next()
    if wanted is None:
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for one in hidden:
        one.begin()
    if CHANNELS in os.environ:
        forks = inherited(os.environ.pop(CHANNELS))
        processes.start, processes.start_asking = forks.start, forks.start_asking
    if wanted.module.startswith("ipykernel"):
        gc.unfreeze()  # a kernel's objects are looked through
    ours = sys.modules["__main__"]
    sys.modules["__main__"] = sys.modules["__mp_main__"] = ModuleType("__main__")  # also as multiprocessing knows it
    sys.modules["__main__"].__dict__["__builtins__"] = ours.__dict__["__builtins__"]
    try:
        runpy._run_module_as_main(wanted.module)  # type: ignore[attr-defined]  # what `python -m` itself calls
    except SystemExit as left:
        if not isinstance(left.code, int | None):
            raise
        code = left.code or 0
    else:
        code = 0
    ending.end({}, [Path("/")], code)


if __name__ == "__main__":
    main()

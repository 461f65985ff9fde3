"""Starting a Python process of ours: the one way, whatever it is for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..units import MiB

if TYPE_CHECKING:
    from anyio.abc import Process


Stream = IO[Any] | int | None

# A child that another thread forks while a process is being started has a copy of the pipe by which the start is told,
# and whoever starts it waits until that child has ended: a DataLoader's worker, say, at the end of the epoch.
_forks_wait = threading.RLock()
os.register_at_fork(before=_forks_wait.acquire, after_in_parent=_forks_wait.release, after_in_child=_forks_wait.release)


def start(
    module: str,
    *arguments: str,
    python: str = "",  # this one
    package: str = "",  # the folder that has jupyter_gpufit for another Python
    env: Mapping[str, str] | None = None,
    descriptors: Sequence[int] = (),
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = subprocess.DEVNULL,
    stderr: Stream = subprocess.DEVNULL,
    directory: str | None = None,
    own_session: bool = False,
    finds_the_notebooks: bool = False,
) -> subprocess.Popen[bytes]:
    """Run `python -m jupyter_gpufit.<module>` in a group of its own: a Ctrl-C is for whoever started it.

    `own_session`: it outlives a terminal. `finds_the_notebooks`: it imports from the working directory, as a kernel
    does; otherwise a module of the user's could stand in the place of one of ours. `python`: one of another environment
    has its own packages, before which ours must not come.
    """
    here = python in ("", sys.executable)
    with _forks_wait:
        return subprocess.Popen(
            _command(module, arguments, python, finds_the_notebooks),
            pass_fds=descriptors,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=directory,
            start_new_session=own_session,
            process_group=None if own_session else 0,
            env=with_our_package(os.environ if env is None else env, PACKAGE if here else package),
        )


async def start_asking(module: str, *, descriptors: Sequence[int] = (), stderr: Stream = None) -> Process:
    """The same for an event loop: a process in a session of its own, which is asked on its stdin."""
    import anyio  # here: the command line starts faster without

    return await anyio.open_process(
        _command(module, (), sys.executable, False),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        pass_fds=tuple(descriptors),
        env=with_our_package(os.environ),
        start_new_session=True,
    )


def die_with_parent() -> None:
    """Have the system end this process once the thread that started it has ended, however that came about.

    Who asks may be killed while this process is at work; its pipe tells that only to one who reads.
    """
    import ctypes  # here: it takes a while, and most processes never ask

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def forked_die_with_us() -> None:
    """Have what multiprocessing forks in our main thread end with this process, should that be killed.

    Nobody else would end it: processes of environments wait for messages, and each has a copy of the others' pipes, so
    that none of them hears that its own was closed. What another thread forks would end with that thread.
    """
    from multiprocessing.util import register_after_fork  # here: most processes fork nothing

    register_after_fork(threading, _die_with_who_forked)


def _die_with_who_forked(_: object) -> None:
    import multiprocessing

    parent = multiprocessing.parent_process()
    if type(threading.main_thread()).__name__ != "_MainThread" or parent is None:
        return  # forked in another thread, which is the main one here
    die_with_parent()
    if os.getppid() != parent.pid:
        os._exit(1)  # it was killed in between


def deleted_afterwards(path: Path) -> IO[bytes]:
    """Have this folder deleted once nobody has this end of a pipe any more: this process and what it forks.

    However they end: who was killed could not do it, and would leave gigabytes. Who deletes it is no child of ours, for
    a worker that leaves ends those, in the middle of it.
    """
    # A shell gives what runs behind it no stdin but by another descriptor.
    waits = 'exec 3<&0; (read -r _; exec rm -rf -- "$1") <&3 3<&- &'
    with _forks_wait:
        started = subprocess.Popen(
            ["/bin/sh", "-c", waits, "sh", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            env={"PATH": os.defpath},
        )
    assert started.stdin is not None
    started.wait()
    return started.stdin


def _command(module: str, arguments: Sequence[str], python: str, finds_the_notebooks: bool) -> list[str]:
    return [
        python or sys.executable,
        *([] if finds_the_notebooks else ["-P"]),
        "-m",
        f"jupyter_gpufit.{module}",
        *arguments,
    ]


def of_a_worker(env: Mapping[str, str]) -> dict[str, str]:
    """What a worker's process begins with; its cell sees the notebook's own."""
    return with_patient_threads(with_quick_copies(reproducible(env)))


def reproducible(env: Mapping[str, str]) -> dict[str, str]:
    """An environment in which a resumed worker orders its sets, and multiplies its matrices, as the first one did."""
    seed = env.get("PYTHONHASHSEED", "")
    return {
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # without it cuBLAS may choose another algorithm each time
        **env,
        "PYTHONHASHSEED": seed if seed.isascii() and seed.isdigit() else "0",
    }


PACKAGE = str(Path(__file__).absolute().parents[2])  # the folder that has us


def with_our_package(env: Mapping[str, str], ours: str = PACKAGE) -> dict[str, str]:
    """Let the worker import this very package, also where the kernel found it through sys.path alone."""
    if not ours:
        return dict(env)
    given = env.get("PYTHONPATH")
    return {**env, "PYTHONPATH": os.pathsep.join([given, ours] if given else [ours])}


def with_patient_threads(env: Mapping[str, str]) -> dict[str, str]:
    """Let the threads that share an operation sleep until the next one, where the user does not say how they wait.

    They would spin, each on a processor that another training on this machine may need: two on CPU slots, with as many
    threads each as there are processors, took ten to twenty times as long. The number of threads stays, and with it
    each bit; the system shares the processors out. OpenMP reads this as it is loaded; the cell never sees it.
    """
    return {"OMP_WAIT_POLICY": "PASSIVE", **env}


_PAST_THE_CACHES = "glibc.cpu.x86_non_temporal_threshold"


def with_quick_copies(env: Mapping[str, str]) -> dict[str, str]:
    """Let large copies go past the processor's caches, which makes a checkpoint's pause a quarter shorter.

    glibc does so by itself only for copies larger than a share of the last cache: on a server 100 MiB. It reads this
    as the process begins; the cell never sees it. Other processors than x86 do not know the name.
    """
    given = env.get("GLIBC_TUNABLES", "")
    if _PAST_THE_CACHES in given:
        return dict(env)
    return {**env, "GLIBC_TUNABLES": ":".join(filter(None, [given, f"{_PAST_THE_CACHES}={4 * MiB:#x}"]))}

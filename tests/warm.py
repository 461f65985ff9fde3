"""Kernels and workers that begin with torch imported, and commands with theirs: each is a fork of a warm process.

To import torch takes two seconds of a processor, what a command needs a quarter of one, and a run of all tests has
hundreds of processes that do. Whoever tests how a process begins, or what it imports and when, starts a cold one.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from jupyter_gpufit.system import processes
from jupyter_gpufit.system.processes import of_a_worker
from tests import warm_process
from tests.warm_process import Forked, Forks, Wanted, ask, read_at_import

_KERNEL = ("ipykernel.kernelapp", "ipykernel.ipkernel", "ipykernel.zmqshell", "jupyter_gpufit.notebook.magics")
_WORKER = (
    "torch",
    "jupyter_gpufit.worker.child",
    "jupyter_gpufit.snapshot.restore",
    "jupyter_gpufit.snapshot.take",
    "jupyter_gpufit.worker.machine",
    "jupyter_gpufit.worker.shell",
)
_ESTIMATE = (
    "torch",
    "jupyter_gpufit.estimate.asking.look",
    "jupyter_gpufit.estimate.tracing.child",
    "torch.fx.experimental.symbolic_shapes",
    "torch.distributed.tensor",
    "torch._functorch.config",
)
_COMMAND = ("jupyter_gpufit.terminal.cli", "anyio._backends._asyncio")
WARM = EntryPoint("warm", f"{__name__}:WarmKernel", KernelProvisionerFactory.GROUP_NAME)
# What a process runs first that is to be such a server; it finds the tests, and the kernels that it starts do not.
SERVER = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r}); from tests import warm; "
SERVER += "del sys.path[0]; warm.begin_in_a_server()"
cold_start, cold_asking = processes.start, processes.start_asking
_forking: list[subprocess.Popen[bytes]] = []
_lent: list[Forks] = []  # those of who started this server


def forking(imported: Sequence[str], hidden: Sequence[str], env: Mapping[str, str]) -> socket.socket:
    """Start a process that forks; it ends once nobody has this socket any more."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, warm_process.MOST)
        process = subprocess.Popen(
            [sys.executable, warm_process.__file__, str(theirs.fileno()), ",".join(imported), ",".join(hidden)],
            env=dict(env),
            pass_fds=[theirs.fileno()],
            # It may outlive whoever started it, and must not keep its pipes: somebody waits for their end.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    _forking.append(process)  # it is never waited for
    return ours


def kernels(env: Mapping[str, str]) -> socket.socket:
    """Who forks kernels with this environment."""
    return _kernels(frozenset(read_at_import(env).items()))


def forks(env: Mapping[str, str]) -> Forks:
    """Who has the workers and the estimates of a kernel with this environment forked."""
    read = read_at_import(of_a_worker(env))
    return next((one for one in _lent if one.serves == read), None) or _forks(frozenset(read.items()))


@contextmanager
def lent(env: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """What to start a server with that has its workers forked by those who fork ours: arguments of Popen's."""
    given, told = forks(env).as_given()
    for number, fd in given.items():
        os.dup2(fd, number)
    try:
        yield {"env": {**env, **told}, "pass_fds": [*given]}
    finally:
        for number in given:
            os.close(number)


@cache
def _kernels(read: frozenset[tuple[str, str]]) -> socket.socket:
    # ipykernel reads the pid as it is imported: where it is one, a kernel ends once whoever forked it has gone.
    return forking(_KERNEL, ["torch", "torch._dynamo"], _others() | dict(read) | {"JPY_PARENT_PID": str(os.getpid())})


@cache
def _forks(read: frozenset[tuple[str, str]]) -> Forks:
    env = _others() | dict(read)
    channels = {"worker": forking(_WORKER, ["torch._dynamo"], env), "estimate": forking(_ESTIMATE, [], env)}
    return Forks(channels, dict(read), cold_start, cold_asking)


@cache
def _commands(read: frozenset[tuple[str, str]]) -> socket.socket:
    return forking(_COMMAND, [], _others() | dict(read))


def command(env: Mapping[str, str], arguments: Sequence[str], stdout: int, stderr: int) -> Forked:
    """What a user types into a terminal, with nobody at its keyboard."""
    with open(os.devnull, "rb") as nothing:
        descriptors = {0: nothing.fileno(), 1: stdout, 2: stderr}
        wanted = Wanted("jupyter_gpufit", arguments, dict(env), os.getcwd(), [*descriptors], True)
        return ask(_commands(frozenset(read_at_import(env).items())), wanted, [*descriptors.values()])


def _others() -> dict[str, str]:
    """What of our environment makes no difference."""
    return {name: value for name, value in os.environ.items() if name not in read_at_import(os.environ)}


def start(module: str, *arguments: str, **more: Any) -> Any:
    """In the place of `jupyter_gpufit.system.processes.start`."""
    return (forks(os.environ).start if module == "worker" else cold_start)(module, *arguments, **more)


async def start_asking(module: str, **more: Any) -> Any:
    """In the place of `jupyter_gpufit.system.processes.start_asking`."""
    return await (forks(os.environ).start_asking if module == "estimate" else cold_asking)(module, **more)


def begin() -> None:
    """In the tests, and not where somebody measures how long a kernel takes to begin."""
    processes.start, processes.start_asking = start, start_asking


def begin_warm(manager: KernelManager) -> None:
    """Have its kernels forked, in the tests."""
    if processes.start is not start:
        return
    factory = KernelProvisionerFactory.instance()
    factory.provisioners["warm"] = WARM
    assert manager.kernel_spec is not None
    manager.kernel_spec.metadata = {"kernel_provisioner": {"provisioner_name": "warm"}}


def begin_in_a_server() -> None:
    """Have all kernels of this Jupyter server forked, and their workers, and those that it starts itself."""
    if warm_process.CHANNELS in os.environ:
        _lent.append(warm_process.inherited(os.environ.pop(warm_process.CHANNELS)))
    begin()
    factory = KernelProvisionerFactory.instance()
    factory.provisioners["warm"] = WARM
    factory.default_provisioner_name = "warm"


class WarmKernel(LocalProvisioner):
    """Starts a kernel as Jupyter's own does, but for the process."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        self.cwd = str(kwargs.get("cwd") or os.getcwd())
        process = _forked_kernel(cmd, kwargs["env"], self.cwd)
        self.process = process  # type: ignore[assignment]  # as a Popen would
        self.pid = self.pgid = process.pid  # the first of a session of its own
        return self.connection_info


def _forked_kernel(command: Sequence[str], env: Mapping[str, str], directory: str) -> Forked:
    at = command.index("-m")
    given, told = forks(env).as_given()
    with open(os.devnull, "rb") as nothing:
        descriptors = {0: nothing.fileno(), 1: 1, 2: 2, **given}
        wanted = Wanted(command[at + 1], command[at + 2 :], {**env, **told}, directory, [*descriptors], True)
        return ask(kernels(env), wanted, [*descriptors.values()])

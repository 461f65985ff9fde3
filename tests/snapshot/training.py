"""A training in a process of its own, which can be left at a safe point.

The process opens what a kernel shipped (or nothing), runs a cell as a worker does, and says what became of it. It takes
a snapshot at safe point `at`, trains on for a while, and dies of SIGKILL; with `of`, it goes on from one.
"""

from __future__ import annotations

import ast
import hashlib
import io
import linecache
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from jupyter_gpufit.errors import GpufitError
from jupyter_gpufit.graph import GraphMemory, Shipment, receive, ship
from jupyter_gpufit.graph.kinds import parents
from jupyter_gpufit.system import children
from jupyter_gpufit.worker.streams import CapturedStream
from tests.graph.worker import send, take

FILE = "<cell 7>"
BEFORE = "<cell 3>"


@dataclass
class Told:
    """What a process says at its end."""

    digests: dict[str, str] = field(default_factory=dict)
    output: str = ""
    points: int = 0
    error: str = ""
    remarks: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)  # of the blobs
    stood_in: set[tuple[str, str, str]] = field(default_factory=set)  # module, function and digest, of libraries
    places: list[Any] = field(default_factory=list)  # of each point: the functions and where in them it stood


class Trainings:
    """A process that has loaded what trainings need, and forks one for each: importing torch takes seconds."""

    def __init__(self) -> None:
        self._link, theirs = socket.socketpair()
        command = [sys.executable, "-W", "ignore", "-m", __name__, str(theirs.fileno())]
        environment = os.environ | {"PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"}
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=root, env=environment)
        theirs.close()

    def run(self, cell: str, *, before: str = "", shipment: Shipment | None = None, **asked: Any) -> Told:
        """Run the cell in a fresh process. `asked`: see _main and _Stop."""
        graph = shipment.graph if shipment is not None else b""
        request = {"cell": cell, "before": before, "graph": graph, **asked}
        send(self._link, request, list(shipment.memory.fds) if shipment is not None else [])
        found, _ = take(self._link)
        if asked.get("at") and not asked.get("look") and found["status"] == -signal.SIGKILL:
            return Told()
        if found["status"]:
            raise AssertionError(f"the training failed ({found['status']}):\n{found['error']}")
        return Told(**found["told"])

    def close(self) -> None:
        self._link.shutdown(socket.SHUT_RDWR)  # it is told, also where a forked process of a test has the link, too
        self._link.close()
        self._process.wait(300)


def _serve(link: socket.socket) -> None:
    import numpy
    import torch
    import torch._dynamo
    import tqdm

    from jupyter_gpufit.snapshot import restore
    from jupyter_gpufit.snapshot import take as snapshot

    assert numpy and torch and tqdm and restore and snapshot
    while True:
        try:
            asked, fds = take(link)
        except EOFError:
            return
        for module in asked.get("loads", ()):  # once, instead of seconds in each that is forked
            import_module(module)
        with tempfile.TemporaryFile("w+b") as told:
            pid = os.fork()
            if not pid:
                _child(asked, fds, told)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            told.seek(0)
            found = pickle.loads(told.read() or pickle.dumps({"told": None, "error": ""}))
        for fd in fds:
            os.close(fd)
        send(link, {"status": status, **found}, [])


def _child(asked: dict[str, Any], fds: list[int], told: Any) -> NoReturn:
    try:
        told.write(pickle.dumps({"told": vars(_main(asked, fds)), "error": ""}))
        status = 0
    except BaseException:
        told.write(pickle.dumps({"told": None, "error": traceback.format_exc()}))
        status = 1
    told.flush()
    os._exit(status)


def _stdout(said: io.StringIO) -> CapturedStream:
    """What sys.stdout is in a worker."""

    def take_text(text: str) -> bool:
        said.write(text)
        return True

    return CapturedStream("stdout", 1, take=take_text, catch_up=lambda: None)


class _Left(BaseException):
    pass


def _main(asked: dict[str, Any], fds: list[int]) -> Told:
    """`slot`: on a CPU slot; `of`: a snapshot; `fresh`: without the kernel's memory; `reply`: where to save one.

    `all`: no function of a library is called as it is for being short, so that each run has the same safe points.
    """
    from jupyter_gpufit.cuda.slot import as_slot
    from jupyter_gpufit.graph.kinds import generators as arriving
    from jupyter_gpufit.program import Program, generators
    from jupyter_gpufit.program.libraries import gain
    from jupyter_gpufit.snapshot.kinds.loaders import remembered
    from jupyter_gpufit.snapshot.restore import restore
    from jupyter_gpufit.snapshot.users_files import LeftFiles

    os.chdir(asked.get("directory", "."))
    children._PATIENCE = 300.0  # seconds: how busy the machine is decides nothing
    parents.watch()
    if asked.get("all"):
        gain.SHORT, gain.FREE = 0.0, float("inf")
    namespace: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    program, told = Program(namespace), Told()
    arriving.program = generators.Rewritten(program)
    with ExitStack() as stack:
        if asked.get("slot"):
            stack.enter_context(as_slot("slot 0", 2 << 30))
        stack.enter_context(remembered())
        said = io.StringIO()
        stack.enter_context(redirect_stdout(_stdout(said)))
        memory = GraphMemory(list(map(os.dup, fds))) if fds and not asked.get("fresh") else None
        if "of" in asked:
            saved = Path(asked["of"])
            restored = restore(
                (saved / "graph").read_bytes(),
                lambda number, view: view.__setitem__(slice(None), (saved / str(number)).read_bytes()),
                program,
                namespace,
                memory=memory,
                left=LeftFiles("job", time.time()),
            )
            parents.begin()
            arrival = restored.arrival
            said.write(restored.extra["output"])
        else:
            shipped = None if asked["graph"] else ship([], {})
            graph = asked["graph"] if shipped is None else shipped.graph
            arrival = receive(graph, memory or shipped.memory, namespace)  # type: ignore[union-attr]
            for filename, (lines, _) in arrival.opened.header.get("sources", {}).items():
                program.learn(filename, "".join(lines))
            if asked["before"]:
                _execute(_parsed(asked["before"], BEFORE), BEFORE, namespace)
                program.learn(BEFORE, asked["before"])
        stop = _Stop(program, arrival, namespace, asked, told, said)
        program.at_safe_point, program.pending = stop, True
        tree = program.cell(_parsed(asked["cell"], FILE), FILE)
        assert not program.notes, program.notes
        try:
            _execute(tree, FILE, namespace)
        except _Left:
            return told
        program.leave()
        if "reply" in asked:
            Path(asked["reply"]).mkdir()
            arrival.reply().save(Path(asked["reply"]))
        told.output = said.getvalue()
        told.digests = digests(namespace)
    return told


@dataclass
class _Stop:
    """What is done at a safe point; `in_cell`: only those count at which the cell itself stands."""

    program: Any
    arrival: Any
    namespace: dict[str, Any]
    asked: dict[str, Any]
    told: Told
    output: io.StringIO

    def __call__(self) -> None:
        from jupyter_gpufit.snapshot.take import take as take_snapshot

        if self.asked.get("in_cell") and len(self.program.place()) > 1:
            return
        self.told.points += 1
        self.told.stood_in |= {(one.module, one.qualname, one.digests[0]) for one in self.program.origins()}
        self.told.places.append(self.program.place())
        at = self.asked.get("at")
        if at is None or self.told.points < at:
            return
        if self.told.points >= at + self.asked.get("more", 2):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.told.points > at:
            return
        try:
            snapshot = take_snapshot(
                self.program, self.arrival, self.namespace, extra={"output": self.output.getvalue()}
            )
        except GpufitError as error:
            self.told.error = f"{type(error).__name__}: {error}"
            raise _Left from None
        self.told.remarks += snapshot.remarks
        saved = Path(self.asked["save"])
        saved.mkdir(exist_ok=True)
        (saved / "graph").write_bytes(snapshot.graph)
        for number, blob in enumerate(snapshot.blobs):
            found = bytearray(blob.nbytes)
            if blob.nbytes:
                blob.write(memoryview(found))
            (saved / str(number)).write_bytes(found)
            self.told.names[blob.name] = [blob.dtype, list(blob.shape)]
        assert len(self.told.names) == len(snapshot.blobs)
        if self.asked.get("look"):
            raise _Left


def _execute(tree: ast.Module, file: str, namespace: dict[str, Any]) -> None:
    exec(compile(tree, file, "exec", dont_inherit=True), namespace)


def _parsed(text: str, file: str) -> ast.Module:
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return ast.parse(text, file)


def digests(namespace: Mapping[str, Any]) -> dict[str, str]:
    """What the variables are, bit by bit, and the random generators."""
    import numpy
    import torch

    found = {name: _digest(value) for name, value in sorted(namespace.items()) if not name.startswith("_")}
    found["generators"] = _sha((random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state()))  # type: ignore[index]
    return found


def _digest(value: Any) -> str:
    import torch

    if isinstance(value, torch.nn.Module | torch.optim.Optimizer) or (
        hasattr(value, "state_dict") and not isinstance(value, type)
    ):
        return _sha(value.state_dict())
    return _sha(value)


def _sha(value: Any) -> str:
    import numpy
    import torch

    if isinstance(value, torch.Tensor):
        with torch.no_grad():
            flat = value.detach().contiguous().reshape(-1).view(torch.uint8) if value.numel() else torch.empty(0)
        return f"{value.dtype} {tuple(value.shape)} {hashlib.sha256(bytes(flat.numpy())).hexdigest()[:16]}"
    if isinstance(value, numpy.ndarray) and value.dtype != object:
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()[:16]}"
    if isinstance(value, dict):
        return str({str(key): _sha(one) for key, one in value.items()})
    if isinstance(value, list | tuple | set | frozenset):
        return str([_sha(one) for one in value])
    if isinstance(value, float):
        return value.hex()
    return repr(value) if isinstance(value, int | str | bytes | bool | type(None)) else type(value).__name__


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as connected:
        _serve(connected)

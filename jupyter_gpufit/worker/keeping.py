"""What a worker's checkpoints are made of: the program's frames, the graph around them, and the process that writes."""

from __future__ import annotations

import os
import platform
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING

from ..checkpoint import files
from ..checkpoint.manifest import About
from ..checkpoint.writer import Writer
from ..errors import NotResumable
from .messages import Note, Why
from .saving import Durable, labels

if TYPE_CHECKING:
    from ..graph import Arrival
    from .machine import WorkerMachine


class CellKeeps:
    """See saving.Keeps."""

    def __init__(self, machine: WorkerMachine) -> None:
        self._machine = machine
        self._writer: Writer | None = None
        self._expected = 0  # bytes

    def prepare(self) -> None:
        machine = self._machine
        if self._writer is None:
            directory = machine.paths.checkpoints
            directory.mkdir(mode=0o700, exist_ok=True)
            self._writer = Writer(directory, machine.epoch, machine.settings.checkpoint_keep)
        if self._expected:
            self._writer.prepare(self._expected)

    def want(self, wanted: bool) -> None:
        self._machine.program.pending = wanted

    def save(self, why: Why) -> tuple[int, str, Future[Durable]]:
        from ..checkpoint.snapshot import take

        machine, writer = self._machine, self._writer
        assert machine.arrival is not None and writer is not None
        snapshot = take(machine.program, machine.arrival, machine.shell.user_ns)
        step, where = machine.steps.step, machine.program.where()
        saving = writer.save(snapshot, self._about(step, where, why))
        durable: Future[Durable] = Future()

        def pass_on(done: Future[files.Checkpoint]) -> None:
            if (error := done.exception()) is not None:
                durable.set_exception(error)
            else:
                durable.set_result(Durable(done.result().path.name, done.result().nbytes))

        saving.add_done_callback(pass_on)
        return step, where, durable

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def restore(self) -> Arrival:
        """Bring everything back to where the newest whole checkpoint has it; run again, the cell goes on from there."""
        from ..checkpoint.restore import restore

        machine = self._machine
        found = files.newest(machine.paths.checkpoints)
        for remark in found.remarks:
            machine.output.put(Note(f"A checkpoint was passed over: {remark}"))
        if found.opened is None:
            raise NotResumable(machine.name, "no checkpoint of it is whole.")
        with found.opened as opened:
            about = opened.about
            memory = machine.memory if machine.memory.fds else None
            arrival = restore(opened.graph, opened.read, machine.program, machine.shell.user_ns, memory=memory)
        machine.steps.start_at(about.step)
        return arrival

    def _about(self, step: int, where: str, why: Why) -> About:
        import torch

        return About(
            step=step,
            epoch=self._machine.epoch,
            time=time.time(),
            where=where,
            device=labels(self._machine.granted),
            automatic=why == "automatic",
            python=platform.python_version(),
            torch=torch.__version__,
            hashseed=os.environ.get("PYTHONHASHSEED", ""),
        )

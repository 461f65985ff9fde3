"""What a worker's checkpoints are made of: the program's frames, the graph around them, and the process that writes."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ..checkpoint import files
from ..checkpoint.manifest import About
from ..checkpoint.writer import USUAL_SPEED, Saving, TooLong, TooSmall, Writer
from ..devices.device import Device
from ..errors import CannotSave, NotResumable, NotSaved
from ..jobs.events import Why
from ..jobs.handover import note_start, noted_start
from ..surroundings import saved as surroundings
from ..system.memory import free_memory
from ..units import format_bytes, format_duration
from .saving import Durable, NotReady, labels
from .training import Training

MOST_OF_TIME = 0.03  # of a training's time that checkpoints which nobody asked for may stop it
REWRITING = "4"  # of program/: raised when a place in a cell is called otherwise than before

if TYPE_CHECKING:
    from ..checkpoint.values import Snapshot
    from ..graph import Arrival


class Keeper:
    """See saving.Keeps."""

    def __init__(self, training: Training, want: Callable[[bool], None], free: Callable[[], int] = free_memory) -> None:
        """`want`: see saving.Keeps; `free`: how many bytes of the host's memory this process may still take."""
        self._training = training
        self._want = want
        self._free = free
        self._writer: Writer | None = None
        self._said: set[str] = set()
        self._peak_before = 0  # bytes of its device that the training took in earlier runs
        self._expected = 0  # bytes of the next checkpoint, as far as is known
        self._said_streams = False
        self._deferred = False  # the last try was, for want of a buffer
        self._stood = time.monotonic()  # when the training began, or last stood still for a stream

    def prepare(self) -> None:
        training = self._training
        if self._writer is None:
            directory = training.paths.checkpoints
            directory.mkdir(mode=0o700, exist_ok=True)
            self._writer = Writer(directory, training.epoch, training.settings.checkpoint_keep, self._free)
        self._say_if_it_streams()
        if self._expected and (making := self._writer.prepare(self._expected)) is not None:
            making.join()  # while the training runs on

    def want(self, wanted: bool) -> None:
        self._want(wanted)

    def preflight(self) -> None:
        """As the cell begins: say what of its variables no checkpoint could hold."""
        from ..snapshot.take import preflight

        training = self._training
        self._stood = time.monotonic()
        self._cannot(preflight(training.program, training.namespace, skip=training.is_ours))

    def in_doubt(self) -> bool:
        from ..snapshot.hazards import threads_of_the_user

        return bool(threads_of_the_user())

    def look(self, *, patient: bool) -> None:
        try:
            self._expected = sum(blob.nbytes for blob in self._taken().blobs)
        except CannotSave as error:
            if error.passing and patient:
                raise
            self._cannot(error.problems)
            return
        self._say_if_it_streams()

    def _say_if_it_streams(self) -> None:
        """Beforehand, and once."""
        writer, size = self._writer, self._expected
        if not self._said_streams and (size > self._free() if writer is None else writer.streams(size)):
            self._said_streams = True
            pause = format_duration(size / USUAL_SPEED if writer is None else writer.seconds_for(size))
            self._say(
                f"The host has too little free memory to copy the training's {format_bytes(size)} aside: it saves by"
                f" streaming, and pauses for about {pause} each time. By itself it does so for"
                f" {100 * MOST_OF_TIME:.0f} % of its time at most."
            )

    def _cannot(self, problems: Sequence[tuple[str, str]]) -> None:
        if problems:
            found = " ".join(f"{path} is {why.rstrip('.')}." for path, why in problems[:3])
            self._say(f"{self._training.name} trains, and cannot be checkpointed as it stands. {found}")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._training.note(text)

    def _taken(self) -> Snapshot:
        from ..snapshot.take import take
        from ..snapshot.trials import trials

        training = self._training
        assert training.arrival is not None
        program, namespace = training.program, training.namespace
        with trials(program, namespace) as can_be_saved:
            around = surroundings.saved(training.came, can_be_saved, self._say)
        extra = {"modes": training.modes, "surroundings": around}
        snapshot = take(program, training.arrival, namespace, skip=training.is_ours, extra=extra)
        for remark in snapshot.remarks:
            self._say(remark)
        return snapshot

    def save(self, why: Why) -> tuple[int, str, Future[Durable]]:
        training, writer = self._training, self._writer
        assert writer is not None
        snapshot = self._taken()
        step, where = training.steps.step, training.program.where()
        saving = self._save(writer, snapshot, self._about(step, where, why), why)
        durable: Future[Durable] = Future()

        def pass_on(done: Future[files.Checkpoint]) -> None:
            if (error := done.exception()) is not None:
                durable.set_exception(error)
            else:
                saved = done.result()
                durable.set_result(Durable(saved.path.name, saved.nbytes, saved.about.exact))

        saving.add_done_callback(pass_on)
        return step, where, durable

    def _save(self, writer: Writer, snapshot: Snapshot, about: About, why: Why) -> Saving:
        # Who leaves stands still anyway; nor is one put off twice, whose state grows from step to step.
        in_place = why in ("release", "move", "turn") or self._deferred
        longest = MOST_OF_TIME * (time.monotonic() - self._stood) if why == "automatic" else float("inf")
        self._expected = max(self._expected, sum(blob.nbytes for blob in snapshot.blobs))
        self._say_if_it_streams()
        try:
            saving = writer.save(snapshot, about, in_place=in_place, longest=longest)
        except TooSmall as small:
            self._expected, self._deferred = small.nbytes, True
            raise NotReady from small
        except TooLong as long:
            raise NotSaved(str(writer.directory), *_too_long(long)) from long
        self._deferred = False
        if saving.done():
            self._stood = time.monotonic()
        return saving

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def restore(self, *, copy: bool = False) -> Arrival:
        """Bring everything back to where the newest whole checkpoint has it; run again, the cell goes on from there.

        `copy`: for a rank beside the first, of which nobody is to know.
        """
        from ..snapshot.restore import restore
        from ..snapshot.users_files import LeftFiles

        training = self._training
        found = files.newest(training.paths.checkpoints)
        for remark in found.remarks:
            training.note(remark)
        if found.opened is None:
            raise NotResumable(training.name, "no checkpoint of it is whole. Run its cell again.")
        with found.opened as opened:
            about = opened.about
            memory = training.memory if training.memory.fds else None
            self._check(about)
            left = LeftFiles(training.name, training.handover.alive_until)
            given = training.program, training.namespace
            restored = restore(opened.graph, opened.read, *given, memory=memory, left=left)
        if not copy:
            self._note_that_it_lives()
        for remark in restored.remarks:
            self._say(remark)
        training.memory, training.modes = restored.arrival.memory, restored.extra.get("modes", restored.extra)
        if "surroundings" in restored.extra:  # else it was saved before they were
            training.came = surroundings.restored(restored.extra["surroundings"])
            for remark in training.came.remarks:
                training.note(remark)
        training.steps.start_at(about.step)
        self._peak_before = about.peak
        self._stood = time.monotonic()
        if training.handover.repeats or found.remarks:
            where = f"{training.name} goes on from its checkpoint at step {about.step:,}"
            training.note(f"{where}; what follows may repeat lines from above.")
        return restored.arrival

    def _note_that_it_lives(self) -> None:
        """What is written to the user's files from now on is the training's own."""
        training = self._training
        training.handover = replace(training.handover, alive_until=0.0)
        with suppress(OSError):  # on a full disk, its own writing will look like somebody else's: nothing is lost
            note_start(training.paths, replace(noted_start(training.paths), alive_until=0.0))

    def _check(self, about: About) -> None:
        """Refuse what would go another way without a word; say what may."""
        import torch

        training = self._training
        here = platform.python_version()
        if about.python.rpartition(".")[0] != here.rpartition(".")[0]:
            minor = about.python.rpartition(".")[0]
            why = f"it was saved by Python {about.python}, and this is {here}."
            raise NotResumable(training.name, f"{why} Resume it in an environment with Python {minor}.")
        if about.transformer != REWRITING:
            raise NotResumable(
                training.name,
                f"it was saved by another version of jupyter_gpufit (cells of {about.transformer}, here {REWRITING}),"
                " and its place in the cell cannot be found. Resume it with that version.",
            )
        card = _card(training.granted.devices[0])
        for what, then, now in (
            ("torch", about.torch, torch.__version__),
            ("the device", about.versions.get("card", card), card),
            ("the hash seed", about.hashseed, os.environ.get("PYTHONHASHSEED", "")),
        ):
            if then != now:
                training.note(f"It goes on, but not to the bit: {what} was {then}, and is {now}.")

    def _peak(self) -> int:
        """Bytes of the device that the training has taken so far, this run's and earlier ones'."""
        training = self._training
        if training.meter is None or not (taken := training.meter.peak()):
            return self._peak_before
        return max(self._peak_before, taken + training.context())

    def _about(self, step: int, where: str, why: Why) -> About:
        import torch

        return About(
            step=step,
            epoch=self._training.epoch,
            time=time.time(),
            where=where,
            device=labels(self._training.granted),
            automatic=why == "automatic",
            python=platform.python_version(),
            torch=torch.__version__,
            transformer=REWRITING,
            exact=self._training.program.exact(),
            peak=self._peak(),
            versions={"card": _card(self._training.granted.devices[0])},
            hashseed=os.environ.get("PYTHONHASHSEED", ""),
        )


def _too_long(long: TooLong) -> tuple[str, str]:
    """Why an automatic checkpoint is left out, and what to do."""
    why = f"it would pause the training for about {format_duration(long.seconds)}, too long for an automatic one now"
    return why, "One is made later. To save now: %gpufit checkpoint. With more free memory on the host it is quick."


def _card(device: Device) -> str:
    return "a CPU slot" if device.kind == "slot" else device.name

"""The training's side of a checkpoint: copy into the buffer, hand it to the process that writes, and go on.

The pause is the copy. One checkpoint at a time: the buffer is one, so a second save waits until the first is durable,
and says how long it waited; whoever saves unasked looks at `busy` first and lets it be. Where the host's memory has no
room for the buffer, the training stands still instead until all of it is on the disk (see streaming.py).
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path

from ..jobs.epoch import name_of, names, order_of
from ..units import MiB
from .checksum import Run, Section, Sums, runs
from .files import Checkpoint, newest_listed, open_listed
from .layout import Layout, lay_out, unchanged
from .manifest import About, Manifest
from .publish import Publisher, answer_to, prune
from .reading import in_threads
from .refused import no_room, not_saved
from .request import WriterAnswer, WriterRequest
from .staging import NoRoom, Staging, copy_all
from .streaming import CheckpointStream, room_for
from .values import Blob, Snapshot
from .writing import Writing

AT_ONCE = 64 * MiB  # bytes by which the buffer grows in no time
USUAL_SPEED = 0.5e9  # bytes per second to a disk of which nothing is known yet


class TooSmall(Exception):
    """The buffer is to be made larger before a save, beside the training: `prepare(nbytes)`."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


class TooLong(Exception):
    """The save would pause the training for longer than it may."""

    def __init__(self, nbytes: int, seconds: float) -> None:
        self.nbytes, self.seconds = nbytes, seconds


class Saving(Future[Checkpoint]):
    """A checkpoint under way: its result comes when it is durable. It cannot be cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = 0.0  # seconds for the checkpoint before it
        self.paused = 0.0  # seconds that copying took
        self.copied = 0  # bytes into the buffer, or through the window; what was linked is not among them
        self.set_running_or_notify_cancel()


class Writer:
    """Saves snapshots of one training into its job's directory. Failures come in the Future: the training goes on."""

    def __init__(self, directory: Path, epoch: int, keep: int, free: Callable[[], int] | None = None) -> None:
        """`free`: how much memory this process may still take; by default what the system and its limits say."""
        self.directory = directory.absolute()
        self.epoch = epoch
        self.keep = max(1, keep)
        self._number = 0
        self._before: Manifest | None = None  # of the newest durable checkpoint, to which the next may link
        self._looked = False
        self._staging = Staging(free)
        self._publisher: Publisher | None = None  # of this process, where it streams
        self._speed = USUAL_SPEED
        self._last: Saving | None = None
        self._process: Writing | None = None
        self._preparing: threading.Thread | None = None
        self._removing: threading.Thread | None = None  # what is too old, after streaming
        try:
            self._process = Writing(self.directory, self._staging.fd)  # before the training: it removes leftovers
        except OSError:
            pass  # the first save tries again, and says why

    @property
    def busy(self) -> bool:
        """Whether a save would have to wait for the one before it."""
        return self._last is not None and not self._last.done()

    @property
    def host_memory(self) -> int:
        """Bytes of host memory that the buffer takes, as long as this writer lives."""
        return self._staging.size

    def prepare(self, nbytes: int) -> threading.Thread | None:
        """Make the buffer for checkpoints of this size, beside the training, so that the first pause is short too."""
        if not self.busy and (self._preparing is None or not self._preparing.is_alive()):
            self._preparing = threading.Thread(target=self._prepare, args=(nbytes,), name="gpufit-buffer", daemon=True)
            self._preparing.start()
        return self._preparing

    def streams(self, nbytes: int) -> bool:
        """Whether a checkpoint of this size finds no room for a buffer, and stops the training while it is written."""
        try:
            self._staging.check(self._staging.growth(nbytes))
            return False
        except NoRoom:
            return True

    def seconds_for(self, nbytes: int) -> float:
        """How long it takes to write so much, as far as is known."""
        return nbytes / self._speed

    def save(self, snapshot: Snapshot, about: About, *, in_place: bool = True, longest: float = float("inf")) -> Saving:
        """Copy the snapshot; when this returns, the training may go on. What the disk says is in the Future.

        Not `in_place`: raises TooSmall rather than make a larger buffer while the training stands still. `longest`:
        seconds for which it may stand still where there is no room for a buffer; raises TooLong.
        """
        assert about.epoch == self.epoch
        saving = Saving()
        saving.waited = self._wait()
        began = time.monotonic()
        try:
            request, layout = self._lay_out(snapshot, about)
            saving.copied = layout.nbytes
            if self.streams(layout.nbytes):
                self._stream(saving, request, layout, snapshot, longest, began)
                return saving
            if not in_place and self._staging.growth(layout.nbytes) > AT_ONCE:
                raise TooSmall(layout.nbytes)
            self._staging.reserve(layout.nbytes)
            _fill(self._staging, layout, snapshot.blobs)
            saving.paused = time.monotonic() - began
            self._last = saving
            finish = partial(self._finish, saving, request, began, partial(self._ask, request))
            threading.Thread(target=finish, name="gpufit-durable").start()
        except NoRoom as lack:
            saving.set_exception(no_room(self.directory, lack))
        except OSError as error:
            saving.set_exception(not_saved(self.directory, _answer_of(error)))
        except (TooSmall, TooLong):
            self._number -= 1  # nothing of that name was begun
            raise
        except BaseException as error:  # an interrupt, or the snapshot's own bytes cannot be had
            if not saving.done():
                saving.set_exception(error)
            raise
        return saving

    def _stream(
        self, saving: Saving, request: WriterRequest, layout: Layout, snapshot: Snapshot, longest: float, began: float
    ) -> None:
        """Write it from here, while the training stands still."""
        if (seconds := self.seconds_for(layout.nbytes)) > longest:
            raise TooLong(layout.nbytes, seconds)
        self._staging.check(room_for(layout, snapshot.blobs))
        publisher = self._publisher = self._publisher or Publisher(self.directory, waited_for=True)
        stream = CheckpointStream(layout, snapshot.blobs)

        def publish() -> WriterAnswer:
            return answer_to(request, self.directory, lambda: publisher.publish(request, stream))

        self._finish(saving, request, began, publish)
        if saving.exception() is None:  # beside the training, for which the writing process does it otherwise
            self._removing = threading.Thread(target=prune, args=(self.directory, self.keep), name="gpufit-prune")
            self._removing.start()
        saving.paused = time.monotonic() - began

    def close(self) -> None:
        """Wait for what is being written, then end the process and give the buffer back."""
        self._wait()
        if self._process is not None:
            self._process.close()
            self._process = None
        self._staging.close()

    def _wait(self) -> float:
        began = time.monotonic()
        if self._preparing is not None:
            self._preparing.join()
            self._preparing = None
        if self._removing is not None:
            self._removing.join()
            self._removing = None
        if self._last is not None:
            wait([self._last])
        return time.monotonic() - began

    def _prepare(self, nbytes: int) -> None:
        try:
            self._staging.reserve(nbytes)
        except (NoRoom, OSError):
            pass  # the save says it, where somebody hears it

    def _lay_out(self, snapshot: Snapshot, about: About) -> tuple[WriterRequest, Layout]:
        before = self._newest()
        name = self._new_name()
        layout = lay_out(name, snapshot, *unchanged(snapshot.blobs, before, lambda asked: _sums(snapshot.blobs, asked)))
        return WriterRequest.of(name, about, self.keep, snapshot, layout, before.name if before else ""), layout

    def _newest(self) -> Manifest | None:
        """What the next checkpoint may link to; an earlier worker's, too."""
        if not self._looked:
            self._looked = True
            self._before = newest_listed(self.directory)
        return self._before

    def _new_name(self) -> str:
        try:
            used = [order_of(name) for name in names(self.directory)]
        except OSError:
            used = []  # no directory yet, or an unreadable one: the process that writes will say so
        self._number = 1 + max([self._number, *(number for epoch, number in used if epoch == self.epoch)])
        return name_of(self.epoch, self._number)

    def _finish(
        self, saving: Saving, request: WriterRequest, began: float, publish: Callable[[], WriterAnswer]
    ) -> None:
        try:
            asked = time.monotonic()
            answer = publish()
            if answer.unlinked:
                self._before = None  # the next one writes everything
            if answer.failed:
                saving.set_exception(not_saved(self.directory, answer, self.epoch))
                return
            now = time.monotonic()
            if request.needed > AT_ONCE:  # of less, the time tells nothing
                self._speed = request.needed / (now - asked)
            opened = open_listed(self.directory / request.name)
            self._before = opened.manifest
            saving.set_result(Checkpoint(opened.path, opened.manifest, request.needed, now - began))
        except OSError as error:
            saving.set_exception(not_saved(self.directory, _answer_of(error)))
        except Exception as error:  # nobody may wait for ever
            saving.set_exception(error)

    def _ask(self, request: WriterRequest) -> WriterAnswer:
        if self._process is None or not self._process.alive():
            if self._process is not None:
                self._process.close()
                self._process = None
            try:
                self._process = Writing(self.directory, self._staging.fd)
            except OSError as error:
                why = f"the process that writes could not be started: {error.strerror or error}"
                return WriterAnswer(why, file=str(error.filename or ""))
        return self._process.ask(request)


def _answer_of(error: OSError) -> WriterAnswer:
    return WriterAnswer(error.strerror or str(error), error.errno or 0, str(error.filename or ""))


def _fill(staging: Staging, layout: Layout, blobs: Sequence[Blob]) -> None:
    plain: list[tuple[int, int, int]] = []
    for image, head in zip(layout.images, layout.heads, strict=True):
        staging.view(image.start, image.head)[:] = head
        for number, at in zip(image.blobs, image.at, strict=True):
            blob = blobs[number]
            if blob.address is not None:
                plain.append((staging.address + image.start + at, blob.address, blob.nbytes))
            elif blob.nbytes:
                blob.write(staging.view(image.start + at, blob.nbytes))
    copy_all(plain)


def _sums(blobs: Sequence[Blob], asked: Sequence[int]) -> Mapping[int, str]:
    """Checksums of blobs where they lie: reading them costs less than copying them."""
    sums = {number: Sums([Section(0, blobs[number].nbytes)]) for number in asked}

    def check(part: tuple[int, Run]) -> None:
        number, run = part
        address = blobs[number].address
        assert address is not None
        sums[number].take(run, memoryview((ctypes.c_char * (run.end - run.start)).from_address(address + run.start)))

    in_threads(check, [(n, run) for n in asked for run in runs([Section(0, blobs[n].nbytes)])])
    return {number: found.of(0) for number, found in sums.items()}

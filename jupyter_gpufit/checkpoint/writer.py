"""The training's side of a checkpoint: copy into the buffer, hand it to the process that writes, and go on.

The pause is the copy. One checkpoint at a time: the buffer is one, so a second save waits until the first is durable,
and says how long it waited; whoever saves unasked looks at `busy` first and lets it be.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path

from ..errors import CheckpointError, NotSaved, TakenOver
from ..units import format_bytes
from .checksum import Run, Section, Sums, runs
from .files import Checkpoint, newest_listed, open_listed
from .layout import Layout, lay_out, unchanged
from .manifest import About, Manifest, name_of, order_of
from .reading import in_threads, names
from .request import Answer, Request
from .snapshot_values import Blob, Snapshot
from .staging import NoRoom, Staging, copy_all

PATIENCE = 10.0  # seconds that the writing process has to end by itself


class Saving(Future[Checkpoint]):
    """A checkpoint under way: its result comes when it is durable. It cannot be cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = 0.0  # seconds for the checkpoint before it
        self.paused = 0.0  # seconds that copying took
        self.copied = 0  # bytes into the buffer; what was linked is not among them
        self.set_running_or_notify_cancel()


class Writer:
    """Saves snapshots of one training into its job's directory. Failures come in the Future: the training goes on."""

    def __init__(self, directory: Path, epoch: int, keep: int) -> None:
        self.directory = directory.absolute()
        self.epoch = epoch
        self.keep = max(1, keep)
        self._number = 0
        self._before: Manifest | None = None  # of the newest durable checkpoint, to which the next may link
        self._looked = False
        self._staging = Staging()
        self._last: Saving | None = None
        self._process: _Process | None = None
        self._preparing: threading.Thread | None = None
        try:
            self._process = _Process(self.directory, self._staging.fd)  # before the training: it removes leftovers
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
        if not self.busy and self._preparing is None:
            self._preparing = threading.Thread(target=self._prepare, args=(nbytes,), name="gpufit-buffer", daemon=True)
            self._preparing.start()
        return self._preparing

    def save(self, snapshot: Snapshot, about: About) -> Saving:
        """Copy the snapshot; when this returns, the training may go on. What the disk says is in the Future."""
        assert about.epoch == self.epoch
        saving = Saving()
        saving.waited = self._wait()
        began = time.monotonic()
        try:
            request = self._copy(snapshot, about, saving)
            saving.paused = time.monotonic() - began
            self._last = saving
            threading.Thread(target=self._finish, args=(saving, request, began), name="gpufit-durable").start()
        except NoRoom as lack:
            saving.set_exception(_no_room(self.directory, lack))
        except OSError as error:
            saving.set_exception(_not_saved(self.directory, Answer(error.strerror or str(error), error.errno or 0)))
        except BaseException as error:  # an interrupt, or the snapshot's own bytes cannot be had
            if not saving.done():
                saving.set_exception(error)
            raise
        return saving

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
        if self._last is not None:
            wait([self._last])
        return time.monotonic() - began

    def _prepare(self, nbytes: int) -> None:
        try:
            self._staging.reserve(nbytes)
        except (NoRoom, OSError):
            pass  # the save says it, where somebody hears it

    def _copy(self, snapshot: Snapshot, about: About, saving: Saving) -> Request:
        before = self._newest()
        name = self._new_name()
        layout = lay_out(name, snapshot, *unchanged(snapshot.blobs, before, lambda asked: _sums(snapshot.blobs, asked)))
        self._staging.reserve(layout.nbytes)
        _fill(self._staging, layout, snapshot.blobs)
        saving.copied = layout.nbytes
        return Request.of(name, about, self.keep, snapshot, layout, before.name if before else "")

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

    def _finish(self, saving: Saving, request: Request, began: float) -> None:
        try:
            answer = self._ask(request)
            if answer.unlinked:
                self._before = None  # the next one writes everything
            if answer.failed:
                saving.set_exception(_not_saved(self.directory, answer, self.epoch))
                return
            opened = open_listed(self.directory / request.name)
            self._before = opened.manifest
            saving.set_result(Checkpoint(opened.path, opened.manifest, request.needed, time.monotonic() - began))
        except OSError as error:
            saving.set_exception(_not_saved(self.directory, Answer(error.strerror or str(error), error.errno or 0)))
        except Exception as error:  # nobody may wait for ever
            saving.set_exception(error)

    def _ask(self, request: Request) -> Answer:
        if self._process is None or not self._process.alive():
            if self._process is not None:
                self._process.close()
            self._process = _Process(self.directory, self._staging.fd)
        return self._process.ask(request)


class _Process:
    """The process that writes, and the channel to it."""

    def __init__(self, directory: Path, memory: int) -> None:
        from ..worker.parent import with_our_package

        self._channel, theirs = socket.socketpair()
        with theirs:
            arguments = [str(theirs.fileno()), str(memory), str(os.getpid()), str(directory)]
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "jupyter_gpufit.checkpoint.writer_process", *arguments],
                pass_fds=[theirs.fileno(), memory],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,  # a Ctrl-C in a terminal is for the training
                cwd="/",
                env=with_our_package(os.environ),
            )
        self._lines = self._channel.makefile("rb")

    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: Request) -> Answer:
        try:
            self._channel.sendall(request.encode())
            line = self._lines.readline()
        except OSError:
            line = b""
        if line.endswith(b"\n"):
            return Answer.decode(line)
        code = self._process.wait()
        end = f"signal {-code}" if code < 0 else f"exit code {code}"
        return Answer(f"the process that writes ended with {end}")

    def close(self) -> None:
        self._channel.shutdown(socket.SHUT_RDWR)
        self._lines.close()
        self._channel.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:  # removing an old checkpoint, from a disk that hangs
            self._process.kill()
            self._process.wait()


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


def _not_saved(directory: Path, answer: Answer, epoch: int = 0) -> CheckpointError:
    if answer.current:
        return TakenOver(str(directory), epoch, answer.current)
    why = answer.failed
    if answer.errno == errno.ENOSPC and answer.needed:
        why += f": it needs {format_bytes(answer.needed)} and {format_bytes(answer.free)} are free"
    remedy = _REMEDIES.get(answer.errno, "The next one will be tried as usual.")
    return NotSaved(answer.file or str(directory), why, remedy)


_REMEDIES = {
    errno.ENOSPC: "Free space there (gpufit clean removes what ended), or choose another place with GPUFIT_DATA.",
    errno.EDQUOT: "Your quota is used up: free some of it, or choose another place with GPUFIT_DATA.",
    errno.EFBIG: "Raise the limit on the size of files (ulimit -f), or choose another file system with GPUFIT_DATA.",
    errno.EROFS: "Have it made writable, or choose another place with GPUFIT_DATA.",
    errno.EACCES: "Make it writable for you (chmod u+rwx), or choose another place with GPUFIT_DATA.",
    errno.EPERM: "Make it writable for you, or choose another place with GPUFIT_DATA.",
    errno.EIO: "The disk may be failing: choose another place with GPUFIT_DATA.",
}


def _no_room(directory: Path, lack: NoRoom) -> NotSaved:
    why = (
        f"its buffer needs {format_bytes(lack.needed)} more of the host's memory and {format_bytes(lack.free)} are free"
    )
    return NotSaved(str(directory), why, "Free memory on this machine, or train with less data in memory.")

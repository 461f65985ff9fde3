"""A rank beside the first: a forked worker that runs the same cell, and of which nobody hears.

It has the variables, the random numbers and the devices of the claim. It writes no output, no journal, no file of the
user's and no checkpoint, and speaks to no server. It ends with its cell, and at the latest with the first rank, however
that ends: the system sees to it. The claim's lock it keeps: a device is free when the last process has left it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import IPython

from ...fit.memory import ran_out
from ...graph.memory import part_from_parent, settle
from ...surroundings import tracked
from ...system.contained import Contained
from ...system.processes import die_with_parent
from ...system.unheard import unheard
from ..shell import OUR_FILES
from ..streams import CapturedStream
from ..training import Training
from . import files
from .forking import ForkedRank
from .links import Links
from .reading import ReadingEnds

WHERE = signal.SIGRTMIN + 8  # a signal that no cell handles: it writes down where it is
RAN_OUT = 3  # its exit status where it had too little memory
READY = b"ready"
ENDED = "It came to the end of its cell."
_SHELL = str(Path(IPython.__file__).parent)


@dataclass(frozen=True)
class Replica:
    """What a forked rank has of its own."""

    rank: int
    links: Links
    reading: ReadingEnds | None  # of a state that is split
    words: int  # descriptor of a file in memory for its last words
    cleaner: int  # descriptor of a pipe: who waits at its other end deletes the scratch directory
    scratch: Path


AllEnds = list[Links | ReadingEnds]


def forked(replica: Replica, training: Training, all_ends: AllEnds, run: Callable[[], None]) -> ForkedRank:
    """Fork it. In the new process `run` is called, and nothing after it."""
    parent = os.getpid()
    settle()
    with unheard(DeprecationWarning):  # of threads: this one leaves theirs alone
        pid = os.fork()
    if pid:
        child = ForkedRank.of(pid)
        with contextlib.suppress(OSError):  # by both, since either may come first: it must be there when it is ended
            os.setpgid(pid, pid)
        return child
    status = 1
    try:
        _leave_parent(replica, training, all_ends, parent)
        run()
        status = 0
    except BaseException as error:
        status = last_words(replica.words, error)
    finally:
        os._exit(status)


def _leave_parent(replica: Replica, training: Training, all_ends: AllEnds, parent: int) -> None:
    os.setpgid(0, 0)
    die_with_parent()
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the first rank, which then goes on alone
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    faulthandler.enable(replica.words)
    faulthandler.register(WHERE, file=replica.words, all_threads=False)
    for ends in all_ends:
        if ends is not replica.links and ends is not replica.reading:
            ends.close()
    part_from_parent(training.memory)
    _be_silent(training)
    _contain(replica, training)
    gc.freeze()  # what is here need not be looked at again, and its pages stay shared


def _be_silent(training: Training) -> None:
    """Nothing of it reaches anybody: what it says, the first rank says, too."""
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(training.paths.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for fd, to in ((0, null), (1, null), (2, log)):  # a library's last words, as it ends the process, are worth keeping
        os.dup2(to, fd)
    os.close(log)
    sys.stdin = io.TextIOWrapper(io.BytesIO())
    sys.stdout = CapturedStream("stdout", 1, take=lambda text: True, catch_up=lambda: None)
    sys.stderr = CapturedStream("stderr", null, take=lambda text: True, catch_up=lambda: None)
    training.output.log = open(null, "w", closefd=False)  # as long as the process lives
    shell, program = training.shell, training.program
    type(shell).emit = staticmethod(lambda event: None)
    shell.comms.emit = lambda event: None
    shell.goes_on = lambda error: False
    shell.remark = lambda error: ""
    shell.on_rewritten = lambda: None
    program.on_note = lambda text: None
    program.at_safe_point = lambda: None
    program.pending = False


def _contain(replica: Replica, training: Training) -> None:
    kept = [replica.words, replica.cleaner, 2, *replica.links.descriptors]
    kept += [] if replica.reading is None else replica.reading.descriptors
    kept += [*training.memory.fds, *training.granted.fds]
    contained = Contained(replica.scratch, f"rank {replica.rank} of a training", lambda what: None, is_trial=False)
    if training.arrival is not None:
        files.part_from_first(training.arrival.opened.objects, contained)
    contained.close_open_ends(kept)
    contained.begin()
    tracked.silence()
    files.begin(contained)


def last_words(words: int, error: BaseException) -> int:
    """Write down what became of it; the exit status that says so."""
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename.startswith((OUR_FILES, _SHELL)):
        at = at.tb_next  # what its user can change stands in the others
    text = "".join(traceback.format_exception(type(error), error, at or error.__traceback__))
    with contextlib.suppress(OSError):
        os.write(words, text.encode(errors="replace"))
    return RAN_OUT if ran_out(error) else 1


def wait_for_the_end() -> NoReturn:
    """Of a rank that can do nothing more; the first one decides what follows, and ends it."""
    while True:
        threading.Event().wait()

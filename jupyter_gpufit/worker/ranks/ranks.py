"""The first rank's part: it forks the others, hears whether they come, judges those who do not, and ends them.

It is the job, and the others are its copies: they have the same variables, read the same batches and make the same
steps. So a checkpoint is the first one's alone, and goes on on any number of devices. Once it is interrupted it goes
on alone, since nobody else hears of that: it has everything it needs.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, NoReturn

import torch

from ...errors import CannotPart, HasItsOwnRanks, RankLost, RanksDisagree
from ...fit.several.calls import around
from ...lab import Granted
from ...system.processes import deleted_afterwards
from ...system.signals import name_of
from ..on_device import Meter
from ..training import Training
from . import speed
from .forking import ForkedRank, ForkingThread
from .links import Links, RankGone, RankLate, linked
from .reading import ReadingEnds, reading_ends
from .replica import ENDED, RAN_OUT, READY, WHERE, Replica, forked, last_words, wait_for_the_end
from .shared import RankDiffers, SharedGroup, read_memory, region, tell_memory

START = 10  # times the patience in which the others open the cell's variables, and come to the first sum: some compile
LAST_WORDS = 1.0  # seconds in which one that hangs says where it is
AT_MOST = 10.0  # seconds in which one that was killed is waited for
EVERY = 0.5  # seconds between two words of a rank on its memory
MOST_WORDS = 20_000  # characters of one's last words

Replicate = Callable[[Granted, "RankOfMany"], None]


@dataclass
class RankOfMany:
    """What is put around the cell in each rank."""

    links: Links
    reading: ReadingEnds | None
    group: SharedGroup
    split: int = 0  # see fit/sharing.py
    words: int = -1  # descriptor for its last ones
    measure: Callable[[], None] = lambda: None  # how fast they put things together, which nobody knows yet
    say: Callable[[str], None] = lambda text: None
    is_whole: Callable[[CannotPart], None] = lambda error: None  # the first one tells of it
    leave: Callable[..., None] = lambda **_: None

    @contextmanager
    def around(self, meter: Meter) -> Iterator[None]:
        """The cell computes its part of each batch here, with its part of the processors."""
        memory, rank = self.group.memory, self.group.rank
        ended = threading.Event()

        def tell() -> None:
            while not ended.wait(EVERY):
                tell_memory(memory, rank, meter.used(), meter.peak())

        threading.Thread(target=tell, name="gpufit-rank", daemon=True).start()
        with ExitStack() as stack:
            stack.callback(lambda: tell_memory(memory, rank, meter.used(), meter.peak()))
            stack.callback(ended.set)
            stack.enter_context(_sharing_processors(self.group.size))
            stack.enter_context(_no_other_ranks())
            self.measure()
            self.leave = stack.enter_context(around(self.group, split=self.split, say=self.say, is_whole=self.is_whole))
            yield

    def stays(self, left: BaseException | None) -> None:
        """At the end of the cell of one beside the first, which still reads what is here alone.

        It hears at once that nothing else will come. What ran out of memory ends, since the job begins again.
        """
        if self.split and not isinstance(left, torch.OutOfMemoryError):
            if left is not None:
                last_words(self.words, left)
            else:
                os.write(self.words, ENDED.encode())
            self.links.close()
            wait_for_the_end()

    def close(self) -> None:
        """In a process that this rank forks."""
        self.links.close()
        if self.reading is not None:
            self.reading.close()

    def is_ready(self) -> None:
        """Of one beside the first: its variables are open, and no change of the first one's reaches them."""
        self.links.tell(0, READY)


@dataclass
class Ranks:
    """The others, of the first one of a training."""

    training: Training
    granted: Granted
    goes_on: Callable[[RankLost | RanksDisagree], None]  # does not return where the job can go on without this process
    lost: RankLost | RanksDisagree | None = None
    _ran_out: bool = False
    _mine: RankOfMany | None = None
    _forked: dict[int, ForkedRank] = field(default_factory=dict)
    _forking: ForkingThread = field(default_factory=ForkingThread)
    _words: dict[int, int] = field(default_factory=dict)
    _cleaner: IO[bytes] | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)  # an interrupt may strike in the middle of it

    @property
    def size(self) -> int:
        return len(self.granted.devices)

    def own(self, rank: int = 0) -> Granted:
        """What one of them runs on."""
        return replace(self.granted, devices=(self.granted.devices[rank],))

    def begin(self, replicate: Replicate) -> None:
        """Fork the others, and wait until each has its variables; to be called before anything is on a device."""
        if self.size == 1:
            return
        scratch = Path(tempfile.mkdtemp(prefix="gpufit-ranks-"))
        cleaner = self._cleaner = deleted_afterwards(scratch)
        patience, split = self.training.settings.rank_patience or None, self.training.fit.split
        memory, links = region(self.size), linked(self.size)
        unknown = speed.is_unknown(self.training.settings, self.granted.devices[0], self.size)
        reads = reading_ends(self.size, patience) if split else []
        reading: list[ReadingEnds | None] = [*reads] or [None] * self.size

        def fork() -> None:
            for rank in range(1, self.size):
                self._words[rank] = os.memfd_create(f"gpufit-rank-{rank}", os.MFD_CLOEXEC)
                own = scratch / str(rank)
                own.mkdir()
                replica = Replica(rank, links[rank], reading[rank], self._words[rank], cleaner.fileno(), own)
                group = SharedGroup(links[rank], memory, _wait, reading=reading[rank])
                mine = RankOfMany(
                    links[rank], reading[rank], group, split, self._words[rank], self._measure(group, unknown)
                )
                run = partial(self._run, replicate, rank, mine)
                self._forked[rank] = forked(replica, self.training, [*links, *reads], run)

        self._forking.run(fork)
        for theirs in links[1:]:
            theirs.close()
        for others in reads[1:]:
            others.close()
        group = SharedGroup(links[0], memory, self._lose, patience, START, reading[0])
        measure = self._measure(group, unknown)
        self._mine = RankOfMany(
            links[0], reading[0], group, split, measure=measure, say=self.training.note, is_whole=self._is_whole
        )
        os.register_at_fork(after_in_child=self._of_a_child)
        try:
            links[0].hear(list(self._forked), patience and patience * START)
        except RankGone as gone:
            self._lose(gone)

    def _is_whole(self, error: CannotPart) -> None:
        """Nothing is wrong with that, but the others are of no use, unless they have parts of what is kept."""
        training, name = self.training, self.training.name
        alone = "" if training.fit.split else f" {name} goes on on one of them alone, from its next safe point."
        training.note(f"{error.whole_on(self.size)}{alone}")
        training.whole = training.whole or error.model

    def _measure(self, group: SharedGroup, unknown: bool) -> Callable[[], None]:
        """Decided once for all of them: who does it waits for the others."""
        if not unknown:
            return lambda: None
        return partial(speed.measure, group, self.granted.devices[0], self.training.settings)

    def _run(self, replicate: Replicate, rank: int, mine: RankOfMany) -> None:
        """In a new process."""
        os.register_at_fork(after_in_child=mine.close)
        replicate(self.own(rank), mine)

    @contextmanager
    def around(self, meter: Meter) -> Iterator[None]:
        if self._mine is None:
            yield
            return
        with self._mine.around(meter):
            yield

    def meter(self, own: Meter) -> Meter:
        """The most that any of them takes of its device."""
        if self._mine is None:
            return own
        memory = self._mine.group.memory

        def most(at: int) -> int:
            return max(read_memory(memory, rank)[at] for rank in range(1, self.size))

        return replace(own, used=lambda: max(own.used(), most(0)), peak=lambda: max(own.peak(), most(1)))

    @contextmanager
    def with_all_processors(self) -> Iterator[None]:
        """What is saved here does not know of other ranks."""
        share = torch.get_num_threads()
        if self._mine is None or share != _sharing.share:
            yield
            return
        torch.set_num_threads(_sharing.whole)
        try:
            yield
        finally:
            torch.set_num_threads(share)

    # How it ends ------------------------------------------------------------------------------------------------------

    def be_alone(self) -> None:
        """In the main thread, as it is interrupted: from here on this rank computes everything itself."""
        if self._mine is not None and self.lost is None:
            try:
                self._mine.leave()
            finally:
                self._mine.group.be_alone()
                self._kill()

    def end(self) -> None:
        """End the others, in whatever they are; nothing of them stays."""
        self._kill()
        self._forking.end()
        with self._lock:
            if (cleaner := self._cleaner) is not None:
                self._cleaner = None
                cleaner.close()

    def _kill(self) -> None:
        with self._lock:
            while self._forked:
                self._forked.popitem()[1].kill(AT_MOST)

    def _of_a_child(self) -> None:
        """In a process that this one forks: who has our ends would keep us alive for the others."""
        if self._mine is not None:
            self._mine.close()
        if self._cleaner is not None:
            self._cleaner.close()
        while self._forked:
            self._forked.popitem()[1].forget()

    def _lose(self, why: RankGone | RankDiffers) -> NoReturn:
        """In the main thread, in the middle of the cell: the others do not come, or do not do the same."""
        if self.lost is not None:
            raise self.lost
        device = self.granted.devices[why.rank].label
        if isinstance(why, RankDiffers):
            self._kill()
            self.lost = RanksDisagree(why.rank, device, why.mine, why.theirs)
        else:
            self.lost = self._judge(why, device)
        if self._ran_out:
            # As in the cell's own process: it may go on with more. Who goes on after it meets the loss.
            raise torch.OutOfMemoryError(str(self.lost))
        if isinstance(self.lost, RankLost):
            self.goes_on(self.lost)
        raise self.lost

    def _judge(self, gone: RankGone, device: str) -> RankLost | RanksDisagree:
        rank = gone.rank
        if isinstance(gone, RankLate):
            self._ask_where(rank)
        ended = self._ended(rank) if not isinstance(gone, RankLate) else None
        self._kill()
        said = os.pread(self._words[rank], MOST_WORDS, 0).decode(errors="replace").strip()
        if isinstance(gone, RankLate):
            return RankLost(rank, device, f"did not come to where the others waited for {gone.seconds:g} s", said)
        if ended == 0 or said == ENDED:
            return RanksDisagree(rank, device, "a computation of all", "the end of its cell")
        if ended is None:
            return RankLost(rank, device, "failed" if said else "ended unexpectedly", said)
        if ended < 0:
            return RankLost(rank, device, f"was ended by {name_of(-ended)}", said)
        self._ran_out = ended == RAN_OUT
        return RankLost(rank, device, "ran out of memory" if self._ran_out else "failed", said)

    def _ended(self, rank: int) -> int | None:
        """Its status; None: its ends are closed and it lives on, or the cell has waited for it."""
        with self._lock:
            return self._forked[rank].ended(LAST_WORDS) if rank in self._forked else None

    def _ask_where(self, rank: int) -> None:
        with self._lock:
            if rank in self._forked:
                self._forked[rank].signal(WHERE)
        until = time.monotonic() + LAST_WORDS
        while time.monotonic() < until and not os.fstat(self._words[rank]).st_size:
            time.sleep(0.01)  # one that was stopped says nothing


def _wait(why: RankGone | RankDiffers) -> NoReturn:
    """Of one beside the first."""
    wait_for_the_end()


@dataclass
class _Sharing:
    whole: int = 0
    share: int = -1


_sharing = _Sharing()


@contextmanager
def _sharing_processors(size: int) -> Iterator[None]:
    """So many computing threads as this rank's part of them: more would only take turns."""
    whole = torch.get_num_threads()
    _sharing.whole, _sharing.share = whole, max(1, whole // size)
    torch.set_num_threads(_sharing.share)
    try:
        yield
    finally:
        if torch.get_num_threads() == _sharing.share:  # else the cell wanted another number
            torch.set_num_threads(whole)


@contextmanager
def _no_other_ranks() -> Iterator[None]:
    """A cell that begins a process group of its own would wait for ever for ranks that nobody starts."""
    if not torch.distributed.is_available():
        yield
        return
    real = torch.distributed.init_process_group

    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise HasItsOwnRanks

    torch.distributed.init_process_group = refuse
    try:
        yield
    finally:
        torch.distributed.init_process_group = real

"""One file of the lab: how it is called, what it says, and what can go wrong with it.

Whatever happens on one file is a fact about that file, but for want of something of ours.
"""

from __future__ import annotations

import errno
import functools
import operator
import os
import re
import stat
from dataclasses import dataclass
from typing import Literal

from .record import LONGEST, Claim, Hold, Request, Ticket, TicketWriter, UnreadHold, decode, device_mark

Kind = Literal["q", "c"]  # a ticket (in the queue), a claim
NAME = re.compile(r"([qc])\.([0-9]{1,10})\.([0-9a-f]{16})")
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO in our way must not make us wait
_FULL = {errno.ENOSPC, errno.EDQUOT}
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}  # of ours or the machine's, and no fact about a file


@dataclass
class LedgerEntry:
    request: Request
    writer: TicketWriter
    hold: Hold | None
    made: Ticket | None = None

    def value(self, name: str, found: os.stat_result) -> Ticket:
        if self.made is None or self.made.since != found.st_ctime_ns:
            self.made = self._make(name, found)
        return self.made

    def _make(self, name: str, found: os.stat_result) -> Ticket:
        ticket = Ticket(
            id=name,
            uid=found.st_uid,
            since=found.st_ctime_ns,  # the only time of a file that nobody can set back
            tie=found.st_ino,  # the time's steps are 4 ms; on tmpfs this number, which nobody chooses, grows
            pid=self.writer.pid,
            started=self.writer.start_time,
            view=self.writer.view,
            request=self.request,
        )
        return ticket if self.hold is None else Claim(**vars(ticket), hold=self.hold)


def is_ours(name: str, found: os.stat_result) -> bool:
    """Could one of us have made it? A hard link made by somebody else does not take that away."""
    match = NAME.fullmatch(name)
    return match is not None and stat.S_ISREG(found.st_mode) and int(match[2]) == found.st_uid


def read_entry(name: str, fd: int) -> LedgerEntry | None:
    """What the file says; None when it is nothing that we can read, and never will be."""
    try:
        request, writer, hold = decode(os.pread(fd, LONGEST, 0))
    except ValueError:
        return None
    return LedgerEntry(request, writer, hold) if (name[0] == "c") == (hold is not None) else None


def marks_of(hold: Hold) -> int:
    if isinstance(hold, UnreadHold):
        return hold.marks
    return functools.reduce(operator.or_, map(device_mark, hold.devices), 0)


def is_full(error: OSError) -> bool:
    return error.errno in _FULL


def is_exhausted(error: OSError) -> bool:
    """Is it for want of descriptors or memory, here or on the machine?"""
    return error.errno in _EXHAUSTED

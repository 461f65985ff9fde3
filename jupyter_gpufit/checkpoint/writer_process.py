"""The process that writes checkpoints: `python -m jupyter_gpufit.checkpoint.writer_process`, started by writer.Writer.

A process of its own, because a thread would take the interpreter's lock from the training, and a fork would copy every
page the training then touches. It imports no torch, and lives as long as the training.
"""

from __future__ import annotations

import errno
import mmap
import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

from .publish import Outdated, Publisher, Unlinked, prune, remove_leftovers
from .request import Answer, Request


def main() -> None:
    link, memory, parent, directory = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    for number in (signal.SIGINT, signal.SIGHUP):  # meant for the training
        signal.signal(number, signal.SIG_IGN)
    remove_leftovers(directory)
    publisher = Publisher(directory)
    with socket.socket(fileno=link) as channel, channel.makefile("rb") as lines:
        threading.Thread(target=_end_with, args=(parent, channel), daemon=True).start()
        for line in lines:
            if not line.endswith(b"\n"):
                break  # the training was killed while it asked
            request = Request.decode(line)
            answer = _publish(publisher, request, memory)
            with suppress(OSError):  # nobody hears it any more: then it is for whoever resumes
                channel.sendall(answer.encode())
            if not answer.failed:
                prune(directory, request.keep)


def _publish(publisher: Publisher, request: Request, memory: int) -> Answer:
    try:
        # Mapped for each: the buffer may have grown, and between two checkpoints this process should look small.
        with mmap.mmap(memory, os.fstat(memory).st_size, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
            publisher.publish(request, view)
        return Answer()
    except Outdated as outdated:
        return Answer("outdated", current=outdated.current)
    except Unlinked as unlinked:
        return Answer(str(unlinked), unlinked=True)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        return Answer(
            why, error.errno or errno.EIO, str(error.filename or ""), request.needed, _free(publisher.directory)
        )
    except Exception as error:  # whatever it is, the training shall hear of it and go on
        return Answer(f"{type(error).__name__}: {error}", errno.EIO)


def _free(directory: Path) -> int:
    try:
        found = os.statvfs(directory if directory.exists() else directory.parent)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def _end_with(parent: int, channel: socket.socket) -> None:
    """Let the channel end with the training's process, after what it asked for.

    It ends by itself, but not while some worker of a DataLoader, forked and forgotten, holds a copy of it.
    """
    try:
        fd = os.pidfd_open(parent)
        if os.getppid() == parent:  # asked after opening: the fd cannot mean another process
            select.select([fd], [], [])
    except ProcessLookupError:
        pass
    except OSError:
        return  # an older Linux
    with suppress(OSError):
        channel.shutdown(socket.SHUT_RD)  # what is in it can still be read


if __name__ == "__main__":
    main()

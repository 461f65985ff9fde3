"""The process that writes checkpoints: `python -m jupyter_gpufit.checkpoint.writer_process`, started by writer.Writer.

A process of its own, because a thread would take the interpreter's lock from the training, and a fork would copy every
page the training then touches. It imports no torch, and lives as long as the training.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

from .publish import Publisher, answer_to, prune, remove_leftovers
from .request import WriterAnswer, WriterRequest
from .windows import in_one


def main() -> None:
    link, memory, parent, directory = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    for number in (signal.SIGINT, signal.SIGHUP):  # meant for the training
        signal.signal(number, signal.SIG_IGN)
    remove_leftovers(directory, parent)
    publisher = Publisher(directory)
    with socket.socket(fileno=link) as channel, channel.makefile("rb") as lines:
        threading.Thread(target=_end_with, args=(parent, channel), daemon=True).start()
        for line in lines:
            if not line.endswith(b"\n"):
                break  # the training was killed while it asked
            request = WriterRequest.decode(line)
            answer = _publish(publisher, request, memory)
            with suppress(OSError):  # nobody hears it any more: then it is for whoever resumes
                channel.sendall(answer.encode())
            if not answer.failed:
                prune(directory, request.keep)


def _publish(publisher: Publisher, request: WriterRequest, memory: int) -> WriterAnswer:
    def publish() -> None:
        # Mapped for each: the buffer may have grown, and between two checkpoints this process should look small.
        with mmap.mmap(memory, os.fstat(memory).st_size, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
            publisher.publish(request, in_one(view))

    return answer_to(request, publisher.directory, publish)


def _end_with(parent: int, channel: socket.socket) -> None:
    """Let the channel end with the training's process, after what it asked for.

    It ends by itself, but not while some worker of a DataLoader, forked and forgotten, holds a copy of it.
    """
    try:
        fd = os.pidfd_open(parent)
        if os.getppid() == parent:  # asked after opening: the fd cannot mean another process
            select.select([fd], [], [])
    except (ProcessLookupError, FileNotFoundError):
        pass  # it has ended, or just does
    except OSError:
        return  # an older Linux
    with suppress(OSError):
        channel.shutdown(socket.SHUT_RD)  # what is in it can still be read


if __name__ == "__main__":
    main()

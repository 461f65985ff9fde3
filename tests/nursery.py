"""Workers in a moment, for tests that need hundreds: forked off a process that has imported what all workers import.

From the fork on they are what any worker is: the real process, sockets, locks and signals. One that moves replaces its
image as always; `Nursery.hold` is where such an image stands until a test lets it go on.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from jupyter_gpufit.engine.local import Started, WaitingWorker
from jupyter_gpufit.system.processes import reproducible, with_our_package

PROGRAM = """
import os, signal, socket, sys
from jupyter_gpufit.worker import child
channel = socket.socket(fileno=int(sys.argv[1]))
child._import_what_takes_long()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    data, fds, _, _ = socket.recv_fds(channel, 1, 1)
    if not data:
        break
    if os.fork() == 0:
        channel.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        sys.argv = ["worker", str(fds[0])]
        child.main()
        sys.exit(0)
    os.close(fds[0])
"""
SITE = """
import os, sys, time
if "--kept" in sys.orig_argv:
    open({begun!r}, "w").close()
    while not os.path.exists({hold!r}):
        time.sleep(0.01)
"""


@dataclass
class Nursery:
    process: subprocess.Popen[bytes]
    channel: socket.socket
    log: IO[bytes]
    begun: Path  # is there once a moved worker's new image has begun
    hold: Path  # while this is not there, such an image goes no further

    @classmethod
    def open(cls, env: Mapping[str, str], place: Path) -> Nursery:
        begun, hold = place / "begun", place / "hold"
        (place / "sitecustomize.py").write_text(SITE.format(begun=str(begun), hold=str(hold)))
        given = with_our_package(reproducible({**env, "PYTHONPATH": str(place)}))
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=given,
            )
        return cls(process, ours, tempfile.TemporaryFile(), begun, hold)

    def spawn(self, env: Mapping[str, str], python: str = sys.executable) -> WaitingWorker:
        """In the place of Waiting.spawn."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self.channel, [b"w"], [theirs.fileno()])
        return WaitingWorker(Started(self.process, self.log), ours)

    def close(self) -> None:
        self.channel.close()
        self.process.wait()
        self.log.close()

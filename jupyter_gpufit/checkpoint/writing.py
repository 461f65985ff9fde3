"""The process that writes, as the training sees it: started, asked, and ended."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from ..system.processes import start
from .request import WriterAnswer, WriterRequest

PATIENCE = 10.0  # seconds that it has to end by itself


class Writing:
    """The process that writes, and the channel to it."""

    def __init__(self, directory: Path, memory: int) -> None:
        self._channel, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = _start(theirs.fileno(), memory, directory)
        except OSError:
            self._channel.close()
            raise
        self._lines = self._channel.makefile("rb")

    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: WriterRequest) -> WriterAnswer:
        try:
            self._channel.sendall(request.encode())
            line = self._lines.readline()
        except OSError:
            line = b""
        if line.endswith(b"\n"):
            return WriterAnswer.decode(line)
        code = self._process.wait()
        end = f"signal {-code}" if code < 0 else f"exit code {code}"
        return WriterAnswer(f"the process that writes ended with {end}")

    def close(self) -> None:
        self._channel.shutdown(socket.SHUT_RDWR)
        self._lines.close()
        self._channel.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:  # removing an old checkpoint, from a disk that hangs
            self._process.kill()
            self._process.wait()


def _start(link: int, memory: int, directory: Path) -> subprocess.Popen[bytes]:
    arguments = [str(link), str(memory), str(os.getpid()), str(directory)]
    return start("checkpoint.writer_process", *arguments, descriptors=[link, memory], directory="/")

"""Send variables of a notebook to a worker, run a cell there, and take back what it made of them."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_gpufit.graph import GraphMemory, Reply, Returned, Shipment, receive, ship

from . import worker


def notebook(*cells: str) -> dict[str, Any]:
    """A namespace in which cells have been run."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        exec(compile(cell, "<notebook>", "exec"), namespace)
    return namespace


def defined(namespace: dict[str, Any]) -> list[str]:
    return [name for name in namespace if not name.startswith("__")]


@dataclass
class Crossing:
    """One cell's way through a worker."""

    shipment: Shipment
    reply: Reply
    returned: Returned


def cross_here(namespace: dict[str, Any], cell: str, *names: str, certain: Container[str] | None = None) -> Crossing:
    """Cross within this process: quick, and enough where nothing depends on the process."""
    shipment = ship(names or defined(namespace), namespace, certain=certain)
    there: dict[str, Any] = {"__name__": "__main__"}
    arrival = receive(shipment.graph, shipment.memory, there)
    exec(compile(cell, "<cell>", "exec"), there)
    reply = arrival.reply()
    reply = Reply(reply.graph, reply.memory)
    return Crossing(shipment, reply, shipment.bring_back(reply, namespace))


class Worker:
    """A second process, which opens each shipment in a fresh namespace."""

    def __init__(self) -> None:
        self._link, theirs = socket.socketpair()
        command = [sys.executable, "-m", f"{__package__}.worker", str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=Path(__file__).parents[2])
        theirs.close()

    def run(self, shipment: Shipment, cell: str, save: Path | None = None) -> Reply:
        request = {"graph": shipment.graph, "cell": cell, "save": save}
        worker.send(self._link, request, list(shipment.memory.fds))
        found, fds = worker.take(self._link)
        if "error" in found:
            raise AssertionError(f"the worker failed:\n{found['error']}")
        return Reply(found["graph"], GraphMemory(fds))

    def cross(self, namespace: dict[str, Any], cell: str, *names: str) -> Crossing:
        shipment = ship(names or defined(namespace), namespace)
        reply = self.run(shipment, cell)
        return Crossing(shipment, reply, shipment.bring_back(reply, namespace))

    def close(self) -> None:
        self._link.shutdown(socket.SHUT_RDWR)  # a DataLoader's processes may have been forked with it
        self._link.close()
        self._process.wait(300)

"""How long 1 GiB of tensors takes to a worker and back, against a plain copy and against torch.save and torch.load.

    python bench/travel.py [--gib 1] [--rounds 7]

Every round does everything once, so that a busy moment of the machine hits all alike; the table shows medians. The
worker is a second process that is already running: its start is not counted. "Touched" adds what the worker pays when
it first reads each page of the shared memory, which a clone has paid already and torch.load, too.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from common import write_results

from jupyter_gpufit.graph import GraphMemory, Reply, receive, ship

Times = dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker is not None:
        work(chosen.worker)
        return
    times = measure(chosen.gib, chosen.rounds)
    floor = statistics.median(times["clone()"])
    rows = {name: statistics.median(found) for name, found in times.items()}
    for name, seconds in rows.items():
        print(f"{name:48} {seconds:7.3f} s {chosen.gib / seconds:6.2f} GiB/s {seconds / floor:6.2f} x clone()")
    spread = {
        name: {"median": statistics.median(found), "min": min(found), "max": max(found)}
        for name, found in times.items()
    }
    write_results("travel", {"gib": chosen.gib, "load": os.getloadavg()[0], "seconds": spread})


def measure(gib: float, rounds: int) -> Times:
    """One tensor per 16 MiB, as the layers of a model have, kept through all rounds."""
    count = max(1, int(gib * 64))
    tensors = [torch.rand(4 << 20) for _ in range(count)]
    times: Times = defaultdict(list)
    with worker() as ask:
        for number in range(rounds + 1):
            found = one_round(tensors, ask)
            if number:  # the first warms up
                for name, seconds in found.items():
                    times[name].append(seconds)
    return times


def one_round(tensors: list[torch.Tensor], ask: Callable[..., tuple[dict[str, Any], list[int]]]) -> dict[str, float]:
    found: dict[str, float] = {}
    with timed(found, "clone()"):
        copies = [t.clone() for t in tensors]
    del copies
    namespace: dict[str, Any] = {"tensors": tensors}
    with timed(found, "in: ship"):
        shipment = ship(["tensors"], namespace)
    answer, fds = ask({"graph": shipment.graph}, list(shipment.memory.fds))
    found |= answer["times"]
    found["in, together"] = found["in: ship"] + found["in: receive"]
    found["in, together, and touched"] = found["in, together"] + found["in: first touch of every page"]
    reply = Reply(answer["graph"], GraphMemory(fds))
    with timed(found, "out, trained in place: bring_back"):
        shipment.bring_back(reply, namespace)
    found["out, trained in place, together"] = found["out: reply"] + found["out, trained in place: bring_back"]
    assert torch.equal(tensors[-1][:9], answer["check"])

    with timed(found, "out, all unchanged: bring_back"):
        shipment.bring_back(reply, namespace)
    del reply
    answer, fds = ask({"new": len(tensors)}, [])
    found |= answer["times"]
    reply = Reply(answer["graph"], GraphMemory(fds))
    with timed(found, "out, new tensors: bring_back"):
        shipment.bring_back(reply, namespace)
    found["out, new tensors, together"] = found["out, new tensors: reply"] + found["out, new tensors: bring_back"]
    assert namespace.pop("new")[-1][0] == 1

    path = Path(f"/dev/shm/gpufit-bench-{os.getpid()}.pt")
    with timed(found, "peer, one way: torch.save + torch.load, /dev/shm"):
        torch.save(tensors, path)
        torch.load(path)
    path.unlink()
    return found


@contextmanager
def timed(times: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    times[name] = time.perf_counter() - start


@contextmanager
def worker() -> Iterator[Callable[..., tuple[dict[str, Any], list[int]]]]:
    ours, theirs = socket.socketpair()
    command = [sys.executable, __file__, "--worker", str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    theirs.close()

    def ask(message: dict[str, Any], fds: list[int]) -> tuple[dict[str, Any], list[int]]:
        send(ours, message, fds)
        return take(ours)

    with ours:
        yield ask
    process.wait(60)


def work(link_fd: int) -> None:
    """The worker: opens a shipment and adds one to every tensor; or makes new ones."""
    with socket.socket(fileno=link_fd) as link:
        while True:
            try:
                message, fds = take(link)
            except EOFError:
                return
            times: dict[str, float] = {}
            if "graph" in message:
                namespace: dict[str, Any] = {}
                with timed(times, "in: receive"):
                    arrival = receive(message["graph"], GraphMemory(fds), namespace)
                with timed(times, "in: first touch of every page"):
                    for t in namespace["tensors"]:
                        t[::1024].sum()
                for t in namespace["tensors"]:
                    t.add_(1)
                with timed(times, "out: reply"):
                    reply = arrival.reply()
                check = namespace["tensors"][-1][:9].clone()
            else:
                namespace["new"] = [torch.ones(4 << 20) for _ in range(message["new"])]
                with timed(times, "out, new tensors: reply"):
                    reply = arrival.reply()
                check = torch.ones(0)
                del namespace["new"]
            send(link, {"times": times, "graph": reply.graph, "check": check}, list(reply.memory.fds))
            del reply


def send(link: socket.socket, message: dict[str, Any], fds: list[int]) -> None:
    import pickle

    body = pickle.dumps(message)
    socket.send_fds(link, [len(body).to_bytes(8, "little")], fds)
    link.sendall(body)


def take(link: socket.socket) -> tuple[dict[str, Any], list[int]]:
    import pickle

    length, fds, _, _ = socket.recv_fds(link, 8, 16)
    if not length:
        raise EOFError
    body = bytearray()
    while len(body) < int.from_bytes(length, "little"):
        body += link.recv(1 << 20)
    return pickle.loads(body), list(fds)


if __name__ == "__main__":
    main()

"""A worker that does nothing but open what it is sent, run a cell, and reply: `python worker.py <socket>`."""

from __future__ import annotations

import builtins
import pickle
import socket
import sys
import traceback
from typing import Any

from jupyter_gpufit.graph import GraphMemory, receive
from jupyter_gpufit.surroundings import midway

Message = dict[str, Any]


def send(link: socket.socket, message: Message, fds: list[int]) -> None:
    body = pickle.dumps(message)
    socket.send_fds(link, [len(body).to_bytes(8, "little")], fds)
    link.sendall(body)


def take(link: socket.socket) -> tuple[Message, list[int]]:
    length, fds, _, _ = socket.recv_fds(link, 8, 16)
    if not length:
        raise EOFError
    body = bytearray()
    while len(body) < int.from_bytes(length, "little"):
        body += link.recv(1 << 20)
    return pickle.loads(body), list(fds)


def answer(message: Message, fds: list[int]) -> tuple[Message, list[int]]:
    namespace: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
    midway.begin_alone(lambda: namespace)
    try:
        arrival = receive(message["graph"], GraphMemory(fds), namespace)
        exec(compile(message["cell"], "<cell>", "exec"), namespace)
        reply = arrival.reply()
        if message["save"]:
            reply.save(message["save"])
    except Exception:
        return {"error": traceback.format_exc()}, []
    kept.append(reply)
    return {"graph": reply.graph}, list(reply.memory.fds)


kept: list[Any] = []  # the last reply: its files must be open until they are sent

if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as link:
        while True:
            try:
                asked = take(link)
            except EOFError:
                break
            del kept[:]
            send(link, *answer(*asked))

"""Ports for servers that a test starts, which nothing else takes before they listen."""

import random
import socket

FIRST, LAST = 10_000, 30_000  # below those the system gives to whoever asks for any, as each kernel does five times

_held: dict[int, socket.socket] = {}


def free_ports(count: int) -> list[int]:
    """So many, that no other process of tests is given while this one lives, whichever checkout it tests."""
    return [_free() for _ in range(count)]


def _free() -> int:
    for port in random.sample(range(FIRST, LAST), 1000):
        if port not in _held and _take(port):
            return port
    raise AssertionError("no port is free")


def _take(port: int) -> bool:
    mark = socket.socket(socket.AF_UNIX)  # of no file: the system takes it back with the process
    try:
        mark.bind(f"\0gpufit-test-port-{port}")
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        mark.close()
        return False
    _held[port] = mark
    return True

"""Who looks at a Jupyter server, for panel.py: nobody, our panel, the page of a run beside it, and two others' pages.

Each is a process of its own: it says when it has begun, and goes on until it is told to stop.
"""

from __future__ import annotations

import http.client
import itertools
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.synchronize import Event

from common import package_root

package_root()

import websocket  # noqa: E402 - needs the path above

from tests.server.running import BASE, TOKEN  # noqa: E402

Look = Callable[[int, Event, Event], None]  # at this port: say when it has begun, and go on until told to stop

PAGE = 20.0  # seconds between two questions of the page of a run that has gone on for 20,000, as words/plot.ts has it
POINTS = 1500  # of a line, as it asks for
LOG = 5000 // 200 + 2  # messages until a log is there
SPAWN = multiprocessing.get_context("spawn")


def nobody(port: int, begun: Event, stop: Event) -> None:
    begun.set()
    stop.wait()


def our_panel(port: int, begun: Event, stop: Event) -> None:
    listen([f"ws://127.0.0.1:{port}{BASE}jupyter-gpufit/api/events"], begun, stop)


def our_run_page(port: int, begun: Event, stop: Event) -> None:
    """The panel, and the page of a run beside it with its log, once it has been drawn for the first time."""
    follows = {"follow": {"job": "job000", "after": -5000, "question": 1}}
    drawn = SPAWN.Event()
    page = SPAWN.Process(target=ask_curves, args=(port, drawn, stop), daemon=True)
    page.start()
    drawn.wait()
    listen([f"ws://127.0.0.1:{port}{BASE}jupyter-gpufit/api/events"], begun, stop, follows, LOG)
    page.join()


def ask_curves(port: int, drawn: Event, stop: Event) -> None:
    with asking(port) as ask:
        ask("jupyter-gpufit/api/jobs/job000/facts")
        while True:
            ask(f"jupyter-gpufit/api/jobs/job000/curves?span=whole&name=loss&points={POINTS}")
            drawn.set()
            if stop.wait(PAGE):
                return


def nvdashboard(port: int, begun: Event, stop: Event) -> None:
    charts = ("gpu_utilization", "gpu_usage")
    listen([f"ws://127.0.0.1:{port}{BASE}nvdashboard/{chart}" for chart in charts], begun, stop, FAST)


FAST = {"updateFrequency": 100, "isPaused": False}


def resource_usage(port: int, begun: Event, stop: Event) -> None:
    with asking(port) as ask:
        while True:
            ask("api/metrics/v1")
            begun.set()
            if stop.wait(5.0):
                return


def listen(urls: Sequence[str], begun: Event, stop: Event, first: object = None, opening: int = 1) -> None:
    """It has begun when each has brought so many messages."""
    connections = []
    with ExitStack() as stack:
        for url in urls:
            connection = websocket.create_connection(url, header=[f"Authorization: token {TOKEN}"], timeout=60.0)
            stack.callback(connection.close)
            if first is not None:
                connection.send(json.dumps(first))
            connections.append(connection)
        for number in itertools.count(1):
            for connection in connections:
                connection.recv()
            if number == opening:
                begun.set()
            if stop.is_set():
                return


@contextmanager
def asking(port: int) -> Iterator[Callable[[str], float]]:
    """Ask on one connection, as a browser does; the seconds that it takes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60.0)

    def ask(path: str) -> float:
        start = time.perf_counter()
        connection.request("GET", f"{BASE}{path}", headers={"Authorization": f"token {TOKEN}"})
        answer = connection.getresponse()
        answer.read()
        taken = time.perf_counter() - start
        assert answer.status == 200, answer.status
        return taken

    try:
        yield ask
    finally:
        connection.close()


@contextmanager
def looking(port: int, look: Look) -> Iterator[None]:
    begun, stop = SPAWN.Event(), SPAWN.Event()
    looker = SPAWN.Process(target=look, args=(port, begun, stop))
    looker.start()
    try:
        assert begun.wait(60.0), "whoever was to look did not"
        yield
    finally:
        stop.set()
        looker.join()

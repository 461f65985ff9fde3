"""A server extension of paper: it says what a test wants, and keeps what the page asks of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, Route, WebSocketRoute

GIB = 1 << 30
STRETCH = 200  # entries in one message
NOW = 1_800_000_000.0
API = "**/jupyter-gpufit/api/"
# JupyterLab's own, of a server that does not answer: it may come at any time after it was so, and lie over the panel.
NO_DIALOG = "() => { jupyterapp.serviceManager._connectionFailure.emit = () => {}; }"
ROOM = {"free": 72 * GIB, "foreign": 0, "held_for": "", "reserve": 8 * GIB, "strangers": []}
CAN = {"checkpoint": "", "release": "", "resume": "It is running.", "stop": "", "move": []}


def a_gpu(index: int, **said: Any) -> dict[str, Any]:
    """An idle GPU, but for what is said of it."""
    gpu = {
        "uuid": f"GPU-{index}",
        "label": str(index),
        "name": "NVIDIA H100 80GB HBM3",
        "index": index,
        "kind": "gpu",
        "total": 80 * GIB,
        "free": 80 * GIB,
        "reserved": 0,
        "processes": [],
        "utilisation": 0,
        "temperature": 31,
        "power": None,
        "capability": [9, 0],
        "problem": "",
        "room": ROOM,
        "parts": [a_part("reserve", 8), a_part("free", 72)],
        "history": [],
        "idle_since": None,
    }
    return gpu | said


def a_part(kind: str, size: float, user: str = "", used: float | None = None) -> dict[str, Any]:
    amount = None if used is None else int(used * GIB)
    return {"kind": kind, "user": user, "job": "", "bytes": int(size * GIB), "used": amount}


def a_process(pid: int, user: str, size: float, command: str = "") -> dict[str, Any]:
    return {"pid": pid, "user": user, "bytes": int(size * GIB), "started": NOW - 9000, "command": command}


def a_claim(user: str, name: str, *devices: str, **said: Any) -> dict[str, Any]:
    claim = {
        "id": f"c.{user}.{name}",
        "user": user,
        "mine": False,
        "job": "",
        "name": name,
        "label": "",
        "alone": False,
    }
    return claim | {"devices": list(devices), "bytes": 10 * GIB, "since": NOW - 7440, "asked_by": []} | said


def a_ticket(position: int, user: str, name: str, **said: Any) -> dict[str, Any]:
    ticket = {"id": f"q.{user}.{name}", "position": position, "user": user, "mine": False, "job": "", "name": name}
    ticket |= {"label": "", "wants": "12.0 GiB", "since": NOW - 185, "why": "held", "reason": "about to start"}
    ticket |= {"earliest": None, "latest": None, "expected": ""}
    return ticket | said


def a_job(name: str, **said: Any) -> dict[str, Any]:
    """A running job, but for what is said of it."""
    job = {"id": f"id-of-{name}", "name": name, "state": "running", "reason": "", "since": NOW, "created": NOW}
    job |= {
        "began": None if said.get("state") in ("estimating", "queued", "starting") else NOW,
        "ran": 0.0,
        "device": "",
        "epoch": 1,
        "step": 0,
        "notebook": "",
        "kernel_id": "",
        "cell": "",
        "pid": None,
        "metrics": [],
    }
    job |= {
        "followed": True,
        "metrics": [],
        "loss": None,
        "mfu": None,
        "mfu_foreseen": None,
        "memory": None,
        "checkpoint": None,
        "progress": a_progress(0),
        "kind": "training",
        "calls": None,
        "can": CAN,
    }
    return job | {"under_way": []} | said


def a_progress(step: int, **said: Any) -> dict[str, Any]:
    return {"step": step, "per_second": None, "total": None, "left": None} | said


@dataclass
class Stage:
    """What the page is told. Whatever is not set here goes to the real server."""

    page: Page
    status: dict[str, Any] = field(default_factory=dict)
    journal: list[dict[str, Any]] = field(default_factory=list)  # of every job
    asked: list[tuple[str, Any]] = field(default_factory=list)  # what was posted: its path, its body
    heard: list[dict[str, Any]] = field(default_factory=list)  # what came over the WebSocket
    answer: tuple[int, dict[str, Any]] = (202, {"said": "heard"})
    _sockets: list[WebSocketRoute] = field(default_factory=list)
    _questions: dict[str, int] = field(default_factory=dict)  # the last one about each job
    _held: list[Route] | None = None
    _silent: bool = False

    def open(self, *, socket: bool = True) -> Stage:
        """Begin to answer; with or without the WebSocket."""
        self.page.route(f"{API}status*", lambda route: self._say(route, 200, self.status))
        self.page.route(f"{API}jobs/*/journal*", lambda route: self._say(route, 200, self._stretch(route)))
        self.page.route(lambda url: "/jupyter-gpufit/api/" in url and _posts(url), self._act)
        if socket:
            self.page.route_web_socket(f"{API}events*", self._connected)
        else:
            self.page.route_web_socket(f"{API}events*", lambda ws: ws.close())
        return self

    def reset(self) -> None:
        """As at the beginning: nothing is there, and nothing was asked."""
        self._silent, self._held, self.answer = False, None, (202, {"said": "heard"})
        self.page.evaluate(NO_DIALOG)
        self.page.evaluate("jupyterapp.commands.execute('application:close-all')")
        self.status = {"time": self.status["time"]}
        self.journal.clear()
        self.show()
        self.asked.clear()
        self.heard.clear()
        self._questions.clear()

    def show(self, **status: Any) -> None:
        """Let this be so from now on."""
        lists: dict[str, Any] = {"devices": [], "jobs": [], "claims": [], "queue": [], "remarks": []}
        nothing = lists | {"host": None, "problem": "", "time": NOW}
        later = self.status.get("time", NOW) + 0.001  # the next reading, and yet durations stay as a test knows them
        self.status = {"version": "0.1.0"} | nothing | self.status | {"time": later} | status
        self.send({"type": "status", "status": self.status})

    def send(self, message: dict[str, Any]) -> None:
        for socket in self._sockets:
            socket.send(json.dumps(message))

    def write(self, *events: dict[str, Any]) -> None:
        """Append to the journal, and send it to whoever follows."""
        first = len(self.journal) + 1
        fresh = [{"number": first + i, "time": NOW + i, "event": event} for i, event in enumerate(events)]
        self.journal += fresh
        for job in self._questions:
            self.send(self._entries(job, fresh))

    def _entries(self, job: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
        return {"type": "entries", "job": job, "entries": entries, "ended": False, "question": self._questions[job]}

    def hold_actions(self) -> None:
        """Do not answer what is posted until `let_go`."""
        self._held = []

    def let_go(self) -> None:
        held, self._held = self._held or [], None
        for route in held:
            self._say(route, *self.answer)

    def go_away(self) -> None:
        """The server is gone: nothing answers, and connections break."""
        self._silent = True
        sockets, self._sockets = self._sockets, []
        for socket in sockets:
            socket.close()

    def come_back(self) -> None:
        self._silent = False

    def _connected(self, socket: WebSocketRoute) -> None:
        if self._silent:
            socket.close()
            return
        self._sockets.append(socket)
        socket.on_message(lambda text: self._hear(socket, json.loads(str(text))))
        socket.send(json.dumps({"type": "status", "status": self.status}))

    def _hear(self, socket: WebSocketRoute, message: dict[str, Any]) -> None:
        self.heard.append(message)
        if follow := message.get("follow"):  # what is there first, in stretches as the server sends them
            self._questions[follow["job"]] = follow["question"]
            first = self._behind(follow["after"])
            for at in range(first, len(self.journal), STRETCH):
                socket.send(json.dumps(self._entries(follow["job"], self.journal[at : at + STRETCH])))

    def _behind(self, after: int) -> int:
        return max(0, len(self.journal) + after) if after < 0 else after

    def _act(self, route: Route) -> None:
        path = route.request.url.split("/jupyter-gpufit/api/")[1].partition("?")[0]
        self.asked.append((path, route.request.post_data_json))
        if self._held is None:
            self._say(route, *self.answer)
        else:
            self._held.append(route)

    def _say(self, route: Route, code: int, said: dict[str, Any]) -> None:
        if self._silent:
            route.abort()
        else:
            route.fulfill(status=code, json=said)

    def _stretch(self, route: Route) -> dict[str, Any]:
        query = parse_qs(urlsplit(route.request.url).query)
        after, limit = int(query["after"][0]), int(query["limit"][0])
        after = self._behind(after)
        entries = self.journal[after : after + limit]
        return {"entries": entries, "next": after + len(entries), "ended": False}


def _posts(url: str) -> bool:
    verbs = ("checkpoint", "release", "move", "resume", "stop", "ask", "remove", "try")
    return any(urlsplit(url).path.endswith(f"/{verb}") for verb in verbs)

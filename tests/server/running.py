"""A real Jupyter server in a process of its own, and those who speak to it: by HTTP, and by WebSocket."""

from __future__ import annotations

import http.client
import http.cookies
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import psutil
import websocket

from tests import warm
from tests.ports import free_ports

TOKEN = "a-token"
BASE = "/a%40b/"
PATIENCE = 300.0  # seconds: for what must come; never a measure of speed


@dataclass(frozen=True)
class Answer:
    """What the server answered."""

    status: int
    body: Any  # read from JSON, or text
    headers: Mapping[str, str]


@dataclass
class Server:
    """A running one."""

    port: int
    process: subprocess.Popen[str]
    log: list[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{BASE}jupyter-gpufit/api"

    def ask(self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One request to our API, or to a path from the root; with the token unless other headers are given."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            place = urlsplit(f"{self.url}/{path}")
            target = path if path.startswith("/") else place.path + (f"?{place.query}" if place.query else "")
            given = {"Authorization": f"token {TOKEN}"} if headers is None else dict(headers)
            connection.request(method, target, body, given)
            response = connection.getresponse()
            text = response.read().decode()
            return Answer(response.status, _read(text), dict(response.getheaders()))
        finally:
            connection.close()

    def sign_in(self) -> tuple[str, str]:
        """The cookies of a browser that has signed in, and its _xsrf among them."""
        found: http.cookies.SimpleCookie = http.cookies.SimpleCookie()
        for page in (f"{BASE}login", f"{BASE}login?token={TOKEN}"):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            try:
                connection.request("GET", page)
                for line in connection.getresponse().headers.get_all("Set-Cookie", []):
                    found.load(line)
            finally:
                connection.close()
        return "; ".join(f"{name}={one.coded_value}" for name, one in found.items()), found["_xsrf"].value

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.body

    def status(self) -> dict[str, Any]:
        """What it says of this very moment: a reading serves everyone for a second."""
        asked = time.time()
        while (status := self.get("status"))["time"] < asked:
            time.sleep(0.05)
        found: dict[str, Any] = status
        return found

    def post(self, path: str, body: object = None) -> Answer:
        return self.ask("POST", path, None if body is None else json.dumps(body))

    def job(self, name: str) -> dict[str, Any]:
        """The newest job of this name, as it is now."""
        found: dict[str, Any] = [job for job in self.status()["jobs"] if job["name"] == name][-1]
        return found

    def memory(self) -> int:
        """Bytes that its process has."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def until_logged(self, words: str) -> None:
        """Wait until this stands in its log."""
        deadline = time.monotonic() + PATIENCE
        while not any(words in line for line in self.log):
            assert time.monotonic() < deadline, "".join(self.log)
            time.sleep(0.02)

    @contextmanager
    def client(self, cookies: str = "", origin: str = "") -> Iterator[Client]:
        """Somebody with a WebSocket: a program with the token, or a browser with cookies and an origin."""
        url = f"ws://127.0.0.1:{self.port}{BASE}jupyter-gpufit/api/events"
        header = [f"Cookie: {cookies}"] if cookies else [f"Authorization: token {TOKEN}"]
        more = {"origin": origin} if origin else {"suppress_origin": True}
        connection = websocket.create_connection(url, header=header, timeout=PATIENCE, **more)
        try:
            yield Client(connection)
        finally:
            connection.close()


@dataclass
class Client:
    """Somebody who looks."""

    connection: Any
    heard: list[dict[str, Any]] = field(default_factory=list)

    def send(self, message: object) -> None:
        self.connection.send(message if isinstance(message, str) else json.dumps(message))

    def hear(self) -> dict[str, Any]:
        """The next message."""
        message: dict[str, Any] = json.loads(self.connection.recv())
        self.heard.append(message)
        return message

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for such a message."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if wanted(message := self.hear()):
                return message
        raise AssertionError(f"it did not come; the last was {self.heard[-1:]}")

    def status(self, wanted: Callable[[dict[str, Any]], bool] = lambda status: True) -> dict[str, Any]:
        """Wait for such a status."""
        found = self.until(lambda message: message["type"] == "status" and wanted(message["status"]))
        status: dict[str, Any] = found["status"]
        return status

    def entries(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for such an entry of a journal that is followed."""

        def has(message: dict[str, Any]) -> bool:
            return message["type"] == "entries" and any(wanted(entry["event"]) for entry in message["entries"])

        return self.until(has)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _listen(stream: Iterable[str], log: list[str]) -> None:
    with suppress(ValueError):  # closed under us: the server has ended
        log.extend(stream)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except ConnectionRefusedError:
        time.sleep(0.02)
        return False
    return True


# Changes of the server's own for a test are made before it starts.
_START = f"{warm.SERVER}\n{{changes}}\nfrom jupyter_server.serverapp import main\nmain()"


@contextmanager
def running_server(
    env: Mapping[str, str], home: Path, *, changes: str = "", extension: str = "jupyter_gpufit"
) -> Iterator[Server]:
    """Start one with this extension, or with none, and wait until it listens."""
    [port] = free_ports(1)
    command = [
        *(sys.executable, "-c", _START.format(changes=changes)),
        *("--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"),
        *(f"--ServerApp.root_dir={home}", f"--IdentityProvider.token={TOKEN}", f"--ServerApp.base_url={BASE}"),
        *([f"--ServerApp.jpserver_extensions={{'{extension}': True}}"] if extension else []),
    ]
    env = {**env, "JUPYTER_NO_CONFIG": "1"}  # JupyterLab's own extensions take seconds
    with warm.lent(env) as given:
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=home, **given)
    with process:
        assert process.stderr is not None
        try:
            log: list[str] = []
            Thread(target=_listen, args=(process.stderr, log), daemon=True).start()  # a full pipe would stop it
            while not _listens(port):  # its log says so too early
                assert process.poll() is None, "the server did not start:\n" + "".join(log)
            yield Server(port, process, log)
        finally:
            process.terminate()

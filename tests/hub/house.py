"""A machine with JupyterHub and real Unix users: this one, in namespaces of its own for mounts and processes.

/etc is a copy, /run, /opt and /home are empty file systems, and /opt/gpufit is the environment of these tests. So users
are made, the lab is made, and passwords are set by the commands of docs/administrators.md, and nothing of it is left:
with its first process everything ends.
"""

from __future__ import annotations

import http.cookiejar
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300.0  # seconds: for what must come; never a measure of speed
PROXY = ROOT / "build" / "hub" / "node_modules" / ".bin" / "configurable-http-proxy"
SERVERS = {
    "GPUFIT_DEVICES": "cpu:2x2GiB",
    "GPUFIT_SPARE_WORKER": "never",
    "JUPYTERHUB_SINGLEUSER_APP": "jupyter_server.serverapp.ServerApp",  # JupyterLab takes seconds, and no part here
}
SPAWNED = 100  # servers, at most, that one hub starts in a test
CHANGED = """
load_subconfig("/etc/jupyterhub/jupyterhub_config.py")
_ports = iter({ports})
c.Spawner.pre_spawn_hook = lambda spawner: setattr(spawner, "port", next(_ports))
"""
MAKE = r"""
set -e
mount --make-rprivate /
cp -a /etc "$HOUSE/etc" && mount --bind "$HOUSE/etc" /etc
for place in /run /opt /home; do mount -t tmpfs -o mode=755 tmpfs "$place"; done
mkdir -p /opt/gpufit && mount --bind "$VENV" /opt/gpufit
# What users need of a folder that only root may enter, or of /tmp, is put into an empty one in its place.
number=0 emptied=" "
while IFS='|' read -r needed closed; do
  number=$((number + 1)); mkdir "$HOUSE/needed.$number"
  [ -z "$needed" ] || mount --bind "$needed" "$HOUSE/needed.$number"
done <<< "$CLOSED"
number=0
while IFS='|' read -r needed closed; do
  number=$((number + 1))
  [[ $emptied = *" $closed "* ]] || mount -t tmpfs -o mode=1777 tmpfs "$closed"
  emptied="$emptied$closed "
  [ -z "$needed" ] || { mkdir -p "$needed" && mount --bind "$HOUSE/needed.$number" "$needed"; }
done <<< "$CLOSED"
echo made
exec sleep infinity
"""


@dataclass
class House:
    """The machine."""

    pid: int  # its first process, as we number it
    folder: Path

    def command(self, *words: str, user: str = "") -> list[str]:
        """What runs these words in there: as root, or as a user who has logged in."""
        become = ["runuser", "-l", user, "-c", " ".join(words)] if user else list(words)
        return ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--", *become]

    def run(self, *words: str, user: str = "", code: int = 0, given: str | None = None) -> str:
        """Run it to its end; what it said."""
        ran = subprocess.run(
            self.command(*words, user=user),
            input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert ran.returncode == code, ran.stdout
        return ran.stdout

    def shell(self, text: str, **more: str) -> str:
        """The same of a line for a shell."""
        return self.run("bash", "-euc", text, **more)  # type: ignore[arg-type]


@contextmanager
def house(folder: Path) -> Iterator[House]:
    """Skips, loudly, where that cannot be."""
    _check()
    env = {**os.environ, "HOUSE": str(folder), "VENV": sys.prefix, "CLOSED": _closed()}
    space = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "bash",
        "-c",
        MAKE,
    ]
    with subprocess.Popen(space, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            if process.stdout.readline() != "made\n":
                pytest.skip(f"NOT TESTED: JupyterHub. Namespaces are not allowed here: {process.stderr.read()}")
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            yield House(int(children[0]), folder)
        finally:
            process.kill()


def _check() -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: JupyterHub with several users. Run the tests as root, in a container, to test it.")
    pytest.importorskip("jupyterhub", reason="NOT TESTED: JupyterHub is not installed: pip install -e '.[dev]'")
    if not PROXY.exists() or shutil.which("node") is None:
        pytest.skip(f"NOT TESTED: JupyterHub. npm install --prefix {PROXY.parents[2]} configurable-http-proxy")


def _closed() -> str:
    """What users need, with the folder above it that they may not enter, or that is to be empty; one a line."""
    lines = ["|/tmp"]
    for place in {Path(sys.prefix), Path(sys.base_prefix), ROOT}:
        closed = [one for one in place.parents if one == Path("/tmp") or not one.stat().st_mode & 0o001]
        lines += [f"{place}|{closed[-1]}"] if closed else []
    return "\n".join(lines)


@dataclass
class RunningHub:
    """A JupyterHub that runs in the house."""

    house: House
    url: str
    ports: Sequence[int]
    process: subprocess.Popen[str]
    log: Path

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            try:
                if Person(self).get("/services/gpufit/metrics").status in (302, 403):
                    return
            except OSError:
                pass
            time.sleep(0.5)

    def stop(self) -> None:
        """As an administrator does, with SIGTERM; it has to end its services and the proxy for that."""
        self.house.shell(f"kill $(cat {self.log.parent}/hub.pid)")
        self.process.wait(PATIENCE)


def start_hub(
    house: House, ports: Sequence[int], *more: str, servers: Mapping[str, str] = MappingProxyType(SERVERS)
) -> RunningHub:
    """By the example's own configuration, as the page says; what is changed for the test stands on the command line.

    Only the ports of the users' servers do not: the hub would take any, and a kernel beside it has it by then.
    """
    log = house.folder / "hub.log"
    url = f"http://127.0.0.1:{ports[0]}"
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("GPUFIT_", "JUPYTER"))},
        "PATH": f"{PROXY.parent}:{os.environ['PATH']}",
        "GPUFIT_HUB_BIND": url,
        "GPUFIT_HUB_SERVICE": f"http://127.0.0.1:{ports[1]}",
        "GPUFIT_HUB_ADMINS": "carol",
        "GPUFIT_PROMETHEUS_TOKEN": "a-token-for-prometheus",
        "GPUFIT_HUB_STATE": str(house.folder / "state"),
        "GPUFIT_DEVICES": "cpu:2x2GiB",
        "HOME": "/root",
    }
    changed = house.folder / "config.py"
    changed.write_text(CHANGED.format(ports=free_ports(SPAWNED)))
    command = house.command(
        "/opt/gpufit/bin/jupyterhub",
        *("-f", str(changed)),
        f"--JupyterHub.hub_port={ports[2]}",
        f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{ports[3]}",
        f"--Spawner.environment={dict(servers)}",
        *("--Spawner.http_timeout=300", "--Spawner.start_timeout=300"),  # the machine may be busy
        f"--JupyterHub.pid_file={house.folder}/hub.pid",
        f"--JupyterHub.cookie_secret_file={house.folder}/secret",
        f"--JupyterHub.db_url=sqlite:///{house.folder}/hub.sqlite",
        *more,
    )
    with open(log, "a") as out:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=out, text=True, cwd=house.folder)
    return RunningHub(house, url, ports, process, log)


@dataclass(frozen=True)
class Reply:
    """What came back, and from where."""

    status: int
    text: str
    url: str


class _Stay(urllib.request.HTTPRedirectHandler):
    """Does not follow."""

    def redirect_request(self, *_: object) -> None:
        return None


@dataclass
class Person:
    """A browser without a window: cookies, and the hub's XSRF value."""

    hub: RunningHub
    name: str = ""
    jar: http.cookiejar.CookieJar = field(default_factory=http.cookiejar.CookieJar)

    def get(self, path: str, *, token: str = "", follow: bool = False) -> Reply:
        return self._ask(path, None, token, follow)

    def post(self, path: str, body: bytes = b"", *, token: str = "", method: str = "POST", **headers: str) -> Reply:
        return self._ask(path, body, token, False, method, headers)

    def submit(self, page: str, path: str, **fields: str) -> Reply:
        """A form, with the value that its page has against other sites' forms."""
        found = re.search(r'name="_xsrf" value="([^"]+)"', self.get(page, follow=True).text)
        body = urllib.parse.urlencode({**fields, **({"_xsrf": found[1]} if found else {})})
        return self.post(path, body.encode())

    def sign_in(self, password: str) -> None:
        page = self.get("/hub/login", follow=True).text
        xsrf = re.search(r'name="_xsrf" value="([^"]+)"', page)
        assert xsrf, page
        fields = {"username": self.name, "password": password, "_xsrf": xsrf[1]}
        reply = self.post("/hub/login?next=%2Fhub%2Fhome", urllib.parse.urlencode(fields).encode())
        assert reply.status == 302, (reply.status, self.hub.log.read_text())

    def _ask(
        self,
        path: str,
        body: bytes | None,
        token: str,
        follow: bool,
        method: str = "",
        headers: dict[str, str] | None = None,
    ) -> Reply:
        handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPCookieProcessor(self.jar)]
        opener = urllib.request.build_opener(*handlers, *([] if follow else [_Stay]))
        url = path if path.startswith("http") else self.hub.url + path
        request = urllib.request.Request(url, body, headers or {}, method=method or ("GET" if body is None else "POST"))
        if token:
            request.add_header("Authorization", f"token {token}")
        try:
            with opener.open(request, timeout=PATIENCE) as answer:
                return Reply(answer.status, answer.read().decode(), answer.url)
        except urllib.error.HTTPError as error:
            return Reply(error.code, error.read().decode(), error.url or url)

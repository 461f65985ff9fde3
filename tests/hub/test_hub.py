"""A real JupyterHub, two users and an administrator, on a machine of its own; by docs/administrators.md's own commands.

Ada trains. Bob can do nothing to it, by whatever way. Carol has it saved and released. The longer story is under soak.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hub.house import PATIENCE, ROOT, House, Person, RunningHub, house, start_hub
from tests.ports import free_ports

pytestmark = pytest.mark.slow(40)
PEOPLE = ("ada", "bob", "carol")
GPUFIT = "/opt/gpufit/bin/gpufit"
API = "/user/ada/jupyter-gpufit/api"
TRAINS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "jupyter_gpufit")
cell = "%%gpufit train --name bert --memory 512MiB --detach\\nimport time\\nfor step in range(10**9): time.sleep(0.02)"
shell.run_cell(cell).raise_error()
"""


# What fetches packages, for which these tests' own environment stands; what never ends (see start_hub); and systemd.
NOT_HERE = (
    *(
        "apt-get",
        "/usr/bin/python3 -m venv",
        "python3 -m venv",
        "/opt/gpufit/bin/pip",
        "npm install",
        "cd /etc/jupyterhub &&",
    ),
    *("cp examples/hub/jupyterhub.service", "systemctl"),
)


def documented(heading: str) -> list[str]:
    """The commands of a section of the administrators' page; root needs no sudo."""
    page = (ROOT / "docs" / "administrators.md").read_text()
    section = re.split(r"^#+ ", page[page.index(f"# {heading}\n") + 2 :], flags=re.MULTILINE)[0]
    blocks = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    return [line.removeprefix("sudo ") for block in blocks for line in block.splitlines()]


def until(wanted: Callable[[], object], what: Callable[[], object] = str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not wanted():
        assert time.monotonic() < deadline, what()
        time.sleep(0.5)


@pytest.fixture(scope="module")
def machine() -> Iterator[House]:
    with tempfile.TemporaryDirectory(prefix="gpufit-hub-", dir="/var/tmp") as folder, house(Path(folder)) as machine:
        Path(folder).chmod(0o755)  # its users read there
        for name in PEOPLE:
            machine.run("useradd", "--create-home", "--shell", "/bin/bash", name)
        machine.run("chpasswd", given="".join(f"{name}:pw-{name}\n" for name in PEOPLE))
        machine.run("mkdir", "-p", "/etc/gpufit")
        machine.shell("echo 'notice = \"1s\"' > /etc/gpufit/policy.toml")
        for line in documented("From a bare Debian server to a lab with JupyterHub"):
            if not line.startswith(NOT_HERE):
                machine.shell(f"cd {ROOT}; {line}")
        yield machine


def as_user(machine: House, name: str, words: str, code: int = 0) -> str:
    return machine.run(f"GPUFIT_DEVICES=cpu:2x2GiB GPUFIT_SPARE_WORKER=never {words}", user=name, code=code)


def job(machine: House) -> dict[str, object]:
    jobs = json.loads(as_user(machine, "ada", f"{GPUFIT} jobs --json"))
    found: dict[str, object] = (jobs["jobs"] if isinstance(jobs, dict) else jobs)[0]
    return found


def train(machine: House) -> None:
    """Ada's job, which nobody waits for."""
    (machine.folder / "trains.py").write_text(TRAINS)
    as_user(machine, "ada", f"/opt/gpufit/bin/python {machine.folder}/trains.py")
    until(lambda: job(machine)["state"] == "running", lambda: job(machine))


def hub_ports() -> list[int]:
    return free_ports(4)


@pytest.fixture(scope="module")
def hub(machine: House) -> Iterator[RunningHub]:
    hub = start_hub(machine, hub_ports())
    hub.wait_until_ready()
    yield hub
    hub.stop()


def test_the_lab_is_proved(machine: House) -> None:
    found = json.loads(machine.run(GPUFIT, "lab", "check", "--hub", "--json"))

    assert found["ok"], found
    assert "would be" not in machine.run(GPUFIT, "lab", "init", "--hub", "--dry-run"), "all is done"


@pytest.mark.slow(52)
def test_two_users_and_an_administrator(machine: House, hub: RunningHub) -> None:
    train(machine)
    _empties_the_lab(machine)
    ada, bob, carol = people = [Person(hub, name) for name in PEOPLE]
    for one in people:
        one.sign_in(f"pw-{one.name}")
    ada.get("/hub/spawn/ada", follow=True)
    her_page = f"{hub.url}/user/ada/files/nothing"  # of her own server; there she signs in, too
    until(lambda: ada.get(her_page, follow=True).url == her_page, hub.log.read_text)
    assert '"bert"' in ada.get(f"{API}/status").text
    id, socket = str(job(machine)["id"]), machine.shell("ls /tmp/gpufit-$(id -u ada)/*.sock").split()[0]
    (claim,) = machine.shell("ls /run/gpufit | grep ^c").split()

    _cannot_act(machine, bob, id, claim, socket)
    page = bob.get("/services/gpufit/", follow=True).text
    assert "ada" in page and "bert" in page and "<form" not in page
    assert bob.submit("/services/gpufit/", "/services/gpufit/act", deed="release", id=claim).status == 403
    assert Person(hub).get("/services/gpufit/").status == 302, "who has not signed in"
    assert Person(hub).get("/services/gpufit/metrics", token="wrong").status == 403
    assert job(machine)["state"] == "running"

    assert carol.submit("/services/gpufit/", "/services/gpufit/act", deed="release", id=claim).status == 303
    until(lambda: job(machine)["state"] == "released", lambda: job(machine))

    def shown() -> str:
        return carol.get("/services/gpufit/", follow=True).text

    until(lambda: "at its next safe point" in shown(), shown)  # what came of it is noted a moment after it
    until(lambda: "Nobody holds a device" in shown(), shown)  # nor is its claim gone with its last word

    def figures() -> str:
        return Person(hub).get("/services/gpufit/metrics", token="a-token-for-prometheus").text

    until(lambda: 'gpufit_preemptions_total{user="ada",why="order"} 1.0' in figures(), figures)
    assert "gpufit_checkpoint_seconds_count 1.0" in figures()

    assert carol.submit("/services/gpufit/", "/services/gpufit/act", deed="drain", id="cpu:1").status == 303
    assert "drained: nothing starts here" in bob.get("/services/gpufit/", follow=True).text
    assert carol.submit("/services/gpufit/", "/services/gpufit/act", deed="fill", id="cpu:1").status == 303
    assert "drained: nothing starts here" not in bob.get("/services/gpufit/", follow=True).text


def _empties_the_lab(machine: House) -> None:
    """Ada trains on, nobody takes her device, and the documented command has her in the lab again."""
    (before,) = machine.shell("ls /run/gpufit | grep ^c").split()
    machine.shell("rm -rf /run/gpufit/*")  # a socket may go meanwhile
    assert "is gone: somebody emptied it" in as_user(machine, "bob", f"{GPUFIT} status")
    (mends,) = documented("When `/run` is emptied")
    machine.shell(mends)
    held = machine.shell("ls /run/gpufit | grep ^c").split()
    assert len(held) == 1 and held != [before] and held[0].split(".")[1] == machine.shell("id -u ada").strip()
    assert "ada" in as_user(machine, "bob", f"{GPUFIT} status")


def _cannot_act(machine: House, bob: Person, id: str, claim: str, socket: str) -> None:
    """By REST and by the panel's own socket, by the job's socket, its files, the command line and the lab."""
    for path in ("status", "events", f"jobs/{id}/journal", f"jobs/{id}/stop"):
        for reply in (bob.get(f"{API}/{path}", follow=True), bob.post(f"{API}/{path}", b"{}")):
            assert reply.status in (403, 404, 405), (path, reply)
            assert "bert" not in reply.text
    upgrade = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "eA==",
    }
    assert bob.post(f"{API}/events", None, method="GET", **upgrade).status == 403  # type: ignore[arg-type]
    said = as_user(machine, "bob", f"{GPUFIT} stop bert", code=2) + as_user(
        machine, "bob", f"{GPUFIT} release --insist ada/bert", code=2
    )
    assert "only ada can do this" in said and "only root can insist" in said
    tries = (
        f"import socket; socket.socket(socket.AF_UNIX).connect('{socket}')",
        f"open('/home/ada/.local/share/gpufit/jobs/{id}/state.json', 'w')",
        f"open('/home/ada/.local/share/gpufit/jobs/{id}/state.json')",
        f"import os; os.unlink('/run/gpufit/{claim}')",
        f"import os; os.rename('/run/gpufit/{claim}', '/run/gpufit/c.1.0')",
        f"open('/run/gpufit/{claim}', 'a')",
    )
    script = machine.folder / "tries.py"
    script.write_text(
        f"for one in {tries!r}:\n    try: exec(one); print('COULD', one)\n    except PermissionError: print('no')"
    )
    assert as_user(machine, "bob", f"/opt/gpufit/bin/python {script}").split() == ["no"] * len(tries)


def test_the_other_commands_of_the_page_do_what_it_says(machine: House, hub: RunningHub) -> None:
    machine.shell("ln -s /opt/gpufit /opt/gpufit-0.2")
    for heading in ("Upgrade", "Without a hub"):
        lines = [line for line in documented(heading) if not line.startswith(NOT_HERE)]
        assert lines
        for line in lines:
            machine.shell(f"cd {ROOT}; {line}")


def test_uninstall_leaves_what_people_wrote(machine: House, hub: RunningHub) -> None:
    dry, real = documented("Uninstall")
    assert "would be removed: /run/gpufit" in machine.shell(dry)

    assert "left: /etc/gpufit" in machine.shell(real)
    assert machine.shell("ls -d /run/gpufit /etc/ipython/* /etc/tmpfiles.d/gpufit.conf 2>/dev/null || true") == ""


def test_the_hub_starts_by_the_documented_command() -> None:
    documentation = documented("From a bare Debian server to a lab with JupyterHub")
    (line,) = [line for line in documentation if line.startswith("cd ")]
    assert line.endswith("/opt/gpufit/bin/jupyterhub -f /etc/jupyterhub/jupyterhub_config.py")

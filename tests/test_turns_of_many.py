"""Many users' workers on few slots, who give each other their turns: no step is lost or done twice, no slot is shared.

Real users, real workers, real claims: four on two slots in the suite, twenty on four in the soak.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.lab.ledger import LedgerReader
from jupyter_gpufit.lab.watch import LabWatch
from tests.people import make_shared, need_root

HERE = Path(__file__).resolve().parents[1]
PATIENCE = 540.0  # seconds without a step of anybody; never a measure of speed
# Python may lie where only root reads; a user who may read all is a user of their own all the same.
BECOME = ("--clear-groups", "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
CELL = """%%gpufit train --detach --name many
import random, time
chance = random.Random(7); total = 0.0
for step in range({steps}):
    with open("steps", "a") as steps:
        steps.write(f"{{step}} {{chance.random().hex()}}\\n")
    time.sleep(0.1)
"""
USER = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "jupyter_gpufit")
shell.run_cell(sys.argv[1]).raise_error()
"""


@pytest.fixture
def place(folder: Path) -> Iterator[Path]:
    """A lab that all share, with a policy of turns; those who still run at the end are killed."""
    need_root()
    if shutil.which("setpriv") is None:
        pytest.skip("NOT TESTED: other users. It takes setpriv (util-linux).")
    make_shared(folder / "lab")
    (folder / "policy.toml").write_text('notice = "1s"\nentry_penalty = 1\n[default]\nquantum = "2s"\n')
    yield folder
    for claim in (*LedgerReader(folder / "lab").read().claims, *LedgerReader(folder / "lab").read().tickets):
        os.kill(claim.pid, 9)


@pytest.mark.parametrize(
    ("users", "slots", "steps"),
    [pytest.param(4, 2, 40, marks=pytest.mark.slow(30)), pytest.param(20, 4, 60, marks=pytest.mark.soak)],
)
def test_no_step_is_lost_and_no_slot_is_granted_twice(place: Path, users: int, slots: int, steps: int) -> None:
    homes = [place / str(61001 + number) for number in range(users)]
    starting = [_start(home, place, slots, CELL.format(steps=steps)) for home in homes]
    most = anyio.run(_watch, place / "lab", homes)
    for user in starting:
        assert user.wait(PATIENCE) == 0
    expected = homes[0].joinpath("steps").read_text()
    for home in homes:
        assert home.joinpath("steps").read_text() == expected
    assert [int(line.split()[0]) for line in expected.splitlines()] == list(range(steps))
    turns = sum(_journal(home).count("its turn ended at") for home in homes)
    print(f"{users} users on {slots} slots: {turns} turns ended, {users * steps} steps, each once")  # noqa: T201 - the soak is read
    assert most == slots and turns > 0


def _start(home: Path, place: Path, slots: int, cell: str) -> subprocess.Popen[bytes]:
    uid = int(home.name)
    home.mkdir(mode=0o700)
    os.chown(home, uid, uid)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUFIT_", "XDG_", "JPY_"))}
    env = kept | {
        "HOME": str(home),
        "PYTHONPATH": str(HERE),
        "GPUFIT_RUNTIME": str(home / "run"),
        "GPUFIT_LAB": str(place / "lab"),
        "GPUFIT_POLICY": str(place / "policy.toml"),
        "GPUFIT_DEVICES": f"cpu:{slots}x1GiB",
        "GPUFIT_ESTIMATE_LIMIT": "0",
        "GPUFIT_SPARE_WORKER": "never",
        "GPUFIT_SHRINK_AFTER": "0",
    }
    become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", *BECOME, sys.executable, "-c", USER, cell]
    return subprocess.Popen(become, env=env, cwd=home, stdin=subprocess.DEVNULL)


async def _watch(lab: Path, homes: list[Path]) -> int:
    """At each change of the lab, until all are done: nobody has what somebody else has. How many had one at most."""
    reader, most, last = LedgerReader(lab), 0, time.monotonic()
    with LabWatch(lab) as watch:
        known = ""
        while not all(_state(home) == "done" for home in homes):
            held = [device for claim in reader.read().claims for device in claim.hold.devices]
            assert len(held) == len(set(held)), held
            most = max(most, len(held))
            now = " ".join(map(_state, homes)) + str([_size(home / "steps") for home in homes])
            last, known = (time.monotonic(), now) if now != known else (last, known)
            assert time.monotonic() < last + PATIENCE, now
            await watch.changed(1.0)
    return most


def _state(home: Path) -> str:
    found = list(home.glob(".local/share/gpufit/jobs/*/state.json"))
    state = str(json.loads(found[0].read_text())["state"]) if found else ""
    assert state not in ("failed", "stopped", "lost"), _journal(home)
    return state


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _journal(home: Path) -> str:
    [found] = home.glob(".local/share/gpufit/jobs/*/journal.jsonl")
    return found.read_text()

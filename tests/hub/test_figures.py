"""What is remembered of the lab, and what Prometheus is told."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_gpufit.devices.here import read_devices
from jupyter_gpufit.hub import deeds
from jupyter_gpufit.hub.audit import AuditLog
from jupyter_gpufit.hub.figures import LabFigures
from jupyter_gpufit.hub.store import KEPT, DeviceLook, HubStore
from jupyter_gpufit.lab import Claim, Lab, Request, published
from jupyter_gpufit.lab.happenings import Happening, HappeningReader, note_happening
from jupyter_gpufit.lab.policy_file import drained_path, load_policy
from jupyter_gpufit.lab.record import Hold
from jupyter_gpufit.lab.standing import Standing
from jupyter_gpufit.lab.usage import Use, note_use, parse_uses, read_uses
from jupyter_gpufit.lab.wishes import make_wish, new_wishes, read_wishes
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.system.users import user_name
from jupyter_gpufit.units import GiB
from tests.hub.test_page import CLAIM, NOW, STATUS, TICKET
from tests.lab.conftest import lab
from tests.lab.players import Player, Stage, start
from tests.lab.values import ADA, claim

__all__ = ["lab"]
ROOT = Path(__file__).resolve().parents[2]


def test_the_history_outlives_the_lab_and_the_service(tmp_path: Path) -> None:
    path, noon = tmp_path / "state" / "history.sqlite", 1_800_000_000.0
    store = HubStore(path)
    for second, busy in ((0, 0.0), (10, 1.0), (60, 1.0)):
        store.note(
            noon + second, [DeviceLook("0", busy, True), DeviceLook("cpu:0", None, True)], {1: [use(noon, second)]}
        )
    store.close()

    store = HubStore(path)
    assert [point.busy for point in store.busy(noon, noon + 120, 60)["0"]] == [0.5, 1.0]
    assert [point.busy for point in store.busy(noon, noon + 120, 120)["0"]] == [pytest.approx(2 / 3)]
    assert [point.busy for point in store.busy(noon, noon + 120, 120)["cpu:0"]] == [1.0], "held, where nobody tells"
    assert store.uses(noon) == {1: [use(noon, 60)]}
    assert path.stat().st_mode & 0o077 == 0

    store.note(noon + 2 * KEPT, [], {})
    assert (store.uses(0), store.busy(0, noon + 3 * KEPT, 60)) == ({}, {})
    store.close()


def use(noon: float, seconds: float) -> Use:
    return Use("c1", noon - 60, noon + seconds, 0.5, ("GPU-a",))


def test_one_users_record_neither_blinds_the_service_nor_fills_its_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_gpufit.hub.store.MOST_EACH", 10)
    noon = 1_800_000_000.0
    record = {"start": noon - 60, "until": 9e10, "share": 1, "devices": ["\x1b[2J\ud800" * 999]}
    lines = [json.dumps(record | {"claim": claim}) for claim in ("\ud800", "c" * 99_999, *map(str, range(50)))]
    [*_, long] = uses = list(parse_uses("\n".join(lines).encode()))
    assert len(lines) == len(uses) and len(long.devices[0]) <= 200 and long.devices[0].isprintable()

    store = HubStore(tmp_path / "history.sqlite")
    store.note(noon, [], {1: uses, 2: [use(noon, 0)]})
    assert store.uses(0)[2] == [use(noon, 0)] and len(store.uses(0)[1]) == 10
    store.note(noon + 2 * KEPT, [], {})
    assert store.uses(0) == {}, "also what was to end long after"
    store.close()


def test_what_is_so_now_is_told() -> None:
    figures = LabFigures()
    figures.note(STATUS)

    told = figures.text().decode()
    assert 'gpufit_device_memory_bytes{device="0",kind="free"} 1.2884901888e+010'.replace("+0", "+") in told
    assert 'gpufit_claims{user="ada"} 1.0' in told
    assert 'gpufit_queue_length{why="memory"} 1.0' in told
    assert "gpufit_queue_oldest_seconds 60.0" in told


def test_waits_and_what_happened_are_counted() -> None:
    figures = LabFigures()
    figures.note(STATUS)
    mine = replace(CLAIM, user=TICKET.user, job=TICKET.job, since=NOW + 40)
    figures.note(
        replace(STATUS, claims=(mine,), queue=()),
        (Happening("ada", "checkpoint", 2.5, 1000), Happening("ada", "turn"), Happening("ada", "order")),
    )
    figures.note(replace(STATUS, claims=(mine,), queue=()))

    told = figures.text().decode()
    assert 'gpufit_wait_seconds_sum{user="bob"} 100.0' in told
    assert 'gpufit_wait_seconds_count{user="ada"}' not in told, "who held before the service began"
    assert "gpufit_checkpoint_seconds_sum 2.5" in told and "gpufit_checkpoint_bytes_total 1000.0" in told
    assert 'gpufit_preemptions_total{user="ada",why="turn"} 1.0' in told


def test_the_dashboard_asks_for_figures_that_there_are() -> None:
    figures = LabFigures()
    figures.note(STATUS, (Happening("ada", "turn"),))
    figures.note(replace(STATUS, claims=(replace(CLAIM, job="another"),)))
    names = {line.split("{")[0].split(" ")[0] for line in figures.text().decode().splitlines() if line[0] != "#"}
    board = json.loads((ROOT / "examples" / "hub" / "grafana.json").read_text())

    asked = {word for panel in board["panels"] for target in panel["targets"] for word in _names(target["expr"])}
    assert asked and asked <= names
    assert {panel["type"] for panel in board["panels"]}


def _names(expression: str) -> set[str]:
    return set(re.findall(r"gpufit_\w+", expression))


def test_what_happened_is_read_once(lab: Lab) -> None:
    note_happening(lab.path, "turn")
    reader = HappeningReader(lab.path)
    assert reader.new() == (), "before it looked"
    note_happening(lab.path, "checkpoint", seconds=1.5, bytes=7)
    with ledger_claim(lab) as claim:
        note_use(lab.path, claim, time.time() + 1)

    me = user_name(os.geteuid())
    assert reader.new() == (Happening(me, "checkpoint", 1.5, 7),)
    assert reader.new() == ()
    assert [found.claim for found in read_uses(lab.path)[os.geteuid()]] == [claim.id], "and no reader of uses minds"


class ledger_claim:
    """A claim that counts for the block."""

    def __init__(self, lab: Lab) -> None:
        request, hold = Request(job_id="abcdef", name="bert", needed=1), Hold(devices=("GPU-a",), bytes=1, alone=False)
        self._published, self._asked = published.publish(lab.path, request, hold), (request, hold)

    def __enter__(self) -> Claim:
        return self._published.as_claim(*self._asked)

    def __exit__(self, *_: object) -> None:
        self._published.drop()


def test_only_roots_order_is_one(shared_lab: Lab, players: list[Player]) -> None:
    with ledger_claim(shared_lab) as claim:

        def orders(stage: Stage) -> None:
            make_wish(shared_lab.path, claim, order=True)
            stage.say("done")

        start(players, orders, uid=61002).hear("done")
        assert read_wishes(shared_lab.path, [claim]) == {}

        assert make_wish(shared_lab.path, claim) and not make_wish(shared_lab.path, claim)
        (asked,) = read_wishes(shared_lab.path, [claim])[claim.id]
        assert not asked.orders
        assert make_wish(shared_lab.path, claim, order=True) and not make_wish(shared_lab.path, claim, order=True)
        (ordered,) = read_wishes(shared_lab.path, [claim])[claim.id]
        assert ordered.orders
        assert new_wishes(shared_lab.path, claim, {0: asked}) == [ordered]
        assert new_wishes(shared_lab.path, claim, {0: ordered}) == []


def test_a_device_is_drained_beside_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: draining a device. Run the tests as root, in a container, to test it.")
    monkeypatch.setenv("GPUFIT_POLICY", str(tmp_path / "gpufit" / "policy.toml"))
    settings = Settings(devices="cpu:2x1GiB")
    first, second = read_devices(settings)

    assert "Nothing starts on cpu:1 any more." in deeds.done("drain", settings, "cpu:1")
    assert "drained already" in deeds.done("drain", settings, "cpu:1")
    assert "no device" in deeds.done("drain", settings, "cpu:9").lower()
    assert (load_policy().drains(first), load_policy().drains(second)) == (False, True)
    (tmp_path / "gpufit" / "policy.toml").write_text('drained = ["cpu:0"]\n')
    assert (load_policy().drains(first), load_policy().drains(second)) == (True, True)

    assert "start on cpu:1 again" in deeds.done("fill", settings, "cpu:1")
    assert (load_policy().drains(first), load_policy().drains(second)) == (True, False)
    drained_path().write_text("cpu:1\n")
    drained_path().chmod(0o666)
    assert not load_policy().drains(second), "anybody could have written it"


def test_the_audit_log_is_its_owners_alone(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "state" / "audit.jsonl")
    assert log.last(10) == []
    for number in range(3):
        log.add("carol", "ask", "ada's bert", str(number), "asked")
    with open(tmp_path / "state" / "audit.jsonl", "a") as file:
        file.write('{"cut off')

    assert [entry.id for entry in log.last(2)] == ["2", "1"]
    assert (tmp_path / "state" / "audit.jsonl").stat().st_mode & 0o077 == 0


def test_an_order_says_what_will_come_of_it() -> None:
    mine = claim(["cpu:0"], GiB, ADA, name="bert")
    assert "will be saved and leave" in deeds._said(mine, True, True, Standing())
    assert "says that it cannot be saved now" in deeds._said(mine, True, True, Standing(yields=False))
    assert "once it runs; a command or a deployed model can only be ended" in deeds._said(mine, True, True, None)

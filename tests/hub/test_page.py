"""The page, drawn from values: whose words are escaped, what is marked, and that it needs no script."""

from __future__ import annotations

import re
import time
from dataclasses import replace

from jupyter_gpufit.actions.status import ClaimView, RoomView, Status, TicketView
from jupyter_gpufit.devices.device import Device
from jupyter_gpufit.hub import plots
from jupyter_gpufit.hub.audit import AuditEntry
from jupyter_gpufit.hub.page import HubPage, render
from jupyter_gpufit.hub.store import BusyPoint
from jupyter_gpufit.lab.usage import Use
from jupyter_gpufit.units import GiB

NOW = time.time()
GPU = Device(
    uuid="GPU-a", label="0", name="NVIDIA A100", index=0, kind="gpu", total=80 * GiB, free=20 * GiB, utilisation=0
)
CLAIM = ClaimView(
    id="c.61001.0123456789abcdef", user="ada", mine=False, job="abcdef", name="bert", label="a.ipynb", devices=("0",),
    bytes=60 * GiB, alone=False, since=NOW - 7200, asked_by=("bob",),
)  # fmt: skip
TICKET = TicketView(
    id="q.1", position=1, user="bob", mine=False, job="ghijkl", name="gnn", label="", wants="70.0 GiB", since=NOW - 60,
    why="memory", reason="ada's bert holds 60.0 GiB of device 0",
)  # fmt: skip
STATUS = Status(
    (GPU,), (), "", NOW, rooms=(RoomView(free=12 * GiB, foreign=0, held_for=""),), claims=(CLAIM,), queue=(TICKET,)
)
PAGE = HubPage(
    status=STATUS,
    uses={0: [Use("c1", NOW - 7200, NOW, 1.0, ("GPU-a",))]},
    busy={"0": [BusyPoint(NOW - 3600, 0.5), BusyPoint(NOW - 900, 1.0)]},
    user="carol",
    admin=True,
    audit=[AuditEntry(NOW, "carol", "ask", "ada's bert", CLAIM.id, "ada is asked to release bert.")],
    xsrf='<input type="hidden" name="_xsrf" value="x">',
)


def test_hours_are_those_of_what_there_is() -> None:
    shown = {"gpu": "GPU-hours", "slot": "Slot-hours", "mig": "Device-hours"}
    for kind, words in shown.items():
        device = replace(GPU, kind=kind)  # type: ignore[arg-type]
        assert f"<h2>{words} of the last seven days</h2>" in render(
            replace(PAGE, status=replace(STATUS, devices=(device,)))
        )


def test_an_administrator_sees_all_and_can_act() -> None:
    page = render(PAGE)

    for words in (
        "NVIDIA A100",
        "68.0 GiB of 80.0 GiB taken",
        "a.ipynb",
        "computes nothing",
        "asked to release by bob",
    ):
        assert words in page, words
    for words in ("ada&#39;s bert holds 60.0 GiB", "root 2.0 h", "75% on average", "ada is asked to release bert."):
        assert words in page.replace("\u202f", " "), words
    assert 'name="_xsrf" value="x"' in page
    assert page.count("Save and release") == 1


def test_others_see_the_lab_and_no_deeds() -> None:
    page = render(replace(PAGE, admin=False, audit=(), xsrf=""))

    assert "a.ipynb" in page
    assert "<form" not in page and "What administrators did" not in page


def test_what_users_wrote_is_text() -> None:
    evil = '"><script>alert(1)</script>'
    claim = replace(CLAIM, name=evil, label=evil, user=evil, asked_by=(evil,), id=evil)
    ticket = replace(TICKET, name=evil, reason=evil, user=evil)
    gpu = replace(GPU, label=evil, name=evil)
    page = render(
        replace(
            PAGE,
            status=replace(STATUS, claims=(claim,), queue=(ticket,), devices=(gpu,), remarks=(evil,), problem=evil),
            user=evil,
            busy={evil: PAGE.busy["0"]},
            audit=[AuditEntry(NOW, evil, evil, evil, evil, evil)],
        )
    )

    assert "<script" not in page
    assert not re.search(r"<(?!/?[a-z!])", page)


def test_an_empty_lab_is_a_page_too() -> None:
    page = render(HubPage(status=Status((), (), "The driver is gone.", NOW), uses={}, busy={}, user="bob", admin=False))

    for words in ("The driver is gone.", "There is no device.", "Nobody holds", "Nobody waits.", "Nobody has used"):
        assert words in page, words


def test_a_gap_is_no_line() -> None:
    points = [BusyPoint(0, 1.0), BusyPoint(900, 1.0), BusyPoint(5400, 0.0)]

    drawn = plots.lines(points, 0, 7200, 900, "0")

    assert drawn.count("<polyline") == 2

"""Hostile users against honest ones: these go on as if nothing were, nothing is granted twice, the culprits are named.

`make soak` has ten honest users against each deed for ten minutes (bench/results/hostile.json); the sample here, four
against the lighter ones for some seconds, with shorter times all over. What is left out is what no code of ours can
prevent: see docs/trust.md.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import anyio
import pytest

from bench.common import write_results
from jupyter_gpufit.devices.device import Device
from jupyter_gpufit.lab import Lab, Waiting, claim, queue, stalled, view_lab
from jupyter_gpufit.units import GiB
from tests.lab.hostile import DEEDS, HEAVY, Deed, hostile
from tests.lab.neighbours import as_a_user
from tests.lab.players import PATIENCE, Part, Player, Stage, start
from tests.lab.test_crashes import Witness
from tests.lab.values import request, slots

HONEST, HOSTILE = 62001, 63001  # the first uid of each
DEVICES = slots(4, 4)

# Whom those who wait are told of, and whom everybody reads of who looks at the queue. Who did the other deeds comes and
# goes, so that it is a matter of the moment whether somebody reads the name.
IN_THE_WAY = ("keeps_the_mutex", "lets_every_turn_go", "floods_the_queue")
SEEN_BY_ALL = ("keeps_files_under_a_lease", "litters", "hides_hundreds_of_files", "claims_without_end")


@dataclass(frozen=True)
class Scale:
    """How long things take."""

    honest: int
    peace: float  # seconds without hostile users
    war: float  # and with them
    hold: float  # seconds that an honest job takes
    grace: float  # passing.PASSED_AFTER
    patience: float  # queue.MUTEX_PATIENCE
    most: float  # times as long may the median wait be, and as few the jobs, as without hostile users
    deeds: Mapping[str, Deed] = field(default_factory=lambda: DEEDS)


# A thirtieth of the times of a real lab, which other tests beside it disturb: the soak has the limit that is meant.
SAMPLE = Scale(honest=4, peace=14.0, war=14.0, hold=1.5, grace=0.3, patience=0.03, most=6.0)
SECONDS = float(os.environ.get("SOAK_SECONDS", "600"))
SOAK = Scale(
    honest=10, peace=SECONDS / 2, war=SECONDS, hold=4.0, grace=10.0, patience=1.0, most=2.0, deeds=DEEDS | HEAVY
)


@pytest.fixture
def witness(shared_lab: Lab) -> Iterator[Witness]:
    beside = shared_lab.path.with_name(f"{shared_lab.path.name}.witness")  # not where somebody locks whatever there is
    yield Witness(beside)
    beside.unlink()


@pytest.mark.slow(35)
def test_hostile_users_hold_honest_ones_up_little(
    shared_lab: Lab, witness: Witness, players: list[Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    against_each_other(shared_lab, witness, players, SAMPLE, monkeypatch)


@pytest.mark.soak
def test_hostile_users_of_each_kind_for_ten_minutes(
    shared_lab: Lab, witness: Witness, players: list[Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = against_each_other(shared_lab, witness, players, SOAK, monkeypatch)
    write_results("hostile", {"seconds": SOAK.war, "honest": SOAK.honest, "deeds": [*SOAK.deeds], **found})


def against_each_other(
    lab: Lab, witness: Witness, players: list[Player], scale: Scale, monkeypatch: pytest.MonkeyPatch
) -> dict[str, float]:
    """What was measured, once it is as it is to be."""
    monkeypatch.setattr(stalled, "PASSED_AFTER", scale.grace)
    monkeypatch.setattr(queue, "MUTEX_PATIENCE", scale.patience)
    monkeypatch.setattr(queue, "IMPATIENCE", scale.patience / 50)
    monkeypatch.setattr(stalled, "FORGIVEN", 60.0)
    peace, _ = phase(lab, players, scale, scale.peace, witness)
    culprits = {name: HOSTILE + number for number, name in enumerate(scale.deeds)}
    for name, uid in culprits.items():
        start(players, hostile(lab.path, scale.deeds[name]), uid=uid).hear("begins")
    try:
        war, said = phase(lab, players, scale, scale.war, witness)
        named = as_a_user(players, HONEST, lambda: " ".join(view_lab(lab, DEVICES).remarks))
    finally:
        for player in players:
            if not player.ended:
                player.signal(signal.SIGCONT)
    found = {"median_peace": round(median(peace), 2), "median_war": round(median(war), 2)}
    found |= {"jobs_peace": len(peace), "jobs_war": len(war)}
    print(f"\n{found}")  # noqa: T201
    assert median(war) <= scale.most * median(peace) + 0.1, found
    assert len(war) / scale.war >= len(peace) / scale.peace / (1.5 * scale.most), found
    assert f"uid {culprits['keeps_the_mutex']}'s process" in said
    for name in (*IN_THE_WAY, *SEEN_BY_ALL):
        words = said if name in IN_THE_WAY else named
        assert name not in culprits or f"uid {culprits[name]}'s" in words, name
    return found


def phase(lab: Lab, players: list[Player], scale: Scale, seconds: float, witness: Witness) -> tuple[list[float], str]:
    """Honest users do their jobs; how long each waited, and all that they were told."""
    until = time.monotonic() + seconds
    honest = [start(players, works(lab, scale, until, witness), uid=HONEST + n) for n in range(scale.honest)]
    answers = [json.loads(player.hear("[", seconds + PATIENCE)) for player in honest]
    for player in honest:
        player.wait()  # without an error
    return [wait for waits, _ in answers for wait in waits], " ".join(said for _, told in answers for said in told)


def works(lab: Lab, scale: Scale, until: float, witness: Witness) -> Part:
    async def look() -> Sequence[Device]:
        return DEVICES

    def part(stage: Stage) -> None:
        waits: list[float] = []
        told: dict[str, str] = {}  # what was said of each user first, of trouble and of all else

        def report(waiting: Waiting) -> None:
            for uid in re.findall(r"uid (\d+)'s", waiting.remark):
                kind = waiting.why if waiting.why == "trouble" else "other"
                told.setdefault(f"{kind} {uid}", waiting.remark[:200])

        async def run() -> None:
            while (began := time.monotonic()) < until:
                async with claim(lab, request(4 * GiB, name="honest"), look, report) as granted:
                    waits.append(time.monotonic() - began)
                    index = granted.devices[0].index
                    witness.add(index, granted.bytes)
                    await anyio.sleep(scale.hold)
                    witness.add(index, -granted.bytes)

        anyio.run(run)
        stage.say(json.dumps([waits, [*told.values()]]))

    return part

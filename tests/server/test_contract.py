"""The description and the types of the API are those of its classes, and what is sent is as described."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from jupyter_gpufit.actions.status import ClaimView, JobView, RoomView, Status, TicketView
from jupyter_gpufit.jobs import live
from jupyter_gpufit.jobs.record import LastCheckpoint
from jupyter_gpufit.server import contract, wire
from jupyter_gpufit.server.encode import to_json
from jupyter_gpufit.testing import fake_device


def test_the_panels_types_are_up_to_date() -> None:
    assert contract.TARGET.read_text() == contract.typescript(), "run: python -m jupyter_gpufit.server.contract"


@pytest.mark.slow
def test_the_program_writes_them(tmp_path: Path) -> None:
    target = tmp_path / "schema.ts"
    code = (
        f"from pathlib import Path; from jupyter_gpufit.server import contract; contract.write(Path({str(target)!r}))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert target.read_text() == contract.typescript()


def test_types_of_every_kind() -> None:
    text = contract.typescript()
    for line in (
        "  value: number | null; // null: not a finite number",
        "  history: [number, number | null, number][]; // while somebody looked, oldest first",
        "  kind: 'gpu' | 'mig' | 'slot';",
        "  can: Can;",
        "    | 'estimating'",
        "  type: 'said';",
    ):
        assert f"{line}\n" in text
    assert "  under_way: ('checkpoint' | 'release' | 'move' | 'resume' | 'stop')[]; //" in text
    assert "None" not in text and "View" not in text


def a_status() -> wire.WireStatus:
    device = fake_device(utilisation=None)
    job = JobView(
        *("j", "bert", "running", "", 0.0, 0.0, 7, "0", 1, 3, "a.ipynb"),
        progress=live.Progress(step=3, per_second=1.5, total=10, left=4.0),
        loss=live.Loss(name="loss", value=None),
        metrics=("loss",),
        memory=live.Memory(used=1, peak=2),
        checkpoint=LastCheckpoint(3, 0.0, 5),
    )
    reading = Status(
        *((device,), (job,), "", 5.0),
        rooms=(RoomView(1, 0, ""),),
        claims=(ClaimView("c", "ada", False, "x", "y", "", ("0",), 1, True, 0.0, ("bob",)),),
        queue=(TicketView("q", 1, "ada", False, "x", "y", "", "1 GiB", 0.0, "held", "why"),),
        remarks=("private",),
    )
    return wire.status_of(reading, {device.uuid: [(1.0, None, 2)]}, "1.0")


@pytest.mark.parametrize(
    "value",
    [
        a_status(),
        wire.WireJournal(entries=(wire.WireEntry(number=1, time=0.0, event={"kind": "text"}),), next=1, ended=False),
        wire.SaidMessage(job="j", action="stop", text="ended", failed=False),
        wire.StatusMessage(status=a_status()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_sent_is_as_described(value: object) -> None:
    description = contract.description("1.0")
    reference = {"$ref": f"#/components/schemas/{contract.name_of(type(value))}"}
    jsonschema.Draft202012Validator({**description, **reference}).validate(json.loads(to_json(value)))


def test_every_reference_in_the_description_leads_somewhere() -> None:
    description = contract.description("1.0")
    text = json.dumps(description)
    named = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert named <= set(description["components"]["schemas"])

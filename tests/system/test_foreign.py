"""What another process wrote: values of the types that a reader counts on, or a ValueError."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jupyter_gpufit.jobs.events import decode_entry
from jupyter_gpufit.jobs.handover import Handover
from jupyter_gpufit.jobs.job import Options
from jupyter_gpufit.jobs.record import Record
from jupyter_gpufit.system.foreign import known, parsed

STATE = {"state": "running", "since": 1.0}
METRICS = {"seq": 1, "time": 1.0, "kind": "metrics", "step": 1, "values": {"loss": 1.0, "acc": None}}


@pytest.mark.parametrize(
    "wrong",
    [
        *({"worker": []}, {"worker": {}}, {"worker": "1"}, {"worker": {"pid": "1", "start_time": 1, "boot": ""}}),
        *({"live": {"mfu": "x"}}, {"live": {"progress": {"step": 10**400}}}, {"began": []}, {"ran": 10**400}),
        *({"checkpoint": []}, {"kind": 1}),
    ],
)
def test_a_record_of_other_types_is_none(wrong: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError)):  # a later version's, or garbled
        Record.from_json(json.dumps({**STATE, **wrong}))


@pytest.mark.parametrize("values", [[], 1.5, {"loss": "x"}, {"loss": 10**400}, None])
def test_an_entry_of_other_types_is_none(values: object) -> None:
    assert decode_entry(json.dumps(METRICS).encode()) is not None
    with pytest.raises(ValueError, match="values"):
        decode_entry(json.dumps({**METRICS, "values": values}).encode())


def test_the_parts_of_a_field_are_looked_at() -> None:
    right = {"gpus": [1, 2], "memory": [3], "env": {"A": "b"}, "fit": {"x": [None]}, "claim": {"id": "c", "fd": 3}}

    assert known(Handover, right) == right
    wrongs: list[dict[str, Any]] = [{"gpus": [1]}, {"gpus": [1, "2"]}, {"memory": 3}, {"env": {"A": 1}}, {"fit": []}]
    for wrong in [*wrongs, {"claim": "c"}]:
        with pytest.raises(ValueError, match="is not of its type"):
            known(Handover, wrong)
    assert known(Options, {"memory": None, "later": "unknown"}) == {"memory": None}


def test_what_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(ValueError, match="too deeply"):
        parsed("[" * 60_000)

"""Which plan a job goes on by where it has been moved to, or is resumed."""

from __future__ import annotations

import pytest

from jupyter_gpufit.estimate.asking.fit import Fit
from jupyter_gpufit.fit.plan import Plan
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB

PLANNED = Plan({"recompute": {}}, "recomputing 3 of 5 blocks")
SPILLED = Plan({"spill": {}}, "spilling")
AS_IT_IS = Plan()
LARGE, SMALL = (fake_device(name, total=total * GiB, kind="slot") for name, total in (("cpu:0", 8), ("cpu:1", 2)))
BROKEN = fake_device("cpu:2", total=GiB, kind="slot", problem="it fell off")


@pytest.mark.parametrize(
    ("fit", "devices", "needed", "then"),
    [
        (Fit(PLANNED, (SPILLED,), plain=4 * GiB), [LARGE, BROKEN], 1, Fit(AS_IT_IS, (PLANNED, SPILLED), plain=4 * GiB)),
        (Fit(PLANNED, plain=4 * GiB), [LARGE, SMALL], 1, None),  # it may come to either
        (Fit(PLANNED), [LARGE], 1, None),  # nobody can tell, or it was named
        (Fit(lower=(PLANNED, SPILLED), plain=4 * GiB), [SMALL], 4 * GiB, Fit(PLANNED, (SPILLED,), plain=4 * GiB)),
        (Fit(lower=(PLANNED,), plain=4 * GiB), [SMALL, LARGE], 4 * GiB, None),
        (Fit(lower=(PLANNED,), plain=4 * GiB), [SMALL], GiB, None),  # as its runs have shown
        (Fit(lower=(PLANNED,), plain=4 * GiB), [SMALL], None, None),
        (Fit(plain=4 * GiB), [SMALL], 4 * GiB, None),
        (Fit(PLANNED, plain=4 * GiB), [BROKEN], 1, None),
    ],
)
def test_what_it_is_there(fit: Fit, devices: list[object], needed: int | None, then: Fit | None) -> None:
    assert fit.on(devices, needed) == then  # type: ignore[arg-type]
    assert then is None or Fit.from_record(then.to_record()) == then


def test_what_changes_is_said_and_claimed() -> None:
    left = Fit(PLANNED, (SPILLED,), plain=4 * GiB).on([LARGE], 1)
    assert left is not None and left.changed.memory == 4 * GiB
    assert left.changed.reason.endswith("which is there: it goes on without recomputing 3 of 5 blocks")
    back = left.on([SMALL], 4 * GiB)
    assert back is not None and back.changed.memory is None
    assert back.changed.reason == (
        "needs 4.0 GiB as it is, which is not there: it goes on by recomputing 3 of 5 blocks"
    )

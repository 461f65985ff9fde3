"""What a job that has not queued yet may expect."""

from __future__ import annotations

import time

from jupyter_gpufit.lab import Lab
from jupyter_gpufit.lab.ends import End, EndNote
from jupyter_gpufit.lab.published import publish
from jupyter_gpufit.lab.record import Hold
from jupyter_gpufit.lab.soonest import prospect
from jupyter_gpufit.units import GiB
from tests.lab.values import request, slots


def test_when_its_turn_comes_on_the_large_device_and_what_it_could_have_now(lab: Lab) -> None:
    devices, wanted = slots(8, 2), request(6 * GiB)
    assert prospect(lab, devices, wanted) is None, "it may start at once"

    hold = Hold(devices=("cpu:0",), bytes=7 * GiB, alone=False)
    holder = publish(lab.path, request(7 * GiB), hold)
    unknown = prospect(lab, devices, wanted)
    assert unknown is not None and unknown.later.latest is None
    now = time.time()
    note = EndNote(lab.path, holder.as_claim(request(7 * GiB), hold).id)
    note.tell(End(now + 600, now + 700), now)

    found = prospect(lab, devices, wanted)
    assert found is not None and found.later.latest is not None
    assert 690 < found.later.latest - now < 710 and found.where == "cpu:0"
    assert found.free.device.label == "cpu:1" and found.free.free == 2 * GiB
    holder.drop()

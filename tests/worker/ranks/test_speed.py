"""How fast ranks put things together: measured by all at once, and kept by the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpufit.devices.speeds import TYPICAL, among
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.worker.ranks.shared import SharedGroup
from jupyter_gpufit.worker.ranks.speed import is_unknown, measure
from tests.lab.values import slots
from tests.worker.ranks.crew import crew


@pytest.mark.slow
def test_it_is_kept_for_so_many_devices_and_is_no_first_meeting(tmp_path: Path) -> None:
    settings, [slot] = Settings(data=str(tmp_path)), slots(1)

    def does(group: SharedGroup) -> bool:
        group._first = group._at_first = 10
        measure(group, slot, settings)
        return group._at_first == 10

    assert is_unknown(settings, slot, 2)
    assert crew(2, does) == [True, True]
    assert not is_unknown(settings, slot, 2) and is_unknown(settings, slot, 4)
    speed = among(settings, TYPICAL, "slot", "CPU", 2)
    assert speed.exchange > 1e6 and 0 < speed.meeting < 1

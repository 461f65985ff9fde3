"""Where a job may go that is asked to move."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpufit.errors import NotNow
from jupyter_gpufit.lab import Granted
from jupyter_gpufit.testing import fake_device, fake_grant
from jupyter_gpufit.worker.wishes import _targets

DEVICES = [fake_device(f"u{number}", label=f"cpu:{number}", kind="slot") for number in range(3)]


def on(*numbers: int) -> Granted:
    return replace(fake_grant(DEVICES[0]), devices=tuple(DEVICES[number] for number in numbers))


def test_one_that_was_made_to_fit_on_one_device_moves_to_one() -> None:
    assert _targets(DEVICES, "cpu:1", on(0), "j", fitted=True) == ["u1"]
    assert _targets(DEVICES, "cpu:0,cpu:1", on(0), "j", fitted=False) == ["u0", "u1"]
    with pytest.raises(NotNow, match="made to fit on one device, and moves to one"):
        _targets(DEVICES, "cpu:0,cpu:1", on(0), "j", fitted=True)


def test_where_too_few_others_are_it_is_not_said_that_they_are_not_free() -> None:
    assert _targets(DEVICES, "", on(0), "j", fitted=False) == ["u1", "u2"]
    assert _targets(DEVICES, "cpu:1,cpu:2", on(0, 1), "j", fitted=False) == ["u1", "u2"]
    with pytest.raises(NotNow, match="on 2 devices, and here is only 1 more.*--to"):
        _targets(DEVICES, "", on(0, 1), "j", fitted=False)

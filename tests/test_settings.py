from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpufit.errors import BadSetting
from jupyter_gpufit.settings import Settings, load_settings
from jupyter_gpufit.units import MiB


def test_defaults_hold_where_nothing_is_chosen(tmp_path: Path) -> None:
    assert load_settings({}, tmp_path / "none.toml") == Settings()


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('devices = "cpu:1x1GiB"\njournal_limit = "64MiB"\nspare_worker = true\n')

    settings = load_settings({"GPUFIT_DEVICES": "cpu:2x4GiB", "GPUFIT_SPARE_WORKER": "no"}, file)

    assert (settings.devices, settings.journal_limit, settings.spare_worker) == ("cpu:2x4GiB", 64 * MiB, "never")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('device = "cpu"', "there is no such setting. Did you mean devices"),
        ("stop_patience = 'soon'", "soon"),
        ("spare_worker = 'perhaps'", "'perhaps' is not one of auto, always, never"),
        ("driver_suspend = 'perhaps'", "neither true nor false"),
        ("journal_limit = 'lots'", "such as 12GiB"),
        ("devices = ", "settings.toml"),
        ("devices = " + "[" * 9999, "settings.toml"),
    ],
)
def test_no_setting_is_skipped_silently(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)

    with pytest.raises(BadSetting, match=message):
        load_settings({}, file)

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_gpufit.errors import BadSetting
from jupyter_gpufit.lab.policy import DAY
from jupyter_gpufit.lab.policy_file import load_policy
from jupyter_gpufit.settings import Settings, load_settings
from jupyter_gpufit.system.directories import data_dir
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


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as it answers for a uid that has no name

    assert load_settings({}) == Settings()
    with pytest.raises(BadSetting, match="this user has no home. Set HOME, or GPUFIT_DATA to a directory"):
        data_dir(Settings())
    assert data_dir(Settings(data=str(tmp_path))) == tmp_path
    (tmp_path / "policy.toml").write_text("half_life = 3.0")
    assert load_policy(tmp_path / "policy.toml").half_life == 3 * DAY
    assert not (tmp_path / "~").exists()

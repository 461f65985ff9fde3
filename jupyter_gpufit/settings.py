"""Every setting: defaults, then the user's settings.toml, then GPUFIT_* of the environment."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from .errors import BadQuantity, BadSetting, did_you_mean
from .quantities import parse_bytes
from .units import MiB

# All rungs that change no bit, all, none, or one alone, by the first word of its name.
FITS = ("exact", "any", "no", "allocator", "recompute", "micro-batches", "optimizer", "spill")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a user or an administrator may choose; the README lists each with its default."""

    devices: str = ""  # "cpu:2x4GiB" for CPU slots; empty: the GPUs NVML shows, else one slot
    lab: str = ""  # the shared directory; empty: /run/gpufit where it exists, else a private one
    data: str = ""  # where jobs live; empty: ~/.local/share/gpufit
    runtime: str = ""  # where sockets live; empty: $XDG_RUNTIME_DIR/gpufit or /tmp/gpufit-<uid>
    spare_worker: str = "auto"  # whether a worker with torch imported waits beside a kernel: "auto", "always", "never"
    journal_limit: int = 256 * MiB  # bytes of output kept per job
    estimate_limit: float = 20.0  # seconds that a training may wait for its estimate; 0: none, it claims a whole device
    shrink_after: float = 60.0  # seconds after which a claim that was too large becomes smaller; 0: it never does
    stop_patience: float = 5.0  # seconds between two rungs of the stop ladder
    checkpoint_every: float = 600.0  # seconds between two automatic checkpoints; 0: none but those asked for
    kernel_cuda: str = "stand-in"  # what `cuda` is in a notebook's own process: "stand-in" holds no device, or "real"
    widget: str = "auto"  # a job's card under the cell: "auto" where the cell does not wait, "always", "never"
    checkpoint_keep: int = 3  # checkpoints of a job that stay; older ones go
    fit: str = "exact"  # what a cell that fits nowhere may be made to fit by, see FITS
    fit_host: int = 0  # bytes of the host's memory that a plan may take; 0: all but a twentieth
    own_scope: bool = True  # a job leaves the systemd service that started its notebook, where its user lingers
    rank_patience: float = 60.0  # seconds for which the ranks of a training wait for one of them before it has failed
    replan: float = 60.0  # seconds between two looks at whether other devices do better for a range of them; 0: none
    driver_suspend: bool = False  # keep a released job's process, suspended by the driver, where that can be


def load_settings(env: Mapping[str, str] = os.environ, path: Path | None = None) -> Settings:
    """Read the settings that hold for this process."""
    path = path or Path(env.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")) / "gpufit" / "settings.toml"
    settings = Settings()
    try:
        chosen = tomllib.loads(path.read_text())
    except FileNotFoundError:
        chosen = {}
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError, RecursionError) as error:
        raise BadSetting("settings.toml", str(path), f"{error}.") from error
    known = [field.name for field in fields(Settings)]
    for name, value in chosen.items():
        if name not in known:
            raise BadSetting(name, str(path), f"there is no such setting.{did_you_mean(name, known)}")
        settings = _with(settings, name, value, str(path))
    for name in known:
        variable = f"GPUFIT_{name.upper()}"
        if variable in env:
            settings = _with(settings, name, env[variable], f"the environment variable {variable}")
    return settings


def _with(settings: Settings, name: str, value: object, source: str) -> Settings:
    wanted = type(getattr(settings, name))
    try:
        value = _FORMER.get(name, {}).get(str(value).lower(), value)
        if name in _CHOICES and str(value) not in _CHOICES[name]:
            raise ValueError(f"{value!r} is not one of {', '.join(_CHOICES[name])}.")
        return replace(settings, **{name: _READ[wanted](value)})
    except (BadQuantity, ValueError) as error:
        raise BadSetting(name, source, str(error)) from error


def _read_bool(value: object) -> bool:
    word = str(value).lower()
    if word not in _YES + _NO:
        raise ValueError(f"{value!r} is neither true nor false.")
    return word in _YES


_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")
_CHOICES = {
    "kernel_cuda": ("stand-in", "real"),
    "spare_worker": ("auto", "always", "never"),
    "fit": FITS,
}
_FORMER = {"spare_worker": dict.fromkeys(_YES, "always") | dict.fromkeys(_NO, "never")}  # as it was written once
_READ: dict[type, Callable[[object], Any]] = {
    str: str,
    bool: _read_bool,
    int: lambda value: parse_bytes(str(value)),
    float: lambda value: float(str(value)),
}

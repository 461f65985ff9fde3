"""Examine one user's environment, and say what to do about what is wrong with it: `gpufit doctor`.

facts        what the machine says        judge         what it means (pure)
environments what the Pythons and Jupyters bring         torch_says    a process that imports torch
"""

from __future__ import annotations

from ...errors import GpufitError
from ...settings import Settings, load_settings
from ..findings import Check, Finding, at_once
from . import environments, facts, judge

WAIT = 2.5  # seconds: a doctor is called before every bug report, and must not be a nuisance


def examine(wait: float = WAIT) -> list[Finding]:
    """Everything that a job of this user will need."""
    settings = _settings()
    return Check("The settings", facts.settings, judge.settings).findings() + at_once(
        [
            Check("The devices", lambda: facts.devices(settings), judge.devices),
            Check("The driver's suspend", lambda: facts.suspend(settings, wait), judge.suspend),
            Check("torch", lambda: facts.torch(wait), judge.torch),
            Check("The data directory", lambda: facts.data(settings), judge.data),
            Check("The runtime directory", lambda: facts.runtime(settings), judge.runtime),
            Check("The login", lambda: facts.login(settings), judge.login),
            Check("The lab", lambda: facts.lab(settings), judge.lab),
            Check("The packages", environments.packages, judge.packages),
            Check("The server extension", environments.server_extension, judge.server_extension),
            Check("The panel", environments.panel, judge.panel),
            Check("The kernels", lambda: environments.kernels(wait), judge.kernels),
            Check("Shared memory", facts.shared_memory, judge.shared_memory),
            Check("The limits", facts.limits, judge.limits),
            Check("Watching files", facts.inotify, judge.inotify),
        ],
        wait,
    )


def _settings() -> Settings:
    """The user's settings, or the defaults where they cannot be read, which is a finding of its own."""
    try:
        return load_settings()
    except GpufitError:
        return Settings()

"""Workers in a moment, for tests that need hundreds: forked as a kernel's spare forks them, also where none would be.

One that moves replaces its image as always; `Nursery.hold` is where such an image stands until a test lets it go on.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_gpufit.engine.forks import ForkingProcess
from jupyter_gpufit.engine.local import Started, WaitingWorker

SITE = """
import os, sys, time
if "--kept" in sys.orig_argv:
    open({begun!r}, "w").close()
    while not os.path.exists({hold!r}):
        time.sleep(0.01)
"""


@dataclass
class Nursery:
    process: ForkingProcess
    started: list[Started]
    begun: Path  # is there once a moved worker's new image has begun
    hold: Path  # while this is not there, such an image goes no further

    @classmethod
    def open(cls, env: Mapping[str, str], place: Path) -> Nursery:
        begun, hold = place / "begun", place / "hold"
        (place / "sitecustomize.py").write_text(SITE.format(begun=str(begun), hold=str(hold)))
        return cls(ForkingProcess({**env, "PYTHONPATH": str(place)}), [], begun, hold)

    def spawn(self, env: Mapping[str, str], python: str = sys.executable) -> WaitingWorker:
        """In the place of WaitingWorker.spawn."""
        worker = self.process.worker()
        self.started.append(worker.started)
        return worker

    def close(self) -> None:
        self.process.dismiss()
        for started in self.started:
            started.reap()

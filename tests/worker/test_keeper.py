"""How a job is saved where the host has little memory left; with a training that is only what a save looks at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_gpufit.checkpoint import streaming
from jupyter_gpufit.checkpoint.checksum import PIECE
from jupyter_gpufit.checkpoint.manifest import About
from jupyter_gpufit.checkpoint.values import Snapshot
from jupyter_gpufit.errors import NotSaved
from jupyter_gpufit.jobs.events import Why
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.units import MiB
from jupyter_gpufit.worker import keeper
from jupyter_gpufit.worker.keeper import Keeper
from jupyter_gpufit.worker.saving import NotReady
from tests.checkpoint.snapshots import about, training
from tests.people import PATIENCE

pytestmark = pytest.mark.slow  # each starts the process that writes


class Told(Keeper):
    """Saves what it is told to instead of a cell."""

    def __init__(self, root: Path, free: int) -> None:
        self.free = free  # bytes
        self.notes: list[str] = []
        self.step, self.nbytes = 1, MiB
        value = SimpleNamespace(
            paths=JobPaths(root),
            epoch=1,
            settings=SimpleNamespace(checkpoint_keep=3),
            steps=SimpleNamespace(step=1),
            program=SimpleNamespace(where=lambda: "line 1", exact=lambda: True),
            meter=None,
            note=self.notes.append,
        )
        super().__init__(cast(Any, value), lambda wanted: None, lambda: self.free)

    def _taken(self) -> Snapshot:
        return training(self.step, self.nbytes)

    def _about(self, step: int, where: str, why: Why) -> About:
        return about(step, automatic=why == "automatic")


@pytest.fixture
def keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    monkeypatch.setattr(streaming, "SIZE", PIECE)
    keeps = Told(tmp_path, free=1 << 40)
    yield keeps
    keeps.close()


def test_a_first_save_waits_for_its_buffer_beside_the_training(keeps: Told) -> None:
    keeps.nbytes = 65 * MiB
    keeps.prepare()
    with pytest.raises(NotReady):
        keeps.save("asked")
    keeps.prepare()
    assert keeps._writer is not None and keeps._writer.host_memory > 65 * MiB
    assert keeps.save("asked")[2].result(PATIENCE).bytes > 65 * MiB


def test_who_leaves_stands_still_anyway_and_waits_for_nothing(keeps: Told) -> None:
    keeps.nbytes = 65 * MiB
    keeps.prepare()
    assert keeps.save("release")[2].result(PATIENCE).bytes > 65 * MiB


def test_that_it_will_stand_still_is_said_beforehand_and_once(keeps: Told) -> None:
    keeps.look(patient=False)
    assert not keeps.notes
    keeps.free = 0
    keeps.look(patient=False)
    keeps.nbytes *= 2
    keeps.look(patient=False)
    (said,) = keeps.notes
    assert "too little free memory to copy the training's 1024.0 KiB aside" in said
    assert "pauses for about 0.0 s each time" in said


def test_by_itself_it_stands_still_for_a_small_part_of_the_time(keeps: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    keeps.free = 63 * MiB
    keeps.prepare()
    said_by_then: list[int] = []
    writer = cast(Any, keeps._writer)
    save = writer.save

    def saved(*given: Any, **options: Any) -> Any:
        said_by_then.append(len(keeps.notes))
        return save(*given, **options)

    writer.save = saved
    monkeypatch.setattr(keeper, "MOST_OF_TIME", 1e-9)
    with pytest.raises(NotSaved, match="would pause the training for about .* too long for an automatic one now"):
        keeps.save("automatic")
    assert keeps.save("asked")[2].done() and len(keeps.notes) == 1  # whoever asks has decided
    monkeypatch.setattr(keeper, "MOST_OF_TIME", 1e9)
    assert keeps.save("automatic")[2].result(PATIENCE).name == "000001-000002"
    assert said_by_then == [1, 1, 1]

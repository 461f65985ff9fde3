"""Trainers whose texts are not at hand: left between their steps, and entered by the library's own resume."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from jupyter_gpufit.program.libraries import own_resume

from .. import trainers
from ..crossing import World, at_points, in_a_chain, plain, rewritten


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The small libraries in place of whatever else has their names; where their checkpoints go for a moment."""
    trainers.write(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    theirs = _loaded()
    for name in theirs:
        del sys.modules[name]
    yield scratch
    for name in _loaded():
        del sys.modules[name]
    sys.modules.update(theirs)


UNREADABLE = "the text of train() of transformers 99.0 is not at hand"


def _loaded() -> dict[str, ModuleType]:
    libraries = ("transformers", "lightning", "pytorch_lightning", "package_of_trainers")
    return {name: one for name, one in sys.modules.items() if name.partition(".")[0] in libraries}


@pytest.mark.slow
def test_transformers(scratch: Path) -> None:
    assert at_points(trainers.TRANSFORMERS_CELL) == 3 + 3 + 2  # the cell's own loop, and a point before each step
    assert in_a_chain(trainers.TRANSFORMERS_CELL) > 4
    assert not os.listdir(scratch)


@pytest.mark.slow
def test_lightning(scratch: Path) -> None:
    # Neither while gradients are accumulated, nor behind an epoch's last batch: what comes at its end would be lost.
    assert at_points(trainers.LIGHTNING_CELL) == 2 * (1 + 1)
    assert in_a_chain(trainers.LIGHTNING_CELL) > 1
    assert not os.listdir(scratch)


def test_it_is_said_that_it_is_not_exact() -> None:
    places: list[str] = []
    exact: list[bool] = []
    world = World()

    def look() -> None:
        places.append(world.program.where())
        exact.append(world.program.exact())

    ran = world._run(trainers.TRANSFORMERS_CELL, look)

    assert world.program.notes == [f"{UNREADABLE}, so inside train() the cell is checkpointed {own_resume.INEXACT}."]
    cell, inside = "line 14 of the cell", f"line 11, in run(), inside Trainer.train, {own_resume.INEXACT}"
    assert places == [cell, *[inside] * 3, cell, *[inside] * 2, cell]
    assert exact == [place == cell for place in places]
    assert ran.log == plain(trainers.TRANSFORMERS_CELL).log

    saved = World().until(trainers.TRANSFORMERS_CELL, 3)
    assert isinstance(saved, bytes)
    notes = World.from_saved(saved).run(trainers.TRANSFORMERS_CELL).notes
    assert notes[0] == f"Trainer.train goes on {own_resume.INEXACT}."


def test_what_a_killed_resume_left_is_removed(scratch: Path) -> None:
    saved = World().until(trainers.TRANSFORMERS_CELL, 3)
    assert isinstance(saved, bytes)
    (scratch / "own-resume-1").mkdir()
    world = World.from_saved(saved)
    world.program.scratch = str(scratch)

    world.run(trainers.TRANSFORMERS_CELL)

    assert not os.listdir(scratch)


def test_a_trainer_that_cannot_save_itself_runs_as_it_is() -> None:
    cell = "from transformers.trainer import Trainer\ndel Trainer._save_checkpoint\n" + trainers.TRANSFORMERS_CELL

    ran = rewritten(cell)

    assert ran.log == plain(trainers.TRANSFORMERS_CELL).log
    assert ran.points == 3
    assert ran.notes == [f"{UNREADABLE}: the cell cannot be checkpointed inside train()."]


@pytest.mark.slow
def test_one_whose_text_is_at_hand_is_left_to_the_bit(tmp_path: Path) -> None:
    trainers.write_texts(tmp_path)
    importlib.invalidate_caches()

    ran = rewritten(trainers.TRANSFORMERS_CELL)

    assert ran.notes == [] and ran.log == plain(trainers.TRANSFORMERS_CELL).log
    assert ran.points > 3 + 3 + 2
    assert at_points(trainers.TRANSFORMERS_CELL) == ran.points
    assert at_points(of_the_package("Passes")) == ran.points


def of_the_package(name: str) -> str:
    return trainers.TRANSFORMERS_CELL.replace(
        "from transformers.trainer import Trainer", f"from package_of_trainers import {name} as Trainer"
    )


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", ["Tells", "Passes"])
def test_a_packages_class_with_loops_of_its_own_goes_on_by_the_librarys_resume(name: str, scratch: Path) -> None:
    cell = of_the_package(name)
    assert rewritten(cell).notes == [f"{UNREADABLE}, so inside train() the cell is checkpointed {own_resume.INEXACT}."]
    assert at_points(cell) == 3 + 3 + 2
    assert in_a_chain(cell) > 4
    assert not os.listdir(scratch)


def test_a_packages_class_that_cannot_be_told_where_to_go_on_runs_as_it_is() -> None:
    ran = rewritten(of_the_package("Takes"))

    assert ran.points == 3
    assert ran.notes == [f"{UNREADABLE}: the cell cannot be checkpointed inside train()."]


def test_a_packages_class_that_begins_anew_instead_of_going_on_ends_there() -> None:
    cell = of_the_package("Forgets")
    saved = World().until(cell, 4)
    assert isinstance(saved, bytes)

    [*_, (kind, _, words)] = World.from_saved(saved).run(cell).error

    assert kind == "NotResumable" and "saved at step 2 and went on from step 0" in words


def test_a_notebooks_class_with_loops_of_its_own_is_left_to_the_bit(tmp_path: Path) -> None:
    trainers.write_texts(tmp_path)
    importlib.invalidate_caches()
    package, cell = trainers.PACKAGE.partition("class Passes")[0], trainers.TRANSFORMERS_CELL
    ran = rewritten(package + cell.replace("Trainer([", "Tells(["))

    assert ran.notes == [] and ran.points > 3 + 3 + 2


WRAPPING = """
import functools

def wrap(cls, name):
    own = getattr(cls, name)

    @functools.wraps(own)
    def wrapped(*args, **keywords):
        return own(*args, **keywords)

    setattr(cls, name, wrapped)
"""


@pytest.mark.parametrize(
    ("package", "name", "cell", "points"),
    [
        ("wrapping_library", "transformers.trainer.Trainer.train", trainers.TRANSFORMERS_CELL, 3 + 3 + 2),
        ("mlflow", "transformers.trainer.Trainer.train", trainers.TRANSFORMERS_CELL, 3 + 3 + 2),
        ("mlflow", "lightning.pytorch.trainer.trainer.Trainer.fit", trainers.LIGHTNING_CELL, 0),
    ],
)
def test_a_library_that_wraps_anothers_training_is_named(
    package: str, name: str, cell: str, points: int, tmp_path: Path
) -> None:
    (tmp_path / f"{package}.py").write_text(WRAPPING)
    module, _, method = name.partition(".Trainer.")
    ran = rewritten(f"import {package}, {module}\n{package}.wrap({module}.Trainer, '{method}')\n{cell}")
    del sys.modules[package]

    why = f"{package} has wrapped {method}() of {name.partition('.')[0]}"
    can = f"{why}, so inside {method}() the cell is checkpointed {own_resume.INEXACT}."
    cannot = f"{why}: the cell cannot be checkpointed inside {method}()."
    way_on = " It can with Lightning's MLFlowLogger instead of mlflow's autolog()."
    assert (ran.points, ran.notes) == (points, [can if points else cannot + way_on])

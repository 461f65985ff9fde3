"""Programs as people write them: the same under the magic as plain, estimated, and resumed to the bit.

A few of them run every time, the rest with `make soak`, where each run has a kernel of its own. Those by other
people are tried with bench/corpus.py.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.corpus.program import Program, read_all
from tests.corpus.trial import try_program, try_quickly

PROGRAMS = read_all(Path(__file__).parent / "programs")
# Cheap ones, as unlike as possible: a loop in functions, closures and generators, a class with callbacks.
EVERY_TIME = ("digits_cnn", "nested_bars_closures", "trainer_class")


def _marks(program: Program) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow(25)] if program.name in EVERY_TIME else [pytest.mark.slow, pytest.mark.soak]


@pytest.mark.slow(21)
@pytest.mark.parametrize(
    "program", [pytest.param(program, marks=_marks(program), id=program.name) for program in PROGRAMS]
)
def test_runs_the_same_is_estimated_and_resumes_to_the_bit(program: Program, tmp_path: Path) -> None:
    if missing := [name for name in program.needs if importlib.util.find_spec(name) is None]:
        pytest.skip(
            f"NOT TRIED: {program.name}, for {', '.join(missing)} is not installed: "
            'pip install --constraint constraints.txt --editable ".[corpus]"'
        )

    every_time = program.name in EVERY_TIME
    trial = try_quickly(program, tmp_path, whole=True) if every_time else try_program(program, tmp_path)

    assert (trial.plain, trial.same, trial.estimate) == ("", "", "")
    assert trial.ended_first or trial.resumed == ""  # a fast machine may be done before it is asked


def test_the_corpus_is_as_large_as_promised() -> None:
    names = [program.name for program in PROGRAMS]

    assert len(names) >= 60
    assert len(set(names)) == len(names)
    assert set(EVERY_TIME) <= set(names)


def test_every_program_has_its_setup_in_earlier_cells() -> None:
    assert not [program.name for program in PROGRAMS if len(program.before) < 2]

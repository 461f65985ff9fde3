"""What is said of a job's events."""

from __future__ import annotations

from jupyter_gpufit.jobs.events import Event, Failure, ProgressMark, StateChange
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.words import StatusLine

JOB = Job(id="x", name="x", source="", created=0.0, cwd="/")
FAILURE, FAILED = Failure("ValueError", "no", ("ValueError: no",)), StateChange("failed", "ValueError: no")


def line(*events: Event) -> str:
    said = StatusLine(JOB)
    for event in events:
        said.take(event, 0.0)
    return said.line()


def test_an_error_whose_traceback_was_told_is_not_told_again() -> None:
    assert line(FAILED).startswith("✗ x: failed · ValueError: no")
    assert "ValueError" not in line(FAILURE, FAILED)


def test_after_a_resume_another_end_is_told() -> None:
    resumed = StateChange("running", device="cpu:0")
    assert "its worker is gone" in line(FAILURE, FAILED, resumed, StateChange("lost", "its worker is gone"))


def test_how_long_it_ran_is_told_of_all_its_stretches() -> None:
    said = StatusLine(JOB)
    told: list[tuple[float, Event]] = [
        (10, StateChange("running")),
        (20, StateChange("released")),
        (100, StateChange("running")),
        (104, StateChange("saving")),
        (105, StateChange("running")),
        (130, ProgressMark(3, 0, 0)),  # then it was killed, and nobody said so
        (500, StateChange("starting")),
        (510, StateChange("running")),
        (515, StateChange("done")),
    ]
    for when, event in told:
        said.take(event, when)
    assert said.line().endswith(" · after 45 s")


def test_its_devices_are_said_as_people_say_them() -> None:
    """words/units.ts has the same cases."""
    assert line(StateChange("running", device="0, 1, 2")) == "▶ x: running on GPU 0, 1 and 2"
    moving = StateChange("moving", "to GPU 1, from its next safe point", "0")
    assert line(moving) == "… x: moving from GPU 0 to GPU 1, from its next safe point"


def test_the_peak_is_the_whole_jobs_also_after_a_move() -> None:
    moved = StateChange("running", device="cpu:1")
    assert "2.0 MiB, peak 5.0 MiB" in line(ProgressMark(3, 1 << 20, 5 << 20), moved, ProgressMark(4, 2 << 20, 2 << 20))


def test_what_a_plan_has_on_the_host_stands_beside_what_is_on_the_device() -> None:
    assert "peak 5.0 MiB, 9.0 MiB on the host" in line(ProgressMark(3, 2 << 20, 5 << 20, host=9 << 20))
    assert "on the host" not in line(ProgressMark(3, 2 << 20, 5 << 20))


def test_the_step_is_told_once() -> None:
    released = StateChange("released", "released at step 3; `gpufit resume x` goes on")
    assert line(ProgressMark(3, 0, 0), released).count("step 3") == 1
    assert "step 4" in line(ProgressMark(4, 0, 0), StateChange("done"))

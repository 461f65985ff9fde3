"""What a run tells of its estimate: on several devices it is compared with what was predicted for so many."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpufit.actions.plans import as_text
from jupyter_gpufit.estimate.asking.fit import Fit
from jupyter_gpufit.estimate.asking.for_job import Estimated
from jupyter_gpufit.estimate.asking.lesson import RunCourse, Took, learn_from, shared_out
from jupyter_gpufit.estimate.reckoning.learned import all_lessons, lessons, lessons_of
from jupyter_gpufit.estimate.reckoning.report import Estimate
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.testing import fake_device, fake_grant
from jupyter_gpufit.units import GiB

JOB = Job(id="abc234", name="bert", source="pass", created=0.0, cwd="/")


@pytest.mark.parametrize("estimated_for", [2, 1])
def test_a_run_on_two_devices_is_compared_and_says_nothing_of_one(tmp_path: Path, estimated_for: int) -> None:
    settings = Settings(data=str(tmp_path))
    estimate = Estimate(card="", card_total=1, how="trace", peak_reserved=2 * GiB, seconds_per_step=0.1)
    found, fit = shared_out(Estimated(estimate, "gpu", "key"), Fit(devices=estimated_for), 2)
    took = Took(3 * GiB)
    learn_from(JOB, "key", found, fake_grant(fake_device()), None, lambda: took, settings, fit, RunCourse(9, 0.2, 2))
    [lesson] = all_lessons(settings)
    assert (lesson.plan, lesson.devices, lesson.step_seconds) == ("data parallel on 2 devices", 2, 0.2)
    predicted = (0.1, 2 * GiB) if estimated_for == 2 else (0.0, 0)
    assert (lesson.predicted_seconds, lesson.estimated) == predicted
    assert lessons(settings, "key", lesson.plan) == lessons_of(settings, "key", lesson.kind) == []
    shown = as_text(settings, lesson.time)
    assert "data parallel on 2 devices" in shown and "200 ms" in shown
    assert ("100 ms" in shown) == (estimated_for == 2)

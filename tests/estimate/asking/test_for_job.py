"""The estimate of a job, before it is claimed for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from jupyter_gpufit.estimate.asking import for_job
from jupyter_gpufit.settings import Settings


def test_a_stop_in_the_moment_in_which_the_estimate_ends_is_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(for_job, "estimate_job", lambda *_: None)

    async def ends_and_is_cancelled(estimate: Callable[[], for_job.Found]) -> for_job.Found:
        estimate()
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(for_job.estimate_in(ends_and_is_cancelled, cast(Any, None), [], Settings()))

"""What a job asks of the lab."""

from __future__ import annotations

from ..jobs.job import Job
from ..lab import Request


def request_for(job: Job, memory: int | None) -> Request:
    """What the job asks of the lab."""
    options = job.options
    return Request(
        job_id=job.id,
        name=job.name,
        label=job.notebook,
        needed=memory,
        exclusive=options.exclusive,
        gpu=options.gpu,
    )

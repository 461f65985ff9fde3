"""What a job asks of the lab."""

from __future__ import annotations

from ..jobs.job import Job
from ..lab import Request


def request_for(job: Job, memory: int | None, gpus: tuple[int, int] | None = None) -> Request:
    """What the job asks of the lab; `gpus`: of a resume, on another number of devices."""
    options = job.options
    least, most = gpus or options.gpus
    return Request(
        job_id=job.id,
        name=job.name,
        label=job.notebook,
        needed=memory,
        exclusive=options.exclusive,
        gpu=options.gpu,
        count=least,
        most=most,
    )

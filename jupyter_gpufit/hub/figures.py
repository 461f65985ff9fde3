"""The lab's figures for Prometheus, at <service>/metrics.

What is so now is collected from the latest reading; what happened (waits, turns that ended, checkpoints) is counted
from one reading to the next, beginning with the service.
"""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from ..actions.status import Status
from ..lab.happenings import Happening

SECONDS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600)
SHORT = (0.1, 0.3, 1, 3, 10, 30, 100, 300)


class LabFigures:
    """Everything that is told; one per service."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self._waiting: dict[tuple[str, str], float] = {}  # by user and job: since when
        self._held: set[tuple[str, str]] = set()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        to = self._registry
        words = "How long jobs waited for a device"
        self._waits = Histogram("gpufit_wait_seconds", words, ["user"], buckets=SECONDS, registry=to)
        words = "Jobs that were saved and gave their device back"
        self._turns = Counter("gpufit_preemptions", words, ["user", "why"], registry=to)
        words = "From a safe point until it was on the disk"
        self._saves = Histogram("gpufit_checkpoint_seconds", words, buckets=SHORT, registry=to)
        self._bytes = Counter("gpufit_checkpoint_bytes", "Bytes of checkpoints on the disk", registry=to)

    def text(self) -> bytes:
        """In Prometheus' own format."""
        return generate_latest(self._registry)

    def note(self, status: Status, happened: tuple[Happening, ...] = ()) -> None:
        """Take in a reading, and what happened since the last one."""
        first, self._status = self._status is None, status
        held = {(claim.user, claim.job): claim.since for claim in status.claims}
        for key, since in held.items():
            if key not in self._held and not first:  # who held before the service began is nobody who waited
                self._waits.labels(key[0]).observe(max(0.0, since - self._waiting.get(key, since)))
        self._held = set(held)
        self._waiting = {(ticket.user, ticket.job): ticket.since for ticket in status.queue}
        for one in happened:
            if one.what == "checkpoint":
                self._saves.observe(one.seconds)
                self._bytes.inc(one.bytes)
            else:
                self._turns.labels(one.user, one.what).inc()

    def collect(self) -> Iterator[Metric]:
        """What is so now."""
        status = self._status
        if status is None:
            return
        yield from _devices(status)
        yield from _claims(status)
        yield from _queue(status)
        read = GaugeMetricFamily("gpufit_read_timestamp_seconds", "When the lab was last read")
        read.add_metric([], status.time)
        yield read


def _devices(status: Status) -> Iterator[Metric]:
    memory = GaugeMetricFamily("gpufit_device_memory_bytes", "Memory of a device", labels=["device", "kind"])
    busy = GaugeMetricFamily(
        "gpufit_device_busy_ratio", "Share of the last moments in which it computed", labels=["device"]
    )
    well = GaugeMetricFamily("gpufit_device_usable", "0: it has a problem", labels=["device", "name"])
    for place, device in enumerate(status.devices):
        room = status.rooms[place] if place < len(status.rooms) else None
        memory.add_metric([device.label, "total"], device.total)
        memory.add_metric([device.label, "used"], device.used)
        if room is not None:
            memory.add_metric([device.label, "free"], room.free)
            memory.add_metric([device.label, "foreign"], room.foreign)
        if device.utilisation is not None:
            busy.add_metric([device.label], device.utilisation / 100)
        well.add_metric([device.label, device.name], float(not device.problem))
    yield from (memory, busy, well)


def _claims(status: Status) -> Iterator[Metric]:
    counts = GaugeMetricFamily("gpufit_claims", "Claims that are held", labels=["user"])
    sizes = GaugeMetricFamily("gpufit_claimed_bytes", "What users claim, over all devices", labels=["user"])
    many: Count[str] = Count()
    much: Count[str] = Count()
    for claim in status.claims:
        many[claim.user] += 1
        much[claim.user] += claim.bytes * len(claim.devices)
    for user, count in many.items():
        counts.add_metric([user], count)
        sizes.add_metric([user], much[user])
    yield from (counts, sizes)


def _queue(status: Status) -> Iterator[Metric]:
    length = GaugeMetricFamily("gpufit_queue_length", "Jobs that wait, by the kind of reason", labels=["why"])
    oldest = GaugeMetricFamily("gpufit_queue_oldest_seconds", "How long the longest waiting one has waited")
    for why, count in Count(ticket.why for ticket in status.queue).items():
        length.add_metric([why], count)
    oldest.add_metric([], max((status.time - ticket.since for ticket in status.queue), default=0.0))
    yield from (length, oldest)

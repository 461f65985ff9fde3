"""A library's own writer on tensorboard's events, as skrl's."""

from __future__ import annotations

from importlib import import_module


class SummaryWriter:
    def __init__(self, directory: str) -> None:
        self._events = import_module("tensorboard.summary.writer.event_file_writer").EventFileWriter(directory)
        self._event = import_module("tensorboard.compat.proto.event_pb2").Event
        self._summary = import_module("tensorboard.compat.proto.summary_pb2").Summary

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        value = self._summary.Value(tag=tag, simple_value=value)
        self._events.add_event(self._event(step=step, summary=self._summary(value=[value])))

    def close(self) -> None:
        self._events.close()

"""A notebook's cell as a program to estimate: its text and its variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ...graph import Shipment
from .ask import EstimatedProgram


@contextmanager
def shipped(source: str, shipment: Shipment, was: Mapping[str, int]) -> Iterator[tuple[EstimatedProgram, list[int]]]:
    """The program, and the descriptors that its process must be given. `was`: see Program."""
    graph = os.memfd_create("gpufit-graph", os.MFD_CLOEXEC)
    try:
        with os.fdopen(graph, "wb", closefd=False) as file:
            file.write(shipment.graph)
        memory = list(shipment.memory.fds)
        program = EstimatedProgram(
            source=source,
            cwd=os.getcwd(),
            path=sys.path,
            arguments=[*sys.argv],  # modules read them as they are imported
            graph=graph,
            memory=memory,
            was={**was},
        )
        yield program, [graph, *memory]
    finally:
        os.close(graph)

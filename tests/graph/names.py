"""Which modules of ours a graph names: none but the one that later versions keep."""

from __future__ import annotations

import re

# In a pickle a module's name stands right before the name in it, with a few bytes of instructions between them.
_OURS = re.compile(rb"(jupyter_gpufit(?:\.[a-z_]+)+)\x94?\x8c.([A-Za-z_][\w.<>]*)", re.DOTALL)
_KEPT = b"jupyter_gpufit.graph.wire"


def unnamed(graph: bytes) -> set[str]:
    """Modules of ours that stand in a graph, though graph/wire.py should have given what is in them a name."""
    return {f"{module.decode()}: {name.decode()}" for module, name in _OURS.findall(graph) if module != _KEPT}

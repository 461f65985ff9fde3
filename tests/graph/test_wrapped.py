"""wrapt's proxies, which answer as what is inside of them: functions that a decorator wraps, bound ones, objects."""

from __future__ import annotations

import pytest

from tests.libraries import need

from .crossing import Worker, notebook

pytestmark = pytest.mark.slow

SETUP = """
import wrapt
calls = []
@wrapt.decorator
def counted(wrapped, instance, args, kwargs):
    calls.append(wrapped.__name__)
    return wrapped(*args, **kwargs)
@counted
def f(x): return x + 1
f._self_mine = f
class Model:
    @counted
    def m(self, x): return self, x
one = Model(); bound = one.m
class Proxy(wrapt.ObjectProxy):
    def __init__(self, of, more): super().__init__(of); self._self_more = more
    def more(self): return self._self_more
held = Proxy([1, 2], "more")
"""
CELL = """
seen = f(1), bound(2) == (one, 2), one.m(3)[0] is one, held + [3], held.more(), f._self_mine is f
held.append(9); held._self_more = "other"; kinds = type(f).__name__, type(bound).__name__
"""


def test_they_wrap_there_what_they_wrap_here(worker: Worker) -> None:
    need("wrapt")
    namespace = notebook(SETUP)
    f, held = namespace["f"], namespace["held"]

    worker.cross(namespace, CELL)

    assert namespace["seen"] == (2, True, True, [1, 2, 3], "more", True)
    assert namespace["calls"] == ["f", "m", "m"] and namespace["kinds"] == ("FunctionWrapper", "BoundFunctionWrapper")
    assert namespace["f"] is f and f(5) == 6 and namespace["held"] is held
    assert held == [1, 2, 9] and held.more() == "other" and namespace["one"].m(1) == (namespace["one"], 1)

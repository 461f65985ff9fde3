"""What the system holds for the process, as a cell left it."""

from __future__ import annotations

import sys

import pytest

from jupyter_gpufit.surroundings import start


def test_where_modules_are_looked_for_comes_back_and_the_rest_is_the_processs_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", ["/python", "/gone", "/of the worker"])
    then = start.now()
    sys.path[:] = ["/first", "/second", "/python", "/of the worker", "/last"]
    found = start.changed(then)

    monkeypatch.setattr(sys, "path", ["", "/python", "/gone"])
    start.put(found)

    assert sys.path == ["/first", "/second", "", "/python", "/last"]
    assert "path" not in start.changed(start.now())

"""What the system holds for the process, as a cell left it."""

from __future__ import annotations

import locale
import os
import sys
import time

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


@pytest.mark.slow(5)
def test_the_rights_of_files_the_language_and_the_time_zone_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    then, rights, language = start.now(), os.umask(0o077), locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, "C")
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        found = start.changed(then)
        start.put({"umask": rights, "environment": ({"TZ": "UTC"}, []), "language": language})
        assert time.tzname[0] == "UTC" and start.changed(then) == {}

        start.put(found)

        assert start.umask() == 0o077 and locale.setlocale(locale.LC_ALL) == "C" and time.tzname[0] == "JST"
    finally:
        start.put({"umask": rights, "language": language})
        monkeypatch.undo()
        time.tzset()

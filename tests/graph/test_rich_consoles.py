"""Rich's console and bars, made in an earlier cell."""

from __future__ import annotations

import pytest

from jupyter_gpufit.errors import CannotTravel

from .crossing import cross_here, notebook

BEFORE = """
import io
from rich.console import Console
from rich.progress import Progress, TextColumn
console = Console(width=60, style="bold")
bars = Progress(TextColumn("x"), console=console, disable=True)
bars.add_task("t", total=4)
"""


def test_travel_both_ways_and_keep_their_locks() -> None:
    namespace = notebook(BEFORE)
    console, lock = namespace["console"], namespace["console"]._lock

    cell = "console.file = out = io.StringIO()\nconsole.print('a b')\nseen = out.getvalue()\nbars.advance(0)\n"
    returned = cross_here(namespace, cell + "console.width = 40\nmade = Console(width=9)\n").returned

    assert not returned.left_behind and namespace["seen"].split() == ["a", "b"]
    assert namespace["console"] is console and console._lock is lock and console.width == 40
    assert namespace["bars"].tasks[0].completed == 1 and namespace["bars"].live.console is console
    namespace["bars"].start()
    namespace["bars"].stop()
    assert namespace["made"].width == 9 and namespace["made"].capture()


def test_a_display_that_is_being_drawn_is_named() -> None:
    namespace = notebook(BEFORE + "live = bars.live\nlive._refresh_thread = object()\n")

    with pytest.raises(CannotTravel, match=r"that a thread of this process draws"):
        cross_here(namespace, "live")

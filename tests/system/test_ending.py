"""A process that ends at once leaves nothing undone that its user would miss; each is a real one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow(1)

BEGIN = """
import atexit, sys, threading, time
from pathlib import Path
from jupyter_gpufit.system.ending import end
class Last:
    def __del__(self, print=print):
        print("taken apart")
sys.modules["kept"] = last = type(sys)("kept")
last.last = Last()
del last
"""


def ended(code: str, place: Path) -> str:
    """What such a process printed; it ends itself with 3."""
    text = f"{BEGIN}\n{code}\nprint('Python ends it')\nsys.exit(3)"
    ran = subprocess.run([sys.executable, "-c", text], cwd=place, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (3, "")
    return ran.stdout


def test_what_waits_for_the_end_is_done_and_what_was_imported_is_not_taken_apart(tmp_path: Path) -> None:
    told = ended(
        "threading.Thread(target=lambda: (time.sleep(0.2), print('a thread has ended'))).start()\n"
        "atexit.register(print, 'at exit')\n"
        "class Mine:\n    def __del__(self, print=print):\n        print('a variable has ended')\n"
        "mine = Mine(); mine.circle = mine\n"
        "log = open('log.csv', 'w'); log.write('a,b')\n"
        "print('not yet flushed', end=' ')\n"
        "end(globals(), [], 3)",
        tmp_path,
    )

    assert told.splitlines() == ["not yet flushed a thread has ended", "at exit", "a variable has ended"]
    assert (tmp_path / "log.csv").read_text() == "a,b"


def test_where_a_library_holds_a_file_open_python_ends_as_ever(tmp_path: Path) -> None:
    """HDF5 writes down what it holds of an open file when its library ends."""
    holds = "import os; sys.modules['kept'].fd = os.open('held.h5', os.O_CREAT | os.O_RDWR)\n"

    assert ended(f"{holds}end({{}}, [], 3)", tmp_path) == "Python ends it\ntaken apart\n"
    assert ended(f"{holds}end({{}}, [Path.cwd()], 3)", tmp_path) == ""
    assert ended(f"{holds}os.unlink('held.h5'); end({{}}, [], 3)", tmp_path) == ""  # nobody can find it


def test_a_thread_that_goes_on_is_ended_by_python_and_meets_no_name_that_is_gone(tmp_path: Path) -> None:
    code = (
        "steps = 0\n"
        "def go_on():\n    global steps\n    while True:\n        steps += 1\n"
        "threading.Thread(target=go_on, daemon=True).start()\n"
        "while not steps: pass\n"
        "end(globals(), [], 3)"
    )

    assert ended(code, tmp_path) == "Python ends it\ntaken apart\n"

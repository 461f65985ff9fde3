"""What a cell wrote, as it is seen while it is captured."""

from __future__ import annotations

import subprocess
import sys
import textwrap


def run_alone(script: str) -> tuple[str, str]:
    """Run a script of its own process, with `output` and `seen` at hand; what it saw on stdout and stderr."""
    begin = """
        import ctypes, multiprocessing, os, signal, sys, threading, time
        from jupyter_gpufit.worker.output import Output, WrittenText
        from tests.worker.test_output import Seen
        seen = Seen()
        output = Output(seen.emit)
        libc = ctypes.CDLL(None)
        output.start()
    """
    end = """
        output.stop()
        sys.stdout.write(seen.text("stdout"))
        sys.stderr.write(seen.text("stderr"))
    """
    whole = "\n".join(map(textwrap.dedent, (begin, script, end)))
    # From Python 3.12 on, a fork beside threads draws a warning, in a plain kernel too.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", whole]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr

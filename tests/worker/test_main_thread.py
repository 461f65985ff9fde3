"""The main thread as a process: real signals, in a child whose main thread is free."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

CHILD = """
import anyio, threading, time
from jupyter_gpufit.worker.main_thread import MainThread

main = MainThread()
told = []

def careful():
    main.interrupt()  # outside user code: it must not strike here
    time.sleep(0.05)
    return "whole"

def early():
    with main.user_code():
        told.append("ran")

def looping(started):
    with main.user_code():
        started.set()
        while True:
            time.sleep(60)

def outcome(function):
    try:
        return function()
    except BaseException as error:
        return type(error).__name__

async def control():
    {steps}

thread = threading.Thread(target=lambda: (anyio.run(control), main.leave()))
thread.start()
main.serve()
thread.join()
print(told)
"""


def _run(steps: str) -> str:
    child = CHILD.replace("{steps}", steps)
    ran = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_an_interrupt_strikes_user_code() -> None:
    steps = (
        "started = threading.Event(); "
        "threading.Thread(target=lambda: (started.wait(), main.interrupt())).start(); "
        "told.append(await main.call(lambda: outcome(lambda: looping(started))))"
    )
    assert _run(steps) == "['KeyboardInterrupt']"


def test_an_interrupt_before_the_cell_is_kept_for_it_and_spares_our_own_code() -> None:
    steps = "told.append(await main.call(careful)); told.append(await main.call(lambda: outcome(early)))"
    assert _run(steps) == "['whole', 'KeyboardInterrupt']"


def test_an_exception_goes_to_the_caller_and_the_thread_serves_on() -> None:
    steps = "told.append(await main.call(lambda: outcome(lambda: 1 / 0))); told.append(await main.call(lambda: 'here'))"
    assert _run(steps) == "['ZeroDivisionError', 'here']"


STRETCH = """
import anyio, threading, time
from jupyter_gpufit.worker.main_thread import MainThread

main, reached = MainThread(), []

def code():
    try:
        with main.user_code():
            with main.ours():
                main.interrupt()
                time.sleep(0.05)  # a signal would be handled here
                reached.append("the end of ours")
            reached.append("the user's code")
    except KeyboardInterrupt:
        reached.append("struck")

async def control():
    await main.call(code)
    main.leave()

thread = threading.Thread(target=anyio.run, args=(control,))
thread.start(); main.serve(); thread.join()
print(*reached, sep=", ")
"""


def test_an_interrupt_during_a_stretch_of_ours_strikes_behind_it() -> None:
    child = subprocess.run([sys.executable, "-c", STRETCH], capture_output=True, text=True, timeout=60)
    assert child.stdout == "the end of ours, struck\n", child.stderr

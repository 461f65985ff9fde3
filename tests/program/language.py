"""Python's own tests, as functions that a cell calls: `python -m tests.program.language NAME [rewritten]`.

They come with most Pythons (not with Debian's). A copy of one file, under another name, is a module as any user's; the
cell makes each test case and calls its method, so that whatever the method runs is rewritten as it is called. Prints a
line of JSON: how many safe points were met, and what became of each test.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

from .crossing import FILE, World, known

LIMIT = 60  # seconds for one test
CELL = """
import importlib, unittest

def tried(cls, method):
    case = cls(method)
    test = getattr(case, method)
    if getattr(cls, "__unittest_skip__", False) or getattr(test, "__unittest_skip__", False):
        return "skipped"
    try:
        case.setUp()
        try:
            test()
        finally:
            case.tearDown()
            case.doCleanups()
    except unittest.SkipTest:
        return "skipped"
    return "passed"

def all_of(classes):
    for cls in classes:
        try:
            cls.setUpClass()
        except unittest.SkipTest:
            continue
        for method in unittest.TestLoader().getTestCaseNames(cls):
            begun()
            try:
                found = tried(cls, method)
            except Exception as error:
                found = failed(error)
            ended(f"{cls.__name__}.{method}", found)
        cls.tearDownClass()
        cls.doClassCleanups()

module = importlib.import_module(NAME)
if hasattr(module, "setUpModule"):
    module.setUpModule()
all_of([
    one for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, unittest.TestCase) and one.__module__ == NAME
])
"""


def file_of(name: str) -> Path | None:
    """Where Python has these tests."""
    found = importlib.util.find_spec("test")
    folders = [] if found is None else list(found.submodule_search_locations or ())
    return next((path for folder in folders if (path := Path(folder, f"test_{name}.py")).exists()), None)


def outcomes(name: str, *, rewritten: bool) -> tuple[int, dict[str, str]]:
    """Run all of its tests in this process, in an empty folder."""
    path = file_of(name)
    assert path is not None, name
    found: dict[str, str] = {}

    def begun() -> None:
        signal.alarm(LIMIT)

    def ended(which: str, became: str) -> None:
        signal.alarm(0)
        found[which] = became

    def failed(error: BaseException) -> str:
        return traceback.format_exception_only(error)[-1].strip()[-300:]

    def slow(*_: Any) -> None:
        raise TimeoutError(f"over {LIMIT} s")

    signal.signal(signal.SIGALRM, slow)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        shutil.copy(path, f"python_tests_{name}.py")
        sys.path.insert(0, folder)
        world = World()
        world.namespace |= {"NAME": f"python_tests_{name}", "begun": begun, "ended": ended, "failed": failed}
        if rewritten:
            ran = world.run(CELL)
            assert not ran.error, ran.error
        else:
            exec(compile(known(CELL), FILE, "exec"), world.namespace)
        os.chdir("/")
    return world.points, found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    points, became = outcomes(sys.argv[1], rewritten="rewritten" in sys.argv)
    print(json.dumps([points, became]), file=said, flush=True)
    os._exit(0)  # whatever threads they have left

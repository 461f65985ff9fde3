"""What Python's own tests say of the language, they say of it rewritten; see language.py."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from .language import file_of

SAMPLE = "generators with scope contextlib patma exception_group yield_from super decorators".split()
MORE = (
    "grammar class descr exceptions except_star raise funcattrs named_expressions genericclass enum functools itertools"
    " collections abc property positional_only_arg keywordonlyarg fstring typing types iter enumerate augassign compare"
    " dynamic dictcomps setcomps generator_stop coroutines asyncgen contextlib_async unpack_ex list tuple dict set copy"
    " weakref weakset heapq bisect statistics random textwrap argparse csv queue"
).split()
OTHERWISE = {  # and why
    "contextlib": {"ContextManagerTestCase.test_nokeepref"},  # what a call is given is held until it returns
    "coroutines": {f"CoroutineTest.test_func_{n}" for n in (7, 8, 9)},  # types.coroutine(), which nobody calls any more
    "iter": {"TestCase.test_3720"},  # an iterator that deletes its own __next__
    "patma": {f"TestTracing.test_{one}" for one in ("default_capture", "default_wildcard", "no_default")},  # settrace()
    "super": {"TestSuper.test_shadowed_local"},  # of Python 3.12: a variable of that name around a method
    "exceptions": {  # where an `__exit__` raises, a traceback says the line of the `with`'s last statement
        "PEP626Tests.test_lineno_after_raise_in_with_exit",
        "PEP626Tests.test_lineno_after_with",
    },
}


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.slow(1)) for name in SAMPLE),
        *(pytest.param(name, marks=pytest.mark.soak) for name in MORE),
    ],
)
def test_is_the_same_rewritten(name: str) -> None:
    if file_of(name) is None:
        pytest.skip(f"NOT TESTED: this Python came without its test_{name}.py (install its `test` package)")
    (_, once), (points, other) = outcomes(name), outcomes(name, "rewritten")

    assert points >= len(other)
    passed = {which for which, became in once.items() if became == "passed"} - OTHERWISE.get(name, set())
    assert passed
    assert {which: other.get(which) for which in passed} == dict.fromkeys(passed, "passed")


def outcomes(name: str, *how: str) -> tuple[int, dict[str, str]]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.program.language", name, *how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    points, became = json.loads(done.stdout.splitlines()[-1])
    return points, became

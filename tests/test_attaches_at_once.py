"""Two notebooks attach to a job while it starts, runs or ends: one has the variables, and each has them or is told."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import gpufit, typing
from tests.kernels import Kernel, Ran, environment, running_kernel

ROUNDS = int(os.environ.get("SOAK_ATTACHES", "500"))
TOLD = "in the notebook that followed it to its end, not in this one"
LATEST = 1.5  # seconds after which the second attaches


@pytest.fixture(scope="module")
def fresh_kernel(home: Path, env: dict[str, str]) -> Iterator[Kernel]:
    """One that has started nothing, and waits for no spare worker."""
    with running_kernel(environment(home, GPUFIT_ESTIMATE_LIMIT="0"), home) as kernel:
        yield kernel


@pytest.mark.parametrize(
    "rounds", [pytest.param(3, marks=pytest.mark.slow), pytest.param(ROUNDS, marks=pytest.mark.soak)]
)
def test_whoever_attaches_has_the_variables_or_is_told(kernel: Kernel, fresh_kernel: Kernel, rounds: int) -> None:
    chance, silent = random.Random(5), []
    for number in range(rounds):
        name, others = f"round-{number}", (kernel, fresh_kernel)
        for one in others:
            one.check("given = None")
        work = f"import time\nfor _ in range(3): time.sleep({chance.uniform(0, 0.2)})\ngiven = {number}\n"
        kernel.check(f"%%gpufit train --detach --name {name}\n{work}")
        sent = []
        for one in others:
            time.sleep(chance.uniform(0, LATEST))
            sent.append(
                one.send(f"%gpufit attach {name}" + (f"\n%gpufit attach {name}" if chance.random() < 0.2 else ""))
            )
        ran = [one.finish(it) for one, it in zip(others, sent, strict=True)]
        given = [one.check("print(given)").stdout.strip() for one in others]
        if not _is_right(number, ran, given):
            silent.append((name, given, ran))
        kernel.check(f"%gpufit clean {name}")
    assert not silent


@pytest.mark.parametrize(
    "rounds", [pytest.param(1, marks=pytest.mark.slow), pytest.param(ROUNDS // 5, marks=pytest.mark.soak)]
)
def test_a_fresh_notebook_has_the_variables_of_what_a_terminal_resumed(
    kernel: Kernel, fresh_kernel: Kernel, env: dict[str, str], tmp_path: Path, rounds: int
) -> None:
    """While its worker starts, while it runs, or when it has ended."""
    chance, silent = random.Random(7), []
    for number in range(rounds):
        name, hold = f"resumed-{number}", tmp_path / str(number)
        fresh_kernel.check("given = None")
        kernel.check(
            f"%%gpufit train --detach --name {name}\nimport os, time\nfor step in range({chance.randint(2, 8)}):\n"
            f"    print('step', step)\n    while step and not os.path.exists({str(hold)!r}): time.sleep(0.01)\n"
            f"given = {number}\n"
        )
        with typing(env, "attach", name) as follows:
            assert follows.stdout is not None and any("step 1" in line for line in follows.stdout)
            follows.kill()
        assert gpufit(env, "release", name).returncode == 0
        hold.touch()
        assert gpufit(env, "resume", name).returncode == 0
        time.sleep(chance.uniform(0, LATEST))
        ran = fresh_kernel.check(f"%gpufit attach {name}")
        if (given := fresh_kernel.check("print(given)").stdout.strip()) != str(number):
            silent.append((name, given, ran))
        kernel.check(f"%gpufit clean {name}")
    assert not silent


def _is_right(number: int, ran: list[Ran], given: list[str]) -> bool:
    one_has_them = str(number) in given
    told = all(value == str(number) or TOLD in shown.shown for value, shown in zip(given, ran, strict=True))
    return one_has_them and told and all(shown.ok for shown in ran)

"""Checkpoints where something is in the way: no safe point, locks, full disks, rivals, broken files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.command_line import gpufit, jobs, typing
from tests.held_training import DIGEST, started
from tests.kernels import TIMEOUT, Kernel, running_kernel
from tests.program import trainers

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_worker_outlives_its_test")]


def test_a_cell_without_a_safe_point_says_what_holds_it_up(kernel: Kernel, env: dict[str, str]) -> None:
    sent = kernel.send(
        "%%gpufit train --name stuck\nimport time\ndef slow(n):\n    print('in slow')\n    time.sleep(600)\n"
        "found = [slow(n) for n in range(2) if (lambda: n)]\n"  # which keeps its variable, and stays as it is
    )
    kernel.until(sent, "in slow")
    asking = typing(env, "checkpoint", "stuck")
    # From Python 3.12 on a comprehension has no frame of its own.
    caller = "a list comprehension (line 6)" if sys.version_info < (3, 12) else "the cell (line 6, in a list"
    kernel.until(sent, f"inside `slow` (line 5), called from {caller}")
    kernel.interrupt()
    assert kernel.finish(sent).ename == "KeyboardInterrupt"
    asking.communicate(timeout=TIMEOUT)
    assert asking.returncode == 2
    assert jobs(env)["stuck"]["checkpoint"] is None


@pytest.mark.soak
def test_half_a_minute_without_a_safe_point_is_said_unasked(kernel: Kernel, hold: Path) -> None:
    sent = kernel.send(
        "%%gpufit train --name deaf\nimport os, time\ndef slow(n):\n"
        f"    while not os.path.exists({str(hold)!r}): time.sleep(0.1)\n    return n\n"
        "def ordered():\n    return sorted([2, 1], key=slow)\nfound = ordered()\n"
    )
    chain = "`slow` (line 4), called from `ordered` (line 7), called from line 8 of the cell."
    kernel.until(sent, f"What runs cannot be left midway: {chain}", 60)
    hold.touch()
    assert kernel.finish(sent).ok
    kernel.check("assert found == [1, 2]")


def test_what_cannot_be_saved_is_said_before_the_training(kernel: Kernel, env: dict[str, str], hold: Path) -> None:
    sent = kernel.send(
        "%%gpufit train --name locked\nimport threading, os, time\nlock = threading.Lock()\n"
        "lock.acquire()\nprint('begun')\n"
        f"while not os.path.exists({str(hold)!r}): time.sleep(0.02)\n"
    )
    kernel.until(sent, "begun")
    said = gpufit(env, "checkpoint", "locked")
    assert said.returncode == 2 and "lock" in said.stderr and "goes on" in said.stderr
    hold.touch()
    assert kernel.finish(sent).ok


def test_the_clock_saves_by_itself_and_the_workers_of_a_loader_end_with_the_release(
    home: Path, env: dict[str, str], hold: Path, tmp_path: Path
) -> None:
    env = env | {"GPUFIT_CHECKPOINT_EVERY": "0.3", "GPUFIT_DATA": str(tmp_path / "data")}
    with running_kernel(env, home) as kernel:
        kernel.check(
            "import os, time, torch\nclass Numbers(torch.utils.data.Dataset):\n    def __len__(self): return 64\n"
            "    def __getitem__(self, at): return at, os.getpid()\n"
        )
        sent = kernel.send(
            "%%gpufit train --name clock\nseen, pids = [], set()\n"
            "loader = torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2)\nfor at, pid in loader:\n"
            "    seen += at.tolist(); pids |= set(pid.tolist()); print('seen', len(seen), *pids)\n"
            f"    while len(seen) == 32 and not os.path.exists({str(hold)!r}): time.sleep(0.02)\n"
        )
        ran = kernel.until(sent, "seen 32 ")
        workers = [int(word) for word in ran.stdout.splitlines()[-1].split()[2:]]
        kernel.until(sent, "saved at step")  # in the status line, and nowhere else
        assert gpufit(env, "release", "clock").returncode == 0
        assert kernel.finish(sent).released
        assert len(workers) == 2 and not any(Path(f"/proc/{pid}").exists() for pid in workers)
        shown = gpufit(env, "checkpoint", "show", "clock")
        assert shown.returncode == 0 and json.loads(gpufit(env, "checkpoint", "show", "clock", "--json").stdout)
        hold.touch()
        kernel.check("%gpufit resume clock --gpu cpu:1")
        kernel.check("assert seen == list(range(64)) and len(pids) == 4, (seen, pids)")


def test_a_full_disk_is_said_and_the_training_goes_on(
    home: Path, env: dict[str, str], hold: Path, tmp_path: Path
) -> None:
    if os.getuid() != 0:
        pytest.skip("NEEDS ROOT: mounts a small tmpfs to fill it")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", tmp_path], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"CANNOT MOUNT a small tmpfs here: {mounted.stderr.decode().strip()}")
    try:
        env = env | {"GPUFIT_DATA": str(tmp_path)}
        with running_kernel(env, home) as kernel:
            kernel.check("import os, time, torch\nbig = torch.zeros(4 << 20)")
            sent = kernel.send(
                "%%gpufit train --name full\nfor step in range(3):\n    big += 1; print('step', step)\n"
                f"    while step == 1 and not os.path.exists({str(hold)!r}): time.sleep(0.02)\n"
            )
            kernel.until(sent, "step 1\n")
            for verb in ("checkpoint", "release", "move"):
                said = gpufit(env, verb, "full")
                assert said.returncode == 2 and "No space left on device" in said.stderr, said
                assert jobs(env)["full"]["state"] == "running"  # also after a release that came to nothing
            assert len(json.loads(gpufit(env, "status", "--json").stdout)["claims"]) == 1
            hold.touch()
            ran = kernel.finish(sent)
            assert ran.ok and "full was not saved, and goes on" in ran.shown
            kernel.check("assert big.unique().tolist() == [3]")
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def test_of_two_resumes_at_once_one_goes_on(kernel: Kernel, env: dict[str, str], plain: str, hold: Path) -> None:
    sent = started(kernel, "twice", hold)
    assert gpufit(env, "release", "twice").returncode == 0
    assert kernel.finish(sent).released
    resuming = [typing(env, "resume", "twice") for _ in range(2)]
    said = [one.communicate(timeout=TIMEOUT)[1] for one in resuming]
    assert sorted(one.returncode for one in resuming) == [0, 2]
    assert any("runs already" in words or "it is " in words for words in said)
    hold.touch()
    kernel.check("%gpufit attach twice")
    assert kernel.check(DIGEST).stdout == plain


def test_a_checkpoint_that_is_broken_is_said_and_kept(kernel: Kernel, env: dict[str, str], home: Path) -> None:
    kernel.check("import os, time, torch\nvalues = torch.zeros(1000)")
    hold = home / "never"
    sent = kernel.send(
        "%%gpufit train --name broken\nfor step in range(2):\n    values += 1; print('step', step)\n"
        f"    while not os.path.exists({str(hold)!r}): time.sleep(0.02)\n"
    )
    kernel.until(sent, "step 0\n")
    assert gpufit(env, "release", "broken").returncode == 0
    assert kernel.finish(sent).released
    [checkpoint] = (home / ".local/share/gpufit/jobs" / jobs(env)["broken"]["id"] / "checkpoints").iterdir()
    for file in checkpoint.glob("*.safetensors"):
        with file.open("r+b") as opened:
            opened.seek(-1, os.SEEK_END)
            byte = opened.read(1)
            opened.seek(-1, os.SEEK_END)
            opened.write(bytes([byte[0] ^ 1]))
    ran = kernel.run("%gpufit resume broken")
    assert not ran.ok and "no checkpoint of it is whole" in ran.traceback and "gpufit resume broken" in ran.traceback
    assert "cannot be used: " in ran.shown
    assert jobs(env)["broken"]["state"] == "failed" and checkpoint.exists()
    assert json.loads(gpufit(env, "status", "--json").stdout)["claims"] == []


def test_a_resumed_job_queues_as_any_other_and_can_give_its_place_up_again(
    kernel: Kernel, second_kernel: Kernel, env: dict[str, str], plain: str, hold: Path
) -> None:
    sent = started(kernel, "patient", hold, "--gpu cpu:0")
    assert gpufit(env, "release", "patient").returncode == 0
    assert kernel.finish(sent).released
    held = second_kernel.send(
        "%%gpufit train --name holder --gpu cpu:0\nimport time\nprint('holding')\nwhile True: time.sleep(0.1)\n"
    )
    second_kernel.until(held, "holding")
    resumed = gpufit(env, "resume", "patient")
    assert resumed.returncode == 0 and "patient waits: " in resumed.stdout, resumed
    assert "holder has held cpu:0" in resumed.stdout
    assert "nothing to save yet" in gpufit(env, "checkpoint", "patient").stderr
    released = gpufit(env, "release", "patient")
    assert released.returncode == 0 and "patient is released at step" in released.stdout, released
    assert jobs(env)["patient"]["state"] == "released"
    hold.touch()
    kernel.check("%gpufit resume patient --gpu cpu:1")  # the very objects, also after a resume that came to nothing
    assert kernel.check(DIGEST).stdout == plain
    kernel.check("assert also is net")
    second_kernel.interrupt()
    second_kernel.finish(held)


def test_a_trainer_that_is_not_known_is_left_by_its_own_resume(
    kernel: Kernel, env: dict[str, str], home: Path, hold: Path
) -> None:
    trainers.write(home / "libraries")
    kernel.check(f"import sys; sys.path.insert(0, {str(home / 'libraries')!r})\nseen = []")
    sent = kernel.send(
        "%%gpufit train --name unknown\n"
        "import os, time\n"
        "from transformers.trainer import Trainer\n"
        "from transformers.trainer_callback import TrainerCallback\n"
        "class Sees(TrainerCallback):\n"
        "    def on_step_end(self, args, state, control, **_):\n"
        "        seen.append(state.global_step)\n"
        "        print('step', state.global_step)\n"
        "        time.sleep(0.05)\n"
        f"        if os.path.exists({str(hold)!r}): state.global_step = 10**9\n"
        "end = Trainer([Sees()]).train(steps=10**9)\n"
    )
    kernel.until(sent, "step 2\n")
    assert "own resume: not exact to the bit" in gpufit(env, "release", "unknown").stdout
    assert kernel.finish(sent).released
    assert "own resume: not exact to the bit" in gpufit(env, "checkpoint", "show", "unknown").stdout
    shown = json.loads(gpufit(env, "checkpoint", "show", "unknown", "--json").stdout)["checkpoints"]
    assert [one["exact"] for one in shown] == [False] and jobs(env)["unknown"]["checkpoint"]["exact"] is False

    hold.touch()
    ran = kernel.check("%gpufit resume unknown")

    assert re.search(r"goes on from step \d+ \(not exact to the bit\), saved", ran.shown)
    assert "Trainer.train goes on by the library's own resume" in ran.stdout + ran.shown
    kernel.check("assert end == 10**9 and seen == list(range(1, len(seen) + 1)), seen\nsys.path.pop(0)")
    assert not list(home.rglob("own-resume-*"))


def test_a_log_is_cut_back_and_another_runs_log_is_not(kernel: Kernel, env: dict[str, str], tmp_path: Path) -> None:
    log, renamed = tmp_path / "train.log", tmp_path / "first.log"
    holds = {step: tmp_path / f"go-on-{step}" for step in (10, 20, 25)}
    cell = (
        "import os, time\nwith open({log!r}, 'w') as log:\n    for i in range(30):\n"
        "        log.write(f'{name} {{i}}\\n'); log.flush(); print('step', i)\n"
        "        while i in (10, 20, 25) and not os.path.exists(f'{holds}{{i}}'): time.sleep(0.02)\n"
    )

    def train(name: str) -> str:
        return f"%%gpufit train --name {name}\n" + cell.format(log=str(log), name=name, holds=tmp_path / "go-on-")

    def lines(name: str) -> str:
        return "".join(f"{name} {i}\n" for i in range(30))

    sent = kernel.send(train("one"))
    kernel.until(sent, "step 10\n")
    assert gpufit(env, "release", "one").returncode == 0
    assert kernel.finish(sent).released
    log.rename(renamed)
    log.write_text("another run's\n")
    holds[10].touch()
    sent = kernel.send("%gpufit resume one")
    kernel.until(sent, f"{log} has become {renamed}, and goes on there.")
    kernel.until(sent, "step 20\n")
    assert gpufit(env, "checkpoint", "one").returncode == 0
    holds[20].touch()
    kernel.until(sent, "step 25\n")
    job = jobs(env)["one"]
    state = Path(env["HOME"]) / ".local/share/gpufit/jobs" / job["id"] / "state.json"
    until = time.monotonic() + TIMEOUT
    while state.stat().st_mtime < renamed.stat().st_mtime:  # it says once a second that it lives
        assert time.monotonic() < until
        time.sleep(0.02)
    os.kill(job["pid"], signal.SIGKILL)
    kernel.finish(sent)
    holds[25].touch()
    assert "somebody else" not in kernel.check("%gpufit resume one").shown
    assert renamed.read_text() == "".join(f"one {i}\n" for i in range(30))
    assert log.read_text() == "another run's\n"
    assert sorted(os.listdir(tmp_path)) == sorted([log.name, renamed.name, *(hold.name for hold in holds.values())])


def test_what_a_failed_try_brought_is_not_kept_when_another_one_ends_well(
    kernel: Kernel, env: dict[str, str], home: Path, hold: Path
) -> None:
    broken = home / "broken"
    broken.touch()
    kernel.check("import os, time, torch\nactions, best, weight = [], {}, torch.zeros(2)\nother = actions")
    sent = kernel.send(
        "%%gpufit train --name twice\nfor i in range(30):\n"
        f"    while i == 10 and not os.path.exists({str(hold)!r}): time.sleep(0.02)\n"
        "    actions.append(i); best['at'] = i; weight += 1\n"
        f"    if i == 17 and os.path.exists({str(broken)!r}): late = 1; raise ValueError('broken')\n"
        "    if i == 9: actions.clear(); best.clear(); print('at the tenth')\n"
        "actions.clear(); best.clear(); i = 'done'\n"
    )
    kernel.until(sent, "at the tenth")
    assert gpufit(env, "checkpoint", "twice").returncode == 0
    hold.touch()
    assert kernel.finish(sent).ename == "ValueError"
    kernel.check("assert actions == list(range(10, 18)) and best == {'at': 17} and late == 1")
    broken.unlink()
    kernel.check("%gpufit resume twice")
    kernel.check(
        "assert actions == [] and other is actions and best == {} and i == 'done', (actions, best, i)\n"
        "assert 'late' not in vars() and weight.tolist() == [30, 30], weight"
    )
    kernel.check("%gpufit attach twice")  # it failed once, and that is not its end

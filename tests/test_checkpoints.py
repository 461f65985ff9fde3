"""Checkpoint, release, move and resume: real kernels, workers, signals and disks; results compared to the bit."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cell.resumable import trainers
from tests.kernels import TIMEOUT, Kernel, running_kernel
from tests.terminal import gpufit, jobs, typing

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_worker_outlives_its_test")]

# A training with a shuffled loader, dropout and momentum, whose numbers depend on every draw. It says each step, so
# that a test waits for a step and not for a time, and stands at `HOLD` until a file is there.
SET_UP = (
    "import os, time, torch\ntorch.manual_seed(7)\n"
    "net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1)); also = net\n"
    "opt = torch.optim.AdamW(net.parameters(), lr=0.01); losses = []\n"
    "data = torch.utils.data.TensorDataset(torch.randn(40, 8), torch.randn(40, 1))\n"
    "loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)\n"
)
CELL = (
    "for epoch in range(3):\n"
    "    for x, y in loader:\n"
    "        loss = torch.nn.functional.mse_loss(net(x), y)\n"
    "        opt.zero_grad(); loss.backward(); opt.step()\n"
    "        losses.append(loss.item().hex()); print('step', len(losses))\n"
    "        while len(losses) == 14 and not os.path.exists({hold!r}): time.sleep(0.02)\n"
)
DIGEST = (
    "import hashlib\nprint(hashlib.sha256(b''.join([t.detach().numpy().tobytes() for t in net.state_dict().values()]\n"
    "    + [t.numpy().tobytes() for s in opt.state.values() for t in s.values()]\n"
    "    + [' '.join(losses).encode(), torch.get_rng_state().numpy().tobytes()])).hexdigest())"
)


@pytest.fixture
def hold(home: Path, request: pytest.FixtureRequest) -> Path:
    """While this file is not there, the cell stands at its 14th step."""
    return home / f"go-on-{request.node.name}"


@pytest.fixture(scope="module")
def plain(kernel: Kernel) -> str:
    """What the kernel itself makes of the cell."""
    kernel.check(SET_UP + CELL.format(hold="/"))
    return kernel.check(DIGEST).stdout


def started(kernel: Kernel, name: str, hold: Path, options: str = "") -> str:
    """Set up, and start the cell, which then stands at its 14th step."""
    kernel.check(SET_UP)
    sent = kernel.send(f"%%gpufit train --name {name} {options}\n" + CELL.format(hold=str(hold)))
    kernel.until(sent, "step 14\n")
    return sent


def test_a_checkpoint_changes_nothing_and_can_be_looked_at(
    kernel: Kernel, env: dict[str, str], plain: str, hold: Path
) -> None:
    sent = started(kernel, "saved", hold)
    said = gpufit(env, "checkpoint", "saved")
    assert said.returncode == 0, said.stderr
    assert "saved at step 14 (line 7" in said.stdout
    job = jobs(env)["saved"]
    assert (job["checkpoint"]["step"], job["checkpoint"]["exact"], job["state"]) == (14, True, "running")
    hold.touch()
    assert kernel.finish(sent).ok
    assert kernel.check(DIGEST).stdout == plain
    kernel.check("assert also is net")


def test_released_and_resumed_in_the_same_kernel_the_very_objects_are_trained(
    kernel: Kernel, env: dict[str, str], plain: str, hold: Path
) -> None:
    sent = started(kernel, "left", hold)
    said = gpufit(env, "release", "left")
    assert said.returncode == 0, said.stderr
    ran = kernel.finish(sent)
    assert ran.ok and "released at step 14; `%gpufit resume left` goes on" in ran.shown
    job = jobs(env)["left"]
    assert job["state"] == "released" and job["pid"] is None
    assert json.loads(gpufit(env, "status", "--json").stdout)["claims"] == []
    hold.touch()
    ran = kernel.check("%gpufit resume --memory 2GiB left")
    assert "It needs 2.0 GiB: so --memory says." in ran.shown
    assert ran.stdout.startswith("step 15\n") and ran.stdout.endswith("step 30\n")
    assert "not to the bit" not in ran.shown and "repeat" not in ran.shown and "anew" not in ran.shown
    assert kernel.check(DIGEST).stdout == plain
    kernel.check("assert also is net")
    assert "it has ended well. Its output and variables: %gpufit attach" in kernel.run("%gpufit resume left").evalue
    refused = gpufit(env, "checkpoint", "left")
    assert refused.returncode == 2 and "left is done: it does not run" in refused.stderr
    assert "goes on as it was" not in refused.stderr
    assert "No job of yours runs." in gpufit(env, "checkpoint").stderr


def test_names_that_were_defined_anew_are_bound_to_what_a_resume_has_trained(
    kernel: Kernel, env: dict[str, str], plain: str, hold: Path
) -> None:
    sent = started(kernel, "anew", hold)
    assert gpufit(env, "release", "anew").returncode == 0
    assert kernel.finish(sent).ok
    hold.touch()
    kernel.check("first = net, loader, data\n" + SET_UP + "other = loader, data")
    ran = kernel.check("%gpufit resume anew")
    assert "net, opt, losses had been defined anew since; they are the trained ones of anew now." in ran.shown
    assert kernel.check(DIGEST).stdout == plain
    kernel.check("assert net is first[0] and opt.param_groups[0]['params'][0] is net[0].weight")
    kernel.check("assert loader is other[0] and data is other[1]")  # not changed by the cell: the notebook's count


def test_names_that_were_defined_anew_beside_a_detached_job_are_said_and_can_be_had(
    kernel: Kernel, plain: str, hold: Path
) -> None:
    kernel.check(SET_UP)
    kernel.check("%%gpufit train --name beside --detach\n" + CELL.format(hold=str(hold)))
    kernel.check("first = net; net = losses = None")
    hold.touch()
    ran = kernel.check("%gpufit attach beside")
    assert "net, losses were defined anew while beside ran" in ran.shown, ran.shown
    kernel.check("assert net is None")
    ran = kernel.check("%gpufit attach --again beside")
    assert "Of beside, trained, are now: net, losses." in ran.shown, ran.shown
    assert kernel.check(DIGEST).stdout == plain
    kernel.check("assert net is first")


def test_a_bar_on_stderr_is_released_and_goes_on(
    kernel: Kernel, env: dict[str, str], home: Path, request: pytest.FixtureRequest
) -> None:
    hold = home / f"go-on-{request.node.name}"
    kernel.check("import os, time; from tqdm import trange")
    sent = kernel.send(
        "%%gpufit train --name bar\nimport sys; w = sys.stdout.write\nfor i in trange(30):\n    w(f'step {i}\\n')\n"
        f"    while i == 14 and not os.path.exists({str(hold)!r}): time.sleep(0.02)\n"
    )
    kernel.until(sent, "step 14\n")
    said = gpufit(env, "release", "bar")
    assert said.returncode == 0, said.stderr
    assert kernel.finish(sent).ok
    hold.touch()
    ran = kernel.check("%gpufit resume bar")
    assert ran.stdout.endswith("step 29\n") and "30/30" in ran.stderr


def test_a_figure_and_a_disabled_scaler_are_released_and_go_on(
    kernel: Kernel, env: dict[str, str], home: Path, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip("matplotlib")
    hold = home / f"go-on-{request.node.name}"
    kernel.check(
        "import os, time, torch, matplotlib; matplotlib.use('agg'); import matplotlib.pyplot as plt\n"
        "fig, ax = plt.subplots(); line, = ax.plot([1, 2, 3]); scaler = torch.amp.GradScaler('cuda', enabled=False)"
    )
    sent = kernel.send(
        "%%gpufit train --name fig\nfor i in range(9):\n"
        "    line.set_ydata([i, i + 1, i + 2]); ax.relim(); ax.autoscale_view(); scaler.update(); print('step', i)\n"
        f"    while i == 4 and not os.path.exists({str(hold)!r}): time.sleep(0.02)\n"
    )
    kernel.until(sent, "step 4\n")
    said = gpufit(env, "release", "fig")
    assert said.returncode == 0, said.stderr
    assert kernel.finish(sent).ok
    hold.touch()
    assert kernel.check("%gpufit resume fig").stdout.endswith("step 8\n")
    kernel.check("low, high = ax.get_ylim(); assert 7 < low < 8 and 10 < high < 11 and ax.figure is fig")


def test_released_and_resumed_in_a_new_kernel_the_variables_come(
    second_kernel: Kernel, env: dict[str, str], plain: str, hold: Path
) -> None:
    sent = started(second_kernel, "restarted", hold)
    assert gpufit(env, "release", "restarted").returncode == 0
    assert second_kernel.finish(sent).ok
    second_kernel.restart()
    hold.touch()
    ran = second_kernel.check("%gpufit resume")
    assert "restarted goes on from step 14" in ran.shown and ran.stdout.startswith("step 15\n")
    assert second_kernel.check(DIGEST).stdout == plain
    second_kernel.check("assert opt.param_groups[0]['params'][0] is net[0].weight and epoch == 2")


def test_killed_in_mid_loop_and_resumed_in_a_terminal_nothing_is_lost_to_the_bit(
    kernel: Kernel, env: dict[str, str], plain: str, hold: Path
) -> None:
    sent = started(kernel, "killed", hold)
    assert gpufit(env, "checkpoint", "killed").returncode == 0
    os.kill(jobs(env)["killed"]["pid"], signal.SIGKILL)
    assert "saved at step 14; to go on from there: %gpufit resume killed" in kernel.finish(sent).traceback
    assert jobs(env)["killed"]["state"] == "lost"
    said = gpufit(env, "resume", "killed")
    assert said.returncode == 0 and "killed runs on cpu:" in said.stdout, said
    again = gpufit(env, "resume", "killed")
    assert again.returncode == 2 and "it is running" in again.stderr
    hold.touch()
    ran = kernel.check("%gpufit attach killed")
    assert ran.stdout.endswith("step 30\n")
    assert "killed goes on from its checkpoint at step 14; what follows may repeat lines from above." in ran.shown
    assert kernel.check(DIGEST).stdout == plain
    kernel.check("assert also is net")


def test_moved_to_the_other_slot_in_the_same_cell(kernel: Kernel, env: dict[str, str], plain: str, hold: Path) -> None:
    sent = started(kernel, "moving", hold, "--gpu cpu:0")
    before = jobs(env)["moving"]
    moved = gpufit(env, "move", "moving", "--to", "cpu:1")
    assert moved.returncode == 0 and "moving runs on cpu:1." in moved.stdout, moved
    job = jobs(env)["moving"]
    assert job["pid"] == before["pid"] and job["epoch"] == before["epoch"] + 1 and job["device"] == "cpu:1"
    [claim] = json.loads(gpufit(env, "status", "--json").stdout)["claims"]
    assert claim["devices"] == ["cpu:1"]
    again = gpufit(env, "move", "moving", "--to", "cpu:1")
    assert again.returncode == 2 and "it is on cpu:1 already" in again.stderr
    hold.touch()
    ran = kernel.finish(sent)
    assert ran.ok and ran.stdout.endswith("step 30\n")
    assert kernel.check(DIGEST).stdout == plain
    kernel.check("assert also is net")


def test_a_full_device_is_refused_and_two_jobs_with_room_swap(
    kernel: Kernel, second_kernel: Kernel, env: dict[str, str], plain: str, hold: Path
) -> None:
    first = started(kernel, "first", hold, "--gpu cpu:0 --memory 1GiB")
    second = started(second_kernel, "second", hold, "--gpu cpu:1")
    refused = gpufit(env, "move", "first")
    assert refused.returncode == 2 and "holds cpu:1" in refused.stderr and "first goes on as it was" in refused.stderr
    assert jobs(env)["first"]["state"] == "running"
    hold.touch()
    assert second_kernel.finish(second).ok and kernel.finish(first).ok
    hold.unlink()
    first = started(kernel, "one", hold, "--gpu cpu:0 --memory 1GiB")
    second = started(second_kernel, "two", hold, "--gpu cpu:1 --memory 1GiB")
    swapping = [typing(env, "move", name) for name in ("one", "two")]
    said = [one.communicate(timeout=TIMEOUT) for one in swapping]
    assert [one.returncode for one in swapping] == [0, 0], said
    found = jobs(env)
    assert (found["one"]["device"], found["two"]["device"]) == ("cpu:1", "cpu:0")
    hold.touch()
    assert kernel.finish(first).ok and second_kernel.finish(second).ok
    assert kernel.check(DIGEST).stdout == second_kernel.check(DIGEST).stdout == plain


def test_a_move_that_cannot_go_on_ends_its_process_and_can_be_resumed(
    kernel: Kernel, env: dict[str, str], plain: str, hold: Path
) -> None:
    kernel.check(SET_UP)
    gone = "def gone(*_): raise FileNotFoundError(2, 'No such file or directory')\nos.execve = gone\n"
    sent = kernel.send("%%gpufit train --name stuck\n" + gone + CELL.format(hold=str(hold)))
    kernel.until(sent, "step 14\n")
    assert gpufit(env, "move", "stuck").returncode == 0  # it says what became of the job
    assert "No such file or directory" in kernel.finish(sent).traceback  # where its Python was, by now
    hold.touch()
    kernel.check("%gpufit resume stuck")  # which the process would keep from having the job, and its devices
    assert kernel.check(DIGEST).stdout == plain


def test_three_buttons_at_once_and_an_interrupt_break_nothing(
    kernel: Kernel, env: dict[str, str], plain: str, hold: Path
) -> None:
    sent = started(kernel, "pressed", hold)
    pressing = [typing(env, verb, "pressed") for verb in ("checkpoint", "checkpoint", "release")]
    ended = [(one.communicate(timeout=TIMEOUT), one.returncode) for one in pressing]
    assert kernel.finish(sent).ok and jobs(env)["pressed"]["state"] == "released", ended
    assert ended[2][1] == 0, ended
    sent = kernel.send("%gpufit resume pressed")
    kernel.until(sent, "running on")
    saving = typing(env, "checkpoint", "pressed")
    kernel.until(sent, "saving")
    kernel.interrupt()
    ran = kernel.finish(sent)
    assert ran.ename == "KeyboardInterrupt" and "to go on from there: %gpufit resume pressed" in ran.shown
    saving.communicate(timeout=TIMEOUT)
    assert jobs(env)["pressed"]["state"] == "stopped"
    hold.touch()
    assert kernel.check("%gpufit resume pressed").stdout.endswith("step 30\n")
    assert kernel.check(DIGEST).stdout == plain


def test_a_thawed_worker_whose_job_goes_on_elsewhere_says_nothing_more(
    kernel: Kernel, env: dict[str, str], home: Path, plain: str, hold: Path
) -> None:
    sent = started(kernel, "frozen", hold)
    assert gpufit(env, "checkpoint", "frozen").returncode == 0
    job = jobs(env)["frozen"]
    root = home / ".local/share/gpufit/jobs" / job["id"]
    os.kill(job["pid"], signal.SIGSTOP)
    refused = gpufit(env, "resume", "frozen")
    assert refused.returncode == 2 and "it is running" in refused.stderr  # its lock says that it lives
    (root / "lock").unlink()  # as on another machine, to which the lock does not reach
    resumed = gpufit(env, "resume", "frozen")
    assert resumed.returncode == 0, resumed
    os.kill(job["pid"], signal.SIGCONT)
    until = time.monotonic() + TIMEOUT
    hold.touch()
    while Path(f"/proc/{job['pid']}/stat").exists() and " Z " not in Path(f"/proc/{job['pid']}/stat").read_text():
        assert time.monotonic() < until
        time.sleep(0.02)
    kernel.finish(sent)
    assert kernel.check("%gpufit attach frozen").stdout.endswith("step 30\n")
    assert kernel.check(DIGEST).stdout == plain
    assert jobs(env)["frozen"]["epoch"] == 2


def test_a_cell_without_a_safe_point_says_what_holds_it_up(kernel: Kernel, env: dict[str, str]) -> None:
    sent = kernel.send(
        "%%gpufit train --name stuck\nimport time\ndef slow(n):\n    print('in slow')\n    time.sleep(600)\n"
        "found = [slow(n) for n in range(2)]\n"
    )
    kernel.until(sent, "in slow")
    asking = typing(env, "checkpoint", "stuck")
    kernel.until(sent, "inside `slow` (line 5), called from a list comprehension (line 6)")
    kernel.interrupt()
    assert kernel.finish(sent).ename == "KeyboardInterrupt"
    asking.communicate(timeout=TIMEOUT)
    assert asking.returncode == 2
    assert jobs(env)["stuck"]["checkpoint"] is None


def test_what_cannot_be_saved_is_said_before_the_training(kernel: Kernel, env: dict[str, str], hold: Path) -> None:
    sent = kernel.send(
        "%%gpufit train --name locked\nimport threading, os, time\nlock = threading.Lock()\nprint('begun')\n"
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
        assert kernel.finish(sent).ok
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
    assert kernel.finish(sent).ok
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
    assert kernel.finish(sent).ok
    [checkpoint] = (home / ".local/share/gpufit/jobs" / jobs(env)["broken"]["id"] / "checkpoints").iterdir()
    for file in checkpoint.glob("*.safetensors"):
        with file.open("r+b") as opened:
            opened.seek(-1, os.SEEK_END)
            byte = opened.read(1)
            opened.seek(-1, os.SEEK_END)
            opened.write(bytes([byte[0] ^ 1]))
    ran = kernel.run("%gpufit resume broken")
    assert not ran.ok and "no checkpoint of it is whole" in ran.traceback and "gpufit resume broken" in ran.traceback
    assert "A checkpoint was passed over" in ran.shown
    assert jobs(env)["broken"]["state"] == "failed" and checkpoint.exists()
    assert json.loads(gpufit(env, "status", "--json").stdout)["claims"] == []


def test_a_resumed_job_queues_as_any_other_and_can_give_its_place_up_again(
    kernel: Kernel, second_kernel: Kernel, env: dict[str, str], plain: str, hold: Path
) -> None:
    sent = started(kernel, "patient", hold, "--gpu cpu:0")
    assert gpufit(env, "release", "patient").returncode == 0
    assert kernel.finish(sent).ok
    held = second_kernel.send(
        "%%gpufit train --name holder --gpu cpu:0\nimport time\nprint('holding')\nwhile True: time.sleep(0.1)\n"
    )
    second_kernel.until(held, "holding")
    resumed = gpufit(env, "resume", "patient")
    assert resumed.returncode == 0 and "patient waits: " in resumed.stdout, resumed
    assert "holder holds cpu:0" in resumed.stdout
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
    assert kernel.finish(sent).ok
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
    assert kernel.finish(sent).ok
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

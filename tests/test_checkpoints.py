"""Checkpoint, release, move and resume: real kernels, workers, signals and disks; results compared to the bit."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import anyio
import pytest

from tests.command_line import gpufit, jobs, killed_with_its_variables, typing, until_gone, until_running
from tests.held_training import CELL, DIGEST, SET_UP, started
from tests.kernels import TIMEOUT, Kernel

pytestmark = [pytest.mark.slow(10), pytest.mark.usefixtures("no_worker_outlives_its_test")]


@pytest.mark.slow(10)
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
    kernel.send("behind = net")  # as Run All does
    said = gpufit(env, "release", "left")
    assert said.returncode == 0, said.stderr
    ran = kernel.finish(sent)
    assert ran.released and "⏏ left: released at step 14; `%gpufit resume left` goes on" in ran.shown
    kernel.check("assert 'behind' not in globals(), 'it would have seen the variables of before the cell'")
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
    assert (
        "it has ended well. Its output, and its variables if no notebook has them: %gpufit attach"
        in kernel.run("%gpufit resume left").evalue
    )
    refused = gpufit(env, "checkpoint", "left")
    assert refused.returncode == 2 and "left is done, so there is nothing to save" in refused.stderr
    assert "goes on as it was" not in refused.stderr
    assert "No job of yours runs." in gpufit(env, "checkpoint").stderr


def test_it_goes_back_to_an_earlier_checkpoint_and_ends_the_same(
    kernel: Kernel, env: dict[str, str], plain: str, hold: Path
) -> None:
    log = hold.with_suffix(".log")
    kernel.check(SET_UP + f"log = open({str(log)!r}, 'w')")
    sent = kernel.send(
        "%%gpufit train --name back\n"
        + CELL.replace("== 14", "in (6, 14)").replace("{hold!r}", f"f'{hold}-{{len(losses)}}'")
        + "        log.write(losses[-1] + '\\n'); log.flush()\n"
    )
    kernel.until(sent, "step 6\n")
    assert gpufit(env, "checkpoint", "back").returncode == 0
    hold.with_name(f"{hold.name}-6").touch()
    kernel.until(sent, "step 14\n")
    assert gpufit(env, "release", "back").returncode == 0
    assert kernel.finish(sent).released
    assert len(log.read_text().splitlines()) == 13
    hold.with_name(f"{hold.name}-14").touch()

    refused = gpufit(env, "resume", "back", "--from", "9")
    assert refused.returncode == 2 and "no checkpoint of step 9. There are: step 14, step 6." in refused.stderr
    ran = kernel.check("%gpufit resume --from 6 back")

    assert "goes on from step 6" in ran.shown and "8 steps since then are trained again" in ran.shown
    assert ran.stdout.startswith("step 7\n") and ran.stdout.endswith("step 30\n")
    assert kernel.check(DIGEST).stdout == plain
    kernel.check("assert also is net; log.close()")
    assert log.read_text().split() == kernel.check("print(*losses)").stdout.split()


def test_names_that_were_defined_anew_are_bound_to_what_a_resume_has_trained(
    kernel: Kernel, env: dict[str, str], plain: str, hold: Path
) -> None:
    sent = started(kernel, "anew", hold)
    assert gpufit(env, "release", "anew").returncode == 0
    assert kernel.finish(sent).released
    hold.touch()
    kernel.check("first = net, loader, data\n" + SET_UP + "other = loader, data")
    ran = kernel.check("%gpufit resume anew")
    assert "net, opt, losses: the trained ones of job anew replaced those that you had defined since." in ran.shown
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
    assert "You defined net, losses again while beside ran, so they were left as you" in ran.shown, ran.shown
    kernel.check("assert net is None")
    ran = kernel.check("%gpufit attach --again beside")
    assert "These are now the trained ones of beside: net, losses." in ran.shown, ran.shown
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
    assert kernel.finish(sent).released
    hold.touch()
    ran = kernel.check("%gpufit resume bar")
    assert ran.stdout.endswith("step 29\n") and "30/30" in ran.stderr


def test_a_figure_and_a_disabled_scaler_are_released_and_go_on(
    kernel: Kernel, env: dict[str, str], home: Path, request: pytest.FixtureRequest
) -> None:
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
    assert kernel.finish(sent).released
    hold.touch()
    assert kernel.check("%gpufit resume fig").stdout.endswith("step 8\n")
    kernel.check("low, high = ax.get_ylim(); assert 7 < low < 8 and 10 < high < 11 and ax.figure is fig")


def test_released_and_resumed_in_a_new_kernel_the_variables_come(
    second_kernel: Kernel, env: dict[str, str], plain: str, hold: Path
) -> None:
    sent = started(second_kernel, "restarted", hold)
    assert gpufit(env, "release", "restarted").returncode == 0
    assert second_kernel.finish(sent).released
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


def test_the_first_resume_of_a_small_training_claims_no_less_than_a_start_gives_on_a_slot(
    kernel: Kernel, env: dict[str, str], hold: Path
) -> None:
    """After so many steps it goes by what they took, which beside small tensors is mostly Python's own."""
    kernel.check(SET_UP)
    longer = CELL.replace("range(3)", "range(15)").replace("== 14", "== 120").format(hold=str(hold))
    sent = kernel.send("%%gpufit train --name small\n" + longer)
    kernel.until(sent, "step 120\n")
    said = gpufit(env, "release", "small")
    assert said.returncode == 0 and kernel.finish(sent).released, said
    hold.touch()
    ran = kernel.check("%gpufit resume small")
    assert "It needs 512.0 MiB, the least on a slot: " in ran.shown
    assert ran.stdout.endswith("step 150\n") and "were claimed for it" not in ran.shown


def test_killed_between_its_end_and_the_way_of_its_variables_it_is_not_done(
    kernel: Kernel, env: dict[str, str], home: Path, plain: str, hold: Path
) -> None:
    kernel.check(SET_UP)
    kernel.check("%%gpufit train --detach --name unheard\n" + CELL.format(hold=str(hold)))
    anyio.run(until_running, home, "unheard")
    assert gpufit(env, "checkpoint", "unheard").returncode == 0
    anyio.run(killed_with_its_variables, home, "unheard", hold.touch)
    deadline = time.monotonic() + TIMEOUT
    while jobs(env)["unheard"]["state"] != "lost":  # its lock goes a moment after it, with its last child
        assert time.monotonic() < deadline
    assert "to go on from there: %gpufit resume unheard" in kernel.run("%gpufit attach unheard").traceback
    kernel.check("%gpufit resume unheard")
    assert kernel.check(DIGEST).stdout == plain
    assert jobs(env)["unheard"]["state"] == "done"


@pytest.mark.slow(10)
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


@pytest.mark.slow(21)
def test_a_full_device_is_refused_and_two_jobs_with_room_swap(
    kernel: Kernel, second_kernel: Kernel, env: dict[str, str], plain: str, hold: Path
) -> None:
    first = started(kernel, "first", hold, "--gpu cpu:0 --memory 1GiB")
    second = started(second_kernel, "second", hold, "--gpu cpu:1")
    refused = gpufit(env, "move", "first")
    assert refused.returncode == 2
    assert "has held cpu:1" in refused.stderr and "first goes on as it was" in refused.stderr
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
    assert kernel.finish(sent).released and jobs(env)["pressed"]["state"] == "released", ended
    assert ended[2][1] == 0, ended
    sent = kernel.send("%gpufit resume pressed")
    kernel.until(sent, "running on")
    saving = typing(env, "checkpoint", "pressed")
    kernel.until(sent, "saving")
    kernel.interrupt()
    ran = kernel.finish(sent)
    assert ran.ename == "KeyboardInterrupt" and "to go on from there: `%gpufit resume pressed`" in ran.shown
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
    hold.touch()
    until_gone(job["pid"])
    kernel.finish(sent)
    assert kernel.check("%gpufit attach frozen").stdout.endswith("step 30\n")
    assert kernel.check(DIGEST).stdout == plain
    assert jobs(env)["frozen"]["epoch"] == 2


BESIDE = """
import time
from pathlib import Path

def run(steps, hold, model, opt, x):
    losses = []
    for step in range(steps):
        loss = (model(x) ** 2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        losses.append(loss.item())
        print("step", step, flush=True)
        while step == 3 and not Path(hold).exists():
            time.sleep(0.05)
    return losses
"""


def test_a_loop_in_a_module_beside_the_notebook_is_released_and_goes_on(
    kernel: Kernel, env: dict[str, str], tmp_path: Path
) -> None:
    hold = tmp_path / "hold"
    (tmp_path / "beside_it.py").write_text(BESIDE)
    kernel.check(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport beside_it, torch")
    made = "torch.manual_seed(1); model = torch.nn.Linear(3, 2); x = torch.randn(4, 3)\n"
    made += "opt = torch.optim.AdamW(model.parameters(), lr=0.1)"
    kernel.check(made)
    run = f"beside_it.run(8, {str(hold)!r}, model, opt, x)"
    sent = kernel.send(f"%%gpufit train --name beside --memory 1GiB\nlosses = {run}")
    kernel.until(sent, "step 3\n")
    assert gpufit(env, "release", "beside").returncode == 0
    assert kernel.finish(sent).released
    hold.touch()
    ran = kernel.check("%gpufit resume beside")
    assert "not to the bit" not in ran.shown and "step 0" not in ran.stdout
    kernel.check("resumed, weights = losses, [p.detach().clone() for p in model.parameters()]")
    kernel.check(f"{made}\nagain = {run}")
    kernel.check("assert resumed == again and all(map(torch.equal, weights, model.parameters()))")

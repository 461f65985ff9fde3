"""What happens around a cell: interrupts, restarts, kills, waiting, attaching, stopping. Real kernels and signals."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import stat
import subprocess
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import anyio
import psutil
import pytest

from jupyter_gpufit.actions.facts import read_facts
from jupyter_gpufit.jobs.store import find_job
from jupyter_gpufit.settings import Settings
from tests.command_line import gpufit, jobs, until_ended
from tests.kernels import TIMEOUT, Kernel, environment, running_kernel

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_worker_outlives_its_test")]

# Each tick is announced, so that a test can wait for the cell to be in its loop instead of sleeping.
LOOP = "import time\nfor tick in range({ticks}):\n    print('tick', tick)\n    time.sleep(0.1)\n"


@pytest.mark.slow(10)
def test_the_stop_button_interrupts_the_training_and_shows_where(kernel: Kernel) -> None:
    sent = kernel.send("%%gpufit train --name stopped\n" + LOOP.format(ticks=600))
    kernel.until(sent, "tick 2")
    kernel.interrupt()
    ran = kernel.finish(sent)
    assert ran.ename == "KeyboardInterrupt" and "time.sleep(0.1)" in ran.traceback
    kernel.check("assert 2 <= tick < 600")


def test_the_stop_button_ends_the_waiting_of_a_queued_cell(kernel: Kernel, second_kernel: Kernel) -> None:
    held = second_kernel.send("%%gpufit train --name holder --gpu cpu:0\n" + LOOP.format(ticks=600))
    second_kernel.until(held, "tick 0")
    sent = kernel.send("%%gpufit train --name waiter --gpu cpu:0\nprint('began')\n")
    ran = kernel.until(sent, "has held cpu:0")
    assert "holder" in ran.shown  # the reason names who is in the way
    assert re.search(r"has held cpu:0 \([^)]*\) since \d\d:\d\d", ran.shown)  # which stays true while the line stands
    kernel.interrupt()
    ran = kernel.finish(sent)
    assert ran.ename == "KeyboardInterrupt" and "began" not in ran.stdout
    second_kernel.interrupt()
    second_kernel.finish(held)


def test_a_second_notebook_waits_and_goes_on_when_the_first_ends(
    kernel: Kernel, second_kernel: Kernel, env: dict[str, str]
) -> None:
    first = second_kernel.send("%%gpufit train --name first --gpu cpu:1\n" + LOOP.format(ticks=600))
    second_kernel.until(first, "tick 0")
    second = kernel.send("%%gpufit train --name second --gpu cpu:1\nprint('my turn')\n")
    kernel.until(second, "queued")
    second_kernel.interrupt()
    assert second_kernel.finish(first).ename == "KeyboardInterrupt"
    assert kernel.finish(second).stdout == "my turn\n"
    assert {name: jobs(env)[name]["device"] for name in ("first", "second")} == {"first": "cpu:1", "second": "cpu:1"}
    job, paths = find_job(Settings(data=str(Path(env["HOME"], ".local/share/gpufit"))), "second")
    made_with = {one.name: one.version for one in read_facts(job, paths).versions}
    assert made_with["Python"] == platform.python_version() and made_with["torch"] == version("torch")


def test_a_killed_holder_frees_its_device_at_once(kernel: Kernel, second_kernel: Kernel, env: dict[str, str]) -> None:
    first = second_kernel.send("%%gpufit train --name killed --gpu cpu:1\n" + LOOP.format(ticks=600))
    second_kernel.until(first, "tick 0")
    second = kernel.send("%%gpufit train --name next --gpu cpu:1\nprint('my turn')\n")
    kernel.until(second, "queued")
    os.kill(jobs(env)["killed"]["pid"], signal.SIGKILL)
    assert kernel.finish(second).stdout == "my turn\n"
    assert "SIGKILL" in second_kernel.finish(first).traceback
    assert jobs(env)["killed"]["state"] == "lost"


def test_a_kernel_restart_leaves_the_training_running_and_attach_brings_all(
    second_kernel: Kernel, home: Path, env: dict[str, str]
) -> None:
    second_kernel.check("import torch\nnet = torch.nn.Linear(2, 2); start = net.weight.detach().clone()")
    go = home / "go on"
    sent = second_kernel.send(
        "%%gpufit train --name survivor\nimport os, time\nprint('in the loop')\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
        "with torch.no_grad(): net.weight.add_(1)\n"
        "print('at the end')\n"
    )
    second_kernel.until(sent, "in the loop")
    pid = jobs(env)["survivor"]["pid"]
    second_kernel.restart()
    assert psutil.pid_exists(pid) and jobs(env)["survivor"]["state"] == "running"
    second_kernel.check("assert 'net' not in globals()")
    attached = second_kernel.send("%gpufit attach survivor")
    second_kernel.until(attached, "in the loop")
    go.touch()
    ran = second_kernel.finish(attached)
    assert ran.ok and ran.stdout.endswith("at the end\n")
    second_kernel.check("assert type(net).__name__ == 'Linear' and net.weight.shape == (2, 2)")


def test_the_variables_of_a_job_that_ended_alone_come_with_attach(second_kernel: Kernel, home: Path) -> None:
    second_kernel.check("import torch\nkept = torch.zeros(3)\nsame = kept\n")
    ran = second_kernel.check(
        "%%gpufit train --detach --name alone\nkept += 1\nmade = {'k': kept}\nprint('done alone')\n"
    )
    assert any("application/vnd.jupyter.widget-view+json" in display for display in ran.displays)
    anyio.run(until_ended, home, "alone")
    assert "done alone" in second_kernel.check("%gpufit attach alone").stdout
    second_kernel.check("assert same.tolist() == [1, 1, 1] and made['k'] is kept and kept is same")
    second_kernel.restart()  # what is on the disk also serves a kernel that never had the objects
    second_kernel.check("%gpufit attach alone")
    second_kernel.check("assert kept.tolist() == [1, 1, 1] and made['k'] is kept")


def test_a_job_whose_variables_another_kernel_took_says_so(kernel: Kernel, second_kernel: Kernel) -> None:
    kernel.check("%%gpufit train --name taken\ngiven = 1\n")
    ran = second_kernel.check("%gpufit attach taken")
    assert "not in this one" in ran.shown
    second_kernel.check("assert 'given' not in globals()")


def test_stop_from_a_terminal_ends_a_blocking_cell(kernel: Kernel, env: dict[str, str]) -> None:
    sent = kernel.send("%%gpufit train --name far\n" + LOOP.format(ticks=600))
    kernel.until(sent, "tick 0")
    stopped = gpufit(env, "stop", "far")
    assert stopped.returncode == 0 and "far: interrupted" in stopped.stdout and "far: ended" in stopped.stdout
    assert kernel.finish(sent).ename == "KeyboardInterrupt"
    assert jobs(env)["far"]["state"] == "stopped"


def test_the_stop_ladder_ends_a_cell_that_shrugs_off_interrupts(kernel: Kernel, env: dict[str, str]) -> None:
    sent = kernel.send(
        "%%gpufit train --name stubborn\n"
        "import time\n"
        "print('deaf')\n"
        "while True:\n"
        "    try: time.sleep(600)\n"
        "    except KeyboardInterrupt: print('never')\n"
    )
    kernel.until(sent, "deaf")
    stopped = gpufit(env | {"GPUFIT_STOP_PATIENCE": "4"}, "stop", "stubborn")
    assert "stubborn: asked to end" in stopped.stdout and "stubborn: ended" in stopped.stdout
    ran = kernel.finish(sent)
    assert not ran.ok and "never" in ran.stdout
    assert jobs(env)["stubborn"]["state"] == "stopped"


def test_a_cell_that_uses_up_all_descriptors_trains_on_to_its_end(
    kernel: Kernel, home: Path, env: dict[str, str]
) -> None:
    go = str(home / "go on, though none is free")
    sent = kernel.send(
        "%%gpufit train --name greedy\nimport os, resource, time\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "held = []\n"
        "def use_up():\n"
        "    try:\n        while True: held.append(os.open('/dev/null', os.O_RDONLY))\n"
        "    except OSError: pass\n"
        "use_up(); print('used up')\n"
        f"while not os.path.exists({go!r}): use_up(); time.sleep(0.02)\n"  # also what another thread had for a moment
    )
    kernel.until(sent, "used up")
    log = home / ".local/share/gpufit/jobs" / jobs(env)["greedy"]["id"] / "worker.log"
    until = time.monotonic() + TIMEOUT
    while "Too many open files" not in log.read_text():  # whoever marks its progress has met it
        assert time.monotonic() < until
        time.sleep(0.05)
    Path(go).touch()
    assert kernel.finish(sent).ok
    kernel.check("assert len(held) > 100")
    assert jobs(env)["greedy"]["state"] == "done"


def test_a_disk_that_is_full_at_the_start_is_said_and_no_job_seems_to_start(
    kernel: Kernel, env: dict[str, str]
) -> None:
    kernel.check(
        "from unittest import mock\nfull = OSError(28, 'No space left on device')\n"
        "full = mock.patch('jupyter_gpufit.engine.local.note_start', side_effect=full); full.start()"
    )
    ran = kernel.run("%%gpufit train --name nowhere\npass\n")
    kernel.check("full.stop()")
    assert "cannot be written (No space left on device)" in ran.traceback and "Traceback" not in ran.traceback
    assert jobs(env)["nowhere"]["state"] == "lost"


def test_a_defect_of_ours_ends_the_worker_along_with_its_claim(kernel: Kernel) -> None:
    sent = kernel.send(
        "%%gpufit train --name broken\nimport os, time, jupyter_gpufit.worker.vitals\n"
        "jupyter_gpufit.worker.vitals.Memory = None\nprint('worker', os.getpid())\nwhile True: time.sleep(0.02)\n"
    )
    pid = int(kernel.until(sent, "worker ").stdout.split()[1])
    assert "jupyter_gpufit itself failed" in kernel.finish(sent).traceback
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(60)  # it would compute on a device that is another's by now


def test_three_interrupts_end_a_stubborn_cell(kernel: Kernel) -> None:
    sent = kernel.send(
        "%%gpufit train\nimport time\nprint('deaf')\n"
        "while True:\n    try: time.sleep(600)\n    except KeyboardInterrupt: print('shrug')\n"
    )
    kernel.until(sent, "deaf")
    kernel.interrupt()
    kernel.until(sent, "shrug")
    kernel.interrupt()
    kernel.until(sent, "Interrupt once more")
    kernel.interrupt()
    assert not kernel.finish(sent).ok


def test_jobs_and_status_tell_a_running_job(kernel: Kernel, env: dict[str, str]) -> None:
    kernel.check("import torch\nlayer = torch.nn.Linear(1, 1); sgd = torch.optim.SGD(layer.parameters(), 0.1)")
    sent = kernel.send(
        "%%gpufit train --name shown --gpu cpu:0\nimport time\n"
        "for _ in range(7): layer(torch.ones(1, 1)).sum().backward(); sgd.step()\n"
        "while True:\n    print('seven steps'); time.sleep(0.2)\n"
    )
    kernel.until(sent, "step 7")  # the status line counts optimizer steps
    job = jobs(env)["shown"]
    assert job["state"] == "running" and job["device"] == "cpu:0" and job["epoch"] == 1 and job["step"] == 7
    assert psutil.Process(job["pid"]).is_running() and len(job["id"]) == 6
    status = gpufit(env, "status").stdout
    assert "cpu:0" in status and "cpu:1" in status and "shown" in status
    kernel.interrupt()
    kernel.finish(sent)


def test_a_spare_worker_starts_the_cell_and_follows_the_notebook(kernel: Kernel) -> None:
    kernel.check("import os\nos.environ['MY_OWN'] = 'value'\nos.makedirs('sub', exist_ok=True); os.chdir('sub')")
    ran = kernel.check(
        "%%gpufit train\nimport os, sys\nprint(os.environ['MY_OWN'], os.path.basename(os.getcwd()))\n"
        # What is set for the process itself is none of the cell's.
        "print('GLIBC_TUNABLES' in os.environ, b'x86_non_temporal' in open('/proc/self/environ', 'rb').read())\n"
    )
    kernel.check("os.chdir('..'); del os.environ['MY_OWN']")
    assert ran.stdout == "value sub\nFalse True\n"


@pytest.mark.parametrize("within", ["a subshell, as JupyterLab asks", "the kernel's own thread"])
def test_widgets_of_other_cells_answer_while_a_cell_waits(kernel: Kernel, within: str) -> None:
    subshell = kernel.new_subshell() if within.startswith("a subshell") else None
    if subshell is None and tuple(map(int, version("ipykernel").split(".")[:2])) < (7, 4):
        pytest.skip("ipykernel before 7.4 has no time for it there, nor would it beside a plain cell")
    kernel.check(
        "import ipywidgets, pathlib\nbutton = ipywidgets.Button(); clicked = pathlib.Path('clicked').resolve()\n"
        "clicked.unlink(missing_ok=True)\n"
        "clicks = []; button.on_click(lambda _: (clicks.append(1), clicked.touch()))\n"
    )
    comm = kernel.check("print(button.comm.comm_id)").stdout.strip()
    sent = kernel.send(
        "%%gpufit train --name blocking\nimport time\nprint('before the click')\n"
        "while not clicked.exists(): time.sleep(0.02)\nprint('after the click')\n"
    )
    kernel.until(sent, "before the click")
    message = kernel.client.session.msg(
        "comm_msg", {"comm_id": comm, "data": {"method": "custom", "content": {"event": "click"}}}
    )
    message["header"] |= {"subshell_id": subshell} if subshell else {}
    kernel.client.shell_channel.send(message)
    ran = kernel.finish(sent)
    assert ran.ok and "after the click" in ran.stdout
    kernel.check("assert len(clicks) == 1")


def test_nothing_is_readable_or_reachable_by_others(kernel: Kernel, home: Path, env: dict[str, str]) -> None:
    sent = kernel.send("%%gpufit train --name private\n" + LOOP.format(ticks=600))
    kernel.until(sent, "tick 0")
    socket = home / "run" / "gpufit" / f"{jobs(env)['private']['id']}.sock"
    assert stat.filemode(socket.stat().st_mode) == "srw-------"
    root = home / ".local" / "share" / "gpufit" / "jobs" / str(jobs(env)["private"]["id"])
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    kernel.interrupt()
    kernel.finish(sent)


def test_what_the_cell_left_for_the_exit_is_done_and_the_worker_is_gone(kernel: Kernel, home: Path) -> None:
    kernel.check("before = open('before.txt', 'w'); before.write('setup\\n')")
    ran = kernel.check(
        "%%gpufit train --name tidy\n"
        "import atexit, multiprocessing, os, time\n"
        "log = open('log.csv', 'w'); log.write('a,b\\n')\n"
        "before.write('cell\\n')\n"
        "atexit.register(lambda: open('at exit', 'w').write('done'))\n"
        "child = multiprocessing.Process(target=time.sleep, args=(1000,), daemon=True); child.start()\n"
        "pids = os.getpid(), child.pid\n"
    )
    assert "log" not in ran.shown  # as after a cell without its first line, it is open in the notebook
    kernel.check("log.write('c,d\\n'); log.close(); before.write('after\\n'); before.close()")
    pids = json.loads(kernel.check("print(list(pids))").stdout)
    kernel.check("%%gpufit train --gpu cpu:0\npass\n")  # the slots are free again, both
    kernel.check("%%gpufit train --gpu cpu:1\npass\n")
    until = time.monotonic() + TIMEOUT
    while any(psutil.pid_exists(pid) for pid in pids):
        assert time.monotonic() < until, pids
        time.sleep(0.02)
    assert (home / "log.csv").read_text() == "a,b\nc,d\n"
    assert (home / "before.txt").read_text() == "setup\ncell\nafter\n" and (home / "at exit").read_text() == "done"


@pytest.mark.parametrize("moment", ["job.json", "lock", "state.json", "journal.jsonl"])
def test_an_interrupt_in_the_first_moment_is_kept(kernel: Kernel, home: Path, moment: str) -> None:
    """As soon as there is a job, that is: until the magic itself runs, ipykernel has the interrupt, and drops it."""

    def reached() -> set[Path]:
        return set((home / ".local/share/gpufit/jobs").glob(f"*/{moment}"))

    before, until = reached(), time.monotonic() + TIMEOUT
    sent = kernel.send("%%gpufit train\nimport time\ntime.sleep(600)\n")
    while reached() <= before:
        assert time.monotonic() < until
        time.sleep(0.001)
    kernel.interrupt()
    assert kernel.finish(sent).ename == "KeyboardInterrupt"


def test_stop_in_the_first_moment_waits_for_the_worker(kernel: Kernel, env: dict[str, str]) -> None:
    kernel.check("%%gpufit train --detach --name early\nimport time\ntime.sleep(600)\n")
    stopped = gpufit(env, "stop", "early")
    assert "early: interrupted" in stopped.stdout and "SIG" not in stopped.stdout, stopped.stdout
    assert jobs(env)["early"]["state"] == "stopped"


def test_attach_does_not_undo_what_came_since(kernel: Kernel, home: Path) -> None:
    kernel.check("%%gpufit train --detach --name twice\nvalue = [1]\n")
    anyio.run(until_ended, home, "twice")
    kernel.check("%gpufit attach twice")
    kernel.check("value.append(2); mine = value")
    assert "attach --again twice" in kernel.check("%gpufit attach twice").shown
    kernel.check("assert value is mine and value == [1, 2]")
    kernel.check("%gpufit attach --again twice")
    kernel.check("assert value == [1]")


def test_no_job_leaves_memory_files_or_a_zombie_in_the_kernel(kernel: Kernel) -> None:
    kernel.check("import torch\nhuge = torch.ones(10_000_000)")
    kernel.check(
        "import gc, os, psutil, time\n"
        "def memories():\n"
        "    fds = [f'/proc/self/fd/{fd}' for fd in os.listdir('/proc/self/fd')]\n"
        "    return [fd for fd in fds if os.path.exists(fd) and 'memfd:gpufit' in os.readlink(fd)]\n"
        "def zombies(): return [c for c in psutil.Process().children() if c.status() == 'zombie']\n"
        "before = set(memories())\n"  # of detached jobs, whose variables may still be asked for
    )
    for cell in ("huge += 1", "huge += 1; 1 / 0", "import os, signal; huge += 1; os.kill(os.getpid(), signal.SIGKILL)"):
        kernel.run(f"%%gpufit train\n{cell}\n")
    kernel.check(
        "gc.collect(); until = time.time() + 300\n"
        "while set(memories()) - before or zombies():\n"
        "    assert time.time() < until, (memories(), before, zombies())\n"
        "    time.sleep(0.1)\n"
    )


def test_a_worker_of_another_version_is_left_alone_and_the_way_out_is_said(kernel: Kernel, home: Path) -> None:
    kernel.check("%%gpufit train --name older\npass\n")
    for file in (home / ".local/share/gpufit/jobs").glob("*/state.json"):
        if json.loads((file.parent / "job.json").read_text())["name"] == "older":
            file.write_text(json.dumps(json.loads(file.read_text()) | {"version": "9.9.9"}))
    ran = kernel.run("%gpufit attach older")
    assert ran.ename == "VersionDiffers" and "9.9.9" in ran.traceback and "restart the kernel" in ran.traceback


def test_clean_removes_what_has_ended_and_nothing_else(kernel: Kernel, env: dict[str, str]) -> None:
    sent = kernel.send("%%gpufit train --name staying\n" + LOOP.format(ticks=600))
    kernel.until(sent, "tick 0")
    refused = gpufit(env, "clean", "staying")
    assert refused.returncode == 2 and "still running" in refused.stderr
    assert gpufit(env, "clean").returncode == 0
    assert set(jobs(env)) == {"staying"}
    kernel.interrupt()
    kernel.finish(sent)


def test_a_full_disk_does_not_stop_the_training_and_the_loss_is_said(home: Path, tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("NEEDS ROOT: mounts a small tmpfs to fill it")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"CANNOT MOUNT a small tmpfs here: {mounted.stderr.decode().strip()}")
    try:
        with running_kernel(environment(home, GPUFIT_DATA=str(tmp_path)), home) as kernel:
            ran = kernel.check(
                "%%gpufit train\nimport sys, time\nfor part in range(30):\n    print(str(part) + ' ' + 'x' * 100_000)\n"
                "    time.sleep(0.06)\nlast = part\n"
            )
            assert "outputs are missing here: No space left on device" in ran.shown
            kernel.check("assert last == 29")
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)

"""`gpufit run`: the queue and its claims for whoever works in a terminal. Real processes and signals."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpufit.devices.nvml import NvmlCode
from jupyter_gpufit.system.users import others_have_accounts
from jupyter_gpufit.terminal.run import name_of
from tests.fake_nvml import FakeNvml, Gpu, fake_uuid
from tests.people import ADA, BOB, HOLD, PATIENCE, Town

SHOW = "echo $CUDA_VISIBLE_DEVICES/$CUDA_DEVICE_ORDER/$GPUFIT_DEVICE/$GPUFIT_MEMORY"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --lr 3", "train"),
        ("/usr/bin/python3.11 -u src/fit.py", "fit"),
        ("python -m pkg.train", "pkg.train"),
        ("torchrun --nproc-per-node 2 big.py", "big"),
        ("python -c pass.py", "python"),
        ("./make data.py", "make"),
    ],
)
def test_a_job_is_called_after_its_script(command: str, name: str) -> None:
    assert name_of(command.split()) == name


@pytest.mark.slow
def test_a_slot_shows_no_gpu_and_says_that_it_limits_nothing(town: Town) -> None:
    run = town.types("run", "--memory", "1GiB", "--", "bash", "-c", f"{SHOW}; exit 3")
    assert run.end() == 3
    assert run.out.text == f"/PCI_BUS_ID/cpu:0/{1 << 30}\n"
    assert "bash runs on cpu:0 (1.0 GiB)." in run.err.text and "whether it takes more is up to it" in run.err.text
    assert "Claims are private to you" not in run.err.text  # nobody else would share a slot


@pytest.fixture
def gpus(town: Town, fake_nvml: FakeNvml) -> Iterator[FakeNvml]:
    """Two GPUs, and a CUDA_VISIBLE_DEVICES inherited from elsewhere."""
    fake_nvml.show(Gpu(), Gpu())
    nvml = {name: value for name, value in fake_nvml.env.items() if name.startswith(("LD_", "FAKE_"))}
    town.devices, town.more = "", {**nvml, "CUDA_VISIBLE_DEVICES": "0"}
    yield fake_nvml


@pytest.fixture
def gate(folder: Path) -> Path:
    """A FIFO at which a command waits until the test writes to it."""
    os.mkfifo(folder / "gate")
    return folder / "gate"


@pytest.mark.slow
def test_gpus_are_named_by_uuid_over_what_was_inherited(town: Town, gpus: FakeNvml) -> None:
    assert town.asks("run", "--gpu", "1", "--", "bash", "-c", SHOW).startswith(f"{fake_uuid(1)}/PCI_BUS_ID/1/")
    assert town.asks("run", "--gpus", "2", "--", "bash", "-c", SHOW).startswith(f"{fake_uuid(0)},{fake_uuid(1)}/")


@pytest.mark.slow
def test_who_shares_gpus_with_others_is_told_that_their_claims_are_private(town: Town, gpus: FakeNvml) -> None:
    runs = [town.types("run", "--", "true") for _ in range(2)]
    assert [run.end() for run in runs] == [0, 0]
    assert sum(run.err.text.count("Claims are private to you") for run in runs) == others_have_accounts()  # once


@pytest.mark.slow
def test_a_gpu_that_is_lost_is_named_when_the_command_failed(town: Town, gpus: FakeNvml, gate: Path) -> None:
    run = town.types("run", "--gpu", "0", "--", "bash", "-c", f"echo holding; read < {gate}; exit 1")
    run.hear("holding")
    gpus.show(Gpu(errors={"*": NvmlCode.GPU_IS_LOST}), Gpu())
    gate.write_text("go on")
    assert run.end() == 1
    assert "GPU 0 has a problem: GPU is lost" in run.err.text


@pytest.mark.slow
def test_waits_with_the_reason_and_starts_when_the_holder_ends(town: Town) -> None:
    holder = town.holds("first", "--gpus", "2")
    waiter = town.types("run", "--name", "second", "--", "echo", "my turn")
    waiter.hear("your first (bash -c")
    waiter.hear("has held cpu:0 and cpu:1 (all of it)")
    assert "my turn" not in waiter.out.text
    holder.signal(signal.SIGTERM)
    assert (waiter.end(), holder.end()) == (0, 128 + signal.SIGTERM)
    assert waiter.out.text == "my turn\n"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_waiting_at_once(town: Town, number: signal.Signals) -> None:
    town.holds("first", "--gpus", "2")
    waiter = town.types("run", "--", "echo", "my turn")
    waiter.hear("you are 1st of 1")
    waiter.signal(number)
    assert waiter.end() == 128 + number
    assert "left the queue" in waiter.err.text and not waiter.out.text
    assert json.loads(town.asks("queue", "--json")) == []


@pytest.mark.slow
def test_a_signal_for_us_alone_reaches_the_command(town: Town) -> None:
    command = "trap 'echo got it; exit 7' TERM; echo holding; while :; do sleep 0.01; done"
    run = town.types("run", "--", "bash", "-c", command)
    run.hear("holding")
    run.signal(signal.SIGTERM)
    assert run.end() == 7 and "got it" in run.out.text


@pytest.mark.slow
def test_a_command_that_was_killed_is_told_as_a_shell_does(town: Town) -> None:
    assert town.types("run", "--", "bash", "-c", "kill -9 $$").end() == 128 + signal.SIGKILL


@pytest.mark.slow
def test_the_claim_lives_as_long_as_the_command(town: Town) -> None:
    run = town.holds("orphan")
    run.signal(signal.SIGKILL)
    assert run.code is None
    [claim] = json.loads(town.asks("status", "--json"))["claims"]
    assert claim["name"] == "orphan"
    assert "orphan: released" in town.asks("release", "orphan")
    assert json.loads(town.asks("status", "--json"))["claims"] == []


COUNT = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # none is lost that comes before it is waited for
print("tty" if sys.stdin.isatty() else "no tty", flush=True)
signal.sigwaitinfo({signal.SIGINT})
print("interrupted", flush=True)
input()
print(1 + (signal.SIGINT in signal.sigpending()), "in all", flush=True)
"""


@pytest.mark.slow
def test_the_terminal_is_the_commands(town: Town) -> None:
    """Typed in a real terminal: Ctrl-C reaches the command once, and the waiting line is rewritten in place."""
    holder = town.holds("first", "--gpus", "2")
    env = town.env()
    pid, terminal = pty.fork()
    if pid == 0:
        arguments = ["run", "--name", "tty", "--", sys.executable, "-c", COUNT]
        os.execve(sys.executable, [sys.executable, "-m", "jupyter_gpufit.terminal.cli", *arguments], env)
    shown = _until(terminal, "you are 1st of 1")
    holder.signal(signal.SIGTERM)
    shown += _until(terminal, "tty\r\n")
    assert "\r\x1b[J" in shown and "no tty" not in shown
    os.write(terminal, b"\x03")
    _until(terminal, "interrupted")
    os.write(terminal, b"\n")
    assert "1 in all" in _until(terminal, "in all")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)


def _until(terminal: int, wanted: str) -> str:
    shown = ""
    while wanted not in shown:
        assert select.select([terminal], [], [], PATIENCE)[0], f"only this was shown: {shown!r}"
        shown += os.read(terminal, 1 << 16).decode()
    return shown


@pytest.mark.slow
def test_what_was_ignored_stays_ignored(town: Town, gate: Path) -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        run = town.types("run", "--", "bash", "-c", f"echo holding; read < {gate}; echo went on")
        run.hear("holding")
        run.signal(signal.SIGHUP)
        gate.write_text("go on")
        assert run.end() == 0 and "went on" in run.out.text
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--", "no-such-command"), 127, "no command 'no-such-command'"),
        (("--", "/dev"), 126, "it is a directory"),
        (("--memory", "5GiB", "--", "true"), 2, "asks for 5.0 GiB and the largest device here"),
        (("--gpus", "3", "--", "true"), 2, "asks for 3 devices, and only cpu:0 and cpu:1"),
        (("--gpu", "7", "--", "true"), 2, "no device '7'; here are cpu:0, cpu:1"),
        (("python", "train.py"), 2, "Put -- before the command: gpufit run [options] -- python train.py"),
        ((), 2, "There is no command"),
    ],
)
def test_a_mistake_gets_a_sentence_and_no_place_in_the_queue(
    town: Town, arguments: tuple[str, ...], code: int, words: str
) -> None:
    run = town.types("run", *arguments)
    assert run.end() == code
    assert words in run.err.text and "Traceback" not in run.err.text
    assert "private" not in run.err.text  # one thing at a time


@pytest.mark.slow
def test_users_wait_for_each_other(shared_town: Town) -> None:
    shared_town.holds("hers", "--gpus", "2", uid=ADA)
    his = shared_town.types("run", "--", "echo", "my turn", uid=BOB)
    his.hear(f"uid {ADA}'s hers has held cpu:0 and cpu:1")
    assert "private" not in his.err.text
    shared_town.typed[0].signal(signal.SIGTERM)
    assert his.end() == 0


@pytest.mark.slow
def test_a_lab_that_was_emptied_is_told_to_the_holder(town: Town) -> None:
    run = town.types("run", "--", "bash", "-c", HOLD)
    run.hear("holding")
    for file in Path(town.lab).glob("c.*"):
        file.unlink()
    run.hear("You hold cpu:0 as before: it is claimed again.")

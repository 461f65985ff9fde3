"""What the magic answers before there is a job: what it would do, what it takes, and why it will not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import jobs
from tests.kernels import TIMEOUT, Kernel, environment, running_kernel

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_worker_outlives_its_test")]


def test_a_dry_run_starts_nothing_and_says_what_would_travel(kernel: Kernel, env: dict[str, str]) -> None:
    kernel.check("import torch\nbig = torch.zeros(1 << 20)")
    before = set(jobs(env))
    ran = kernel.check("%%gpufit train --dry-run --memory 2GiB\nbig.sum()\n")
    assert "4.0 MiB" in ran.shown and "2.0 GiB" in ran.shown and "Nothing was started" in ran.shown
    assert set(jobs(env)) == before


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("trian", "Did you mean train?"),
        ("train --memroy 3GiB", "Did you mean --memory?"),
        ("train --memory lots", "such as 12GiB"),
        ("train --name 'two words'", "letters, digits"),
        ("train --gpu 7", "no device '7'"),
        ("train --memory 90GiB", "90.0 GiB"),
        ("attach", "on a line of its own"),
    ],
)
def test_a_bad_option_gets_a_sentence_that_helps(kernel: Kernel, line: str, words: str) -> None:
    ran = kernel.run(f"%%gpufit {line}\nprint('started')\n")
    assert not ran.ok and words in ran.traceback and ran.stdout == ""
    assert "Traceback" not in ran.traceback


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("train --memory {size // 2}GiB", "ask for 1.0 GiB"),
        ("train --memory $amount", "ask for 1.5 GiB"),
        ("train --name '{run}'", "'two words'"),
        ("train --name {unknown}", "'{unknown}'"),
    ],
)
def test_names_of_the_notebook_are_filled_in_as_in_every_magic(kernel: Kernel, line: str, words: str) -> None:
    kernel.check("run, size, amount = 'two words', 2, '1.5GiB'")
    ran = kernel.run(f"%%gpufit {line} --dry-run\npass\n")
    assert words in ran.shown + ran.traceback


def test_help_and_completion(kernel: Kernel) -> None:
    reply = kernel.client.inspect("%%gpufit", reply=True, timeout=TIMEOUT)["content"]["data"]["text/plain"]
    assert "--memory" in reply and "attach" in reply
    assert "--detach" in kernel.check("%gpufit train --help").stdout

    def complete(text: str) -> list[str]:
        return list(kernel.client.complete(text, reply=True, timeout=TIMEOUT)["content"]["matches"])

    assert complete("%%gpufit tr") == ["train"]
    assert complete("%%gpufit train --ex") == ["--exclusive"]
    assert complete("%%gpufit train --gpu c") == ["cpu:0", "cpu:1"]
    assert "stop" in complete("%gpufit ")


def test_what_can_never_run_is_refused_without_a_job(kernel: Kernel, env: dict[str, str]) -> None:
    before = set(jobs(env))
    assert kernel.run("%%gpufit train --gpu nope\npass\n").ename == "NoSuchDevice"
    assert kernel.run("%%gpufit train --memory 300GiB\npass\n").ename == "NeverFits"
    assert set(jobs(env)) == before


def test_jobs_where_others_can_write_are_refused(home: Path) -> None:
    everybodys = home / "everybodys"
    everybodys.mkdir()
    everybodys.chmod(0o777)
    with running_kernel(environment(home, GPUFIT_DATA=str(everybodys)), home) as kernel:
        ran = kernel.run("%%gpufit train\nprint('ran')\n")
        assert ran.ename == "NotYours" and "chmod go-w" in ran.traceback and ran.stdout == ""


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"GPUFIT_RUNTIME": "/tmp/" + "x" * 120}, "shorter name"),
        ({"GPUFIT_DATA": "/proc/nowhere"}, "GPUFIT_DATA"),
        ({"GPUFIT_DEVICES": "tpu:4"}, "devices"),
        ({"GPUFIT_DEVICES": "gpu"}, "GPUFIT_DEVICES=cpu:2x4GiB"),
    ],
)
def test_a_bad_environment_is_explained_in_the_cell(home: Path, more: dict[str, str], words: str) -> None:
    with running_kernel(environment(home, **more), home) as kernel:
        ran = kernel.run("%%gpufit train\nprint('started')\n")
        assert not ran.ok and words in ran.traceback and "started" not in ran.stdout

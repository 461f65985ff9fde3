"""A job's own scope of systemd: when it is asked for, and what stands in the question.

There is no systemd here. So what is tested ends where its answer would begin: the real busctl puts the question to a
real bus on which nobody has its name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpufit.system import scope
from jupyter_gpufit.system.scope import leave_service, our_service, service_of
from jupyter_gpufit.system.users import user_name

IN_A_SERVICE = "0::/system.slice/jupyter-ada-singleuser.service\n"
BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path={bus}</listen>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/></policy></busconfig>
"""


@pytest.mark.parametrize(
    ("cgroups", "service"),
    [
        (IN_A_SERVICE, "jupyter-ada-singleuser.service"),
        ("12:pids:/\n1:name=systemd:/system.slice/jupyterhub.service\n0::/\n", "jupyterhub.service"),
        ("0::/system.slice/jupyterhub.service/workers\n", "jupyterhub.service"),
        ("0::/user.slice/user-7.slice/user@7.service/app.slice/jupyter.service\n", "jupyter.service"),
        ("0::/user.slice/user-7.slice/user@7.service/app.slice/gpufit-k3x9-412.scope\n", ""),
        ("0::/user.slice/user-7.slice/session-3.scope\n", ""),
        ("0::/system.slice/docker-5f2a.scope\n", ""),
        ("0::/\n", ""),
        ("memory\n\n", ""),
    ],
)
def test_finds_the_service_that_a_process_is_in(cgroups: str, service: str) -> None:
    assert service_of(cgroups) == service


def test_a_control_group_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_bytes(b"0::/\xff\xfe/jupyter.service\n")

    assert our_service(tmp_path / "cgroup") == "jupyter.service"


@pytest.fixture
def lingering(tmp_path: Path) -> Path:
    (tmp_path / user_name(os.getuid())).touch()
    return tmp_path


@pytest.fixture
def in_a_service(tmp_path: Path) -> Path:
    path = tmp_path / "cgroup"
    path.write_text(IN_A_SERVICE)
    return path


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A busctl that only notes that it was asked."""
    noted = tmp_path / "asked"
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "busctl"
    program.write_text(f'#!/bin/sh\necho "$XDG_RUNTIME_DIR" "$@" > {noted}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    yield noted


def test_asks_for_a_scope_only_in_a_service_and_where_its_user_lingers(
    asked: Path, in_a_service: Path, lingering: Path, tmp_path: Path
) -> None:
    nowhere = tmp_path / "nowhere"
    assert leave_service("k3x9", cgroups=in_a_service, lingering=nowhere) == "" and not asked.exists()
    assert leave_service("k3x9", cgroups=nowhere, lingering=lingering) == "" and not asked.exists()

    assert leave_service("k3x9", cgroups=in_a_service, lingering=lingering) == ""
    words = asked.read_text()
    assert words.startswith(f"/run/user/{os.getuid()} --user call ")
    assert f"gpufit-k3x9-{os.getpid()}.scope fail" in words


def test_a_job_that_gets_no_scope_says_why_and_runs(
    in_a_service: Path, lingering: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scope, "our_service", lambda _=None: "jupyter-ada.service")
    monkeypatch.setattr(scope, "lingers", lambda _=None: True)
    monkeypatch.setenv("PATH", "/nowhere")
    scope.leave("k3x9", wanted=False)
    assert capsys.readouterr().err == ""
    scope.leave("k3x9", wanted=True)
    assert "When jupyter-ada.service stops, this job ends with it" in capsys.readouterr().err


@pytest.mark.slow
def test_the_question_is_what_systemd_documents(
    in_a_service: Path, lingering: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not all(map(shutil.which, ("busctl", "dbus-daemon", "dbus-monitor"))):
        pytest.skip("NOT TESTED: the question to systemd. apt-get install systemd dbus-daemon dbus-bin")
    bus = f"unix:path={tmp_path}/bus"
    (tmp_path / "bus.conf").write_text(BUS.format(bus=f"{tmp_path}/bus"))
    daemon = ["dbus-daemon", f"--config-file={tmp_path}/bus.conf", "--nofork", "--print-address=1"]
    with subprocess.Popen(daemon, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None and running.stdout.readline().startswith(bus)
        listening = subprocess.Popen(["dbus-monitor", "--address", bus], stdout=subprocess.PIPE, text=True)
        assert listening.stdout is not None
        while "NameLost" not in listening.stdout.readline():  # from then on it hears everything
            pass
        monkeypatch.setattr(subprocess, "run", _at(bus, subprocess.run))
        why = leave_service("k3x9", cgroups=in_a_service, lingering=lingering)
        running.terminate()
    question = listening.communicate()[0].partition("member=StartTransientUnit")[2].partition("\nerror")[0]

    assert "was not provided" in why, "nobody has systemd's name on this bus"
    assert (
        question.split()
        == (
            f'string "gpufit-k3x9-{os.getpid()}.scope" string "fail" array ['
            ' struct { string "Description" variant string "gpufit job k3x9" }'
            f' struct {{ string "PIDs" variant array [ uint32 {os.getpid()} ] }}'
            ' struct { string "CollectMode" variant string "inactive-or-failed" } ] array [ ]'
        ).split()
    )


def _at(bus: str, run: object) -> object:
    """The same command, on this bus and not the user's."""
    return lambda words, **more: run(["busctl", f"--address={bus}", *words[2:]], **more)  # type: ignore[operator]

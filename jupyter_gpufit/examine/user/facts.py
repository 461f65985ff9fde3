"""What a user's jobs rest on, asked of the machine; `judge` says what it means."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...devices.device import Device
from ...devices.here import read_devices
from ...devices.nvml import DriverFacts, read_driver
from ...errors import DeviceError, GpufitError
from ...jobs.job import new_job_id
from ...jobs.paths import socket_path
from ...jobs.store import jobs_dir
from ...lab import Lab, open_lab
from ...lab.directory import file_system
from ...lab.policy_file import VARIABLE
from ...settings import Settings, load_settings
from ...system.runtime import runtime_dir
from ...system.scope import lingers, our_service
from ...system.trust import check_trusted
from ..lab.facts import sysctls
from ..lab.places import nearest

INOTIFY = "fs.inotify.max_user_watches", "fs.inotify.max_user_instances"
TRY = 1 << 16  # bytes written to see whether one can


@dataclass(frozen=True)
class SettingsFound:
    trouble: str  # why they cannot be used
    chosen: tuple[str, ...]  # names that differ from the defaults
    strange: tuple[str, ...]  # variables named like settings that are none
    known: tuple[str, ...]


def settings() -> SettingsFound:
    known = (VARIABLE, *(f"GPUFIT_{field.name.upper()}" for field in fields(Settings)))
    strange = tuple(sorted(name for name in os.environ if name.startswith("GPUFIT_") and name not in known))
    try:
        found = load_settings()
    except GpufitError as error:
        return SettingsFound(str(error), (), strange, known)
    chosen = tuple(f.name for f in fields(Settings) if getattr(found, f.name) != getattr(Settings(), f.name))
    return SettingsFound("", chosen, strange, known)


@dataclass(frozen=True)
class DevicesFound:
    devices: tuple[Device, ...]
    driver: DriverFacts | None  # None: no GPU was asked for, or there is none
    trouble: str = ""
    by_default: bool = False  # a slot that nobody chose


def devices(settings: Settings) -> DevicesFound:
    try:
        found = read_devices(settings)
        slots = found[0].kind == "slot"
        return DevicesFound(found, None if slots else read_driver(), by_default=slots and not settings.devices.strip())
    except GpufitError as error:
        return DevicesFound((), None, str(error))


@dataclass(frozen=True)
class TorchFound:
    """What a process that imported torch says, with its keys as `torch_says` names them."""

    installed: str  # version; empty: none
    cuda: str  # for which it is built; empty: for none
    says: dict[str, Any] | None = None  # None: it did not answer in time
    trouble: str = ""  # why it cannot be imported


def torch(wait: float) -> TorchFound:
    try:
        installed = version("torch")
    except PackageNotFoundError:
        return TorchFound("", "")
    cuda = _built_for()
    command = [sys.executable, "-m", "jupyter_gpufit.examine.user.torch_says"]
    # Of all GPUs, not of those that this shell happens to see: a job sees the one that it is given.
    env = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=max(0.1, wait - 0.2))
    except subprocess.TimeoutExpired:
        return TorchFound(installed, cuda)
    if done.returncode:
        return TorchFound(installed, cuda, trouble=last_line(done.stderr) or f"exit code {done.returncode}")
    return TorchFound(installed, cuda, json.loads(last_line(done.stdout)))


def last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def _built_for() -> str:
    """From torch's own file, since to import it takes seconds."""
    spec = find_spec("torch")
    text = Path(spec.origin).with_name("version.py").read_text() if spec and spec.origin else ""
    match = re.search(r"^cuda\b.*= '(.*)'$", text, re.MULTILINE)
    return match[1] if match else ""


@dataclass(frozen=True)
class SuspendFound:
    """Whether the driver can suspend processes, asked only where the setting wants it."""

    wanted: bool
    answered: bool = True  # in time
    trouble: str = ""  # why not, half a sentence


def suspend(settings: Settings, wait: float) -> SuspendFound:
    if not settings.driver_suspend:
        return SuspendFound(False)
    command, question = [sys.executable, "-m", "jupyter_gpufit.suspend"], '{"do": "probe"}'
    try:
        done = subprocess.run(command, input=question, capture_output=True, text=True, timeout=max(0.1, wait - 0.2))
    except subprocess.TimeoutExpired:
        return SuspendFound(True, answered=False)
    if done.returncode:
        return SuspendFound(True, trouble=last_line(done.stderr) or f"exit code {done.returncode}")
    return SuspendFound(True, trouble=json.loads(last_line(done.stdout)))


@dataclass(frozen=True)
class DataFound:
    path: Path
    trouble: str  # why nothing can be written
    others: str  # why others could read or change it
    file_system: str
    free: int  # bytes


def data(settings: Settings) -> DataFound:
    path = jobs_dir(settings)
    there = nearest(path)
    room = os.statvfs(there)
    return DataFound(path, _cannot_write(there), _open_to(path), file_system(there), room.f_bavail * room.f_frsize)


def _cannot_write(folder: Path) -> str:
    """A quota, a full disk and a file system that turned read-only tell themselves to writers alone."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * TRY)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _open_to(path: Path) -> str:
    try:
        check_trusted(nearest(path))
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return ""
    except GpufitError as error:
        return str(error)
    return f"Others can look into {path} (mode {mode:o})." if mode & 0o077 else ""


@dataclass(frozen=True)
class RuntimeFound:
    path: str
    trouble: str  # why no control socket can be there


def runtime(settings: Settings) -> RuntimeFound:
    try:
        path = socket_path(settings, new_job_id())
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
        path.unlink()
        return RuntimeFound(str(runtime_dir(settings)), "")
    except GpufitError as error:
        return RuntimeFound("", str(error))
    except OSError as error:  # a file system without sockets
        return RuntimeFound(str(path.parent), f"No socket can be made in {path.parent} ({error.strerror}).")


@dataclass(frozen=True)
class LoginFound:
    """What becomes of a user's processes and sockets when the last login, or the service that started them, ends."""

    managed: bool  # by systemd-logind
    lingers: bool
    service: str  # of systemd, in which we run; empty: none
    kills: bool  # KillUserProcesses=yes
    runtime_goes: bool  # the sockets are in the directory that logind removes


def login(settings: Settings) -> LoginFound:
    managed = Path("/run/systemd/seats").is_dir()
    return LoginFound(
        managed=managed,
        lingers=lingers(),
        service=our_service(),
        kills=managed and _kills_at_logout(),
        runtime_goes=runtime_dir(settings).is_relative_to(f"/run/user/{os.getuid()}"),
    )


def _kills_at_logout() -> bool:
    """Asked of logind itself: what it was compiled with stands in no file."""
    name = "org.freedesktop.login1"
    question = ["busctl", "get-property", name, f"/{name.replace('.', '/')}", f"{name}.Manager", "KillUserProcesses"]
    try:
        return subprocess.run(question, capture_output=True, text=True, timeout=1).stdout.strip() == "b true"
    except (OSError, subprocess.TimeoutExpired):
        return False


def lab(settings: Settings) -> Lab:
    """With a remark only where it matters."""
    found = open_lab(settings)
    devices: tuple[Device, ...] = ()
    with suppress(DeviceError):  # which another check tells
        devices = tuple(read_devices(settings))
    return replace(found, remark=found.remark_on(devices))


@dataclass(frozen=True)
class SharedMemory:
    memfd: str  # why there is none; empty: there is
    shm: int | None  # bytes of /dev/shm; None: there is none
    shm_free: int


def shared_memory() -> SharedMemory:
    try:
        room = os.statvfs("/dev/shm")
    except FileNotFoundError:
        return SharedMemory(_trouble(_memfd), None, 0)
    return SharedMemory(_trouble(_memfd), room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize)


def _memfd() -> None:
    os.close(os.memfd_create("gpufit-doctor", os.MFD_CLOEXEC))


@dataclass(frozen=True)
class Limits:
    """None: without limit."""

    files: int | None  # open at once
    most_files: int | None  # to which the limit can be raised
    address_space: int | None  # bytes


def limits() -> Limits:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Limits(_limit(soft), _limit(hard), _limit(resource.getrlimit(resource.RLIMIT_AS)[0]))


def _limit(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value


@dataclass(frozen=True)
class Inotify:
    trouble: str  # why nothing can be watched; empty: it can
    watches: int | None
    instances: int | None


def inotify() -> Inotify:
    watches, instances = (int(value) if value else None for value in sysctls(*INOTIFY).values())
    return Inotify(_trouble(_watch), watches, instances)


def _watch() -> None:
    from inotify_simple import INotify, flags

    with INotify() as watcher:
        watcher.add_watch("/", flags.DELETE_SELF)


def _trouble(act: Callable[[], None]) -> str:
    try:
        act()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "") + f" ({error.strerror})"
    return ""

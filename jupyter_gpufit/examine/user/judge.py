"""What the facts about a user's environment mean, and what to do next; pure."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ...devices.device import Device
from ...errors import did_you_mean
from ...lab import Lab
from ...system.version import pip_install
from ...units import GiB, MiB, format_bytes
from ..findings import Finding, bad, note, ok
from .environments import Kernel, Packages, Panel, ServerExtension
from .facts import (
    DataFound,
    DevicesFound,
    Inotify,
    Limits,
    LoginFound,
    RuntimeFound,
    SettingsFound,
    SharedMemory,
    SuspendFound,
    TorchFound,
)

OLDEST_IPYKERNEL = 7
LITTLE_SPACE, TOO_LITTLE_SPACE = 10 * GiB, 256 * MiB
SMALL_SHM = 512 * MiB  # a container that says nothing gets 64 MiB
FEW_FILES, TOO_FEW_FILES = 1024, 128
FEW_WATCHES, FEW_INSTANCES = 8192, 128
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "fuse.sshfs")
PIP = pip_install()


def settings(found: SettingsFound) -> Iterator[Finding]:
    if found.trouble:
        yield bad(found.trouble, "Correct it. Until then no command works, and the rest here goes by the defaults.")
    else:
        yield ok(f"The settings are readable; chosen: {', '.join(found.chosen) or 'none, all are defaults'}.")
    for name in found.strange:
        near = did_you_mean(name, found.known)
        yield note(f"The variable {name} looks like a setting and is none.{near}", f"Correct it, or: unset {name}")


def devices(found: DevicesFound) -> Iterator[Finding]:
    if found.trouble:
        yield bad(found.trouble, "Do what it says, then look again.")
    if found.driver is not None:
        yield ok(f"The NVIDIA driver is {found.driver.version}, for CUDA up to {found.driver.cuda}.")
    slots = [device for device in found.devices if device.kind == "slot"]
    if slots:
        sizes = ", ".join(format_bytes(slot.total) for slot in slots)
        if found.by_default:
            yield ok(
                f"No GPU is in this machine; cells run on a CPU slot ({sizes}). The setting devices chooses others."
            )
        else:
            yield ok(f"{len(slots)} CPU slots ({sizes}); GPUs are not looked at while the setting devices names slots.")
    for device in found.devices:
        if device.kind != "slot":
            yield _gpu(device)


def _gpu(device: Device) -> Finding:
    what = f"GPU {device.label} ({device.name}, {device.uuid})"
    if device.problem:
        return bad(f"{what}: {device.problem}", "Jobs go to the other devices until then.")
    return ok(f"{what} is readable: {format_bytes(device.free)} of {format_bytes(device.total)} are free.")


def suspend(found: SuspendFound) -> Iterator[Finding]:
    if not found.wanted:
        return
    if not found.answered:
        yield note("The driver took long to say whether it can suspend processes.", "gpufit doctor --wait 60")
    elif found.trouble:
        yield note(
            f"driver_suspend is set and cannot be done here: {found.trouble}.",
            "Mend that, or take the setting away: releases go by the disk, as without it.",
        )
    else:
        yield ok("The driver can suspend released jobs, which stay in the host's memory (driver_suspend).")


def torch(found: TorchFound) -> Iterator[Finding]:
    if not found.installed:
        yield bad("torch is not installed in this environment.", f"{PIP} torch")
    elif found.trouble:
        reinstall = f"{PIP} --force-reinstall torch"
        yield bad(f"torch {found.installed} cannot be imported: {found.trouble}.", reinstall)
    elif found.says is None:
        yield note(
            f"torch {found.installed} for {_platform({'cuda': found.cuda, 'hip': ''})} took long to import, and was not"
            " asked what it can use.",
            "gpufit doctor --wait 60",
        )
    else:
        yield _build(found.says)
        yield from _uncovered(found.says)


def _build(says: dict[str, Any]) -> Finding:
    version, gpus = says["version"], says["capabilities"]
    heard = f" It says: {says['warnings'][0]}" if says["warnings"] else ""
    if says["available"]:
        return ok(f"torch {version} for {_platform(says)} uses {says['count']} GPUs.")
    if not gpus:
        return ok(f"torch {version} for {_platform(says)} works on the CPU; no GPU is here for it.")
    if not says["cuda"] and not says["hip"]:
        return bad(
            f"torch {version} is built for the CPU only, and there are GPUs.",
            "Install a build for CUDA: https://pytorch.org/get-started/locally",
        )
    return bad(
        f"torch {version} for {_platform(says)} cannot use the GPUs.{heard}",
        "Install a build for a CUDA that is no newer than the driver's (above), or update the driver:"
        " https://pytorch.org/get-started/locally",
    )


def _platform(says: dict[str, Any]) -> str:
    if says["cuda"]:
        return f"CUDA {says['cuda']}"
    return f"ROCm {says['hip']}" if says["hip"] else "the CPU"


def _uncovered(says: dict[str, Any]) -> Iterator[Finding]:
    """GPUs for which this torch has no code: it only tells at the first operation."""
    for major, minor in says["capabilities"] if says["kernels"] else []:
        if not runs_on(says["kernels"], major, minor):
            yield bad(
                f"torch {says['version']} has no code for GPUs of compute capability {major}.{minor}"
                f" (it has {' '.join(says['kernels'])}).",
                "Install a build that has: https://pytorch.org/get-started/locally",
            )


def runs_on(kernels: Sequence[str], major: int, minor: int) -> bool:
    """Binary code runs within its major version, from its minor on; PTX (compute_) on everything later."""
    for word in kernels:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)[af]?", word)
        if match and match[1] == "sm" and int(match[2]) == major and int(match[3]) <= minor:
            return True
        if match and match[1] == "compute" and (int(match[2]), int(match[3])) <= (major, minor):
            return True
    return False


def data(found: DataFound) -> Iterator[Finding]:
    elsewhere = "or choose another place with GPUFIT_DATA"
    if found.trouble:
        yield bad(f"{found.path} cannot be written ({found.trouble}).", f"Free or repair it, {elsewhere}.")
    elif found.free < LITTLE_SPACE:
        level = bad if found.free < TOO_LITTLE_SPACE else note
        yield level(
            f"{found.path} has {format_bytes(found.free)} left for outputs and results.", f"gpufit clean, {elsewhere}."
        )
    else:
        yield ok(f"{found.path} can be written, and has {format_bytes(found.free)} left.")
    if found.others:
        yield bad(found.others, f"chmod go-rwx {found.path}; directories above it must be yours or root's alone.")
    if found.file_system in NETWORK:
        yield note(
            f"{found.path} is on {found.file_system}: whether a job lives is then for the network's locks to say.",
            "Choose a directory on a local disk with GPUFIT_DATA.",
        )


def runtime(found: RuntimeFound) -> Iterator[Finding]:
    if found.trouble:
        yield bad(found.trouble, "Do what it says: without control sockets no job can be followed or stopped.")
    else:
        yield ok(f"Control sockets can be made in {found.path}.")


def login(found: LoginFound) -> Iterator[Finding]:
    if found.service and not found.lingers:
        yield note(
            f"This runs in {found.service} of systemd: when that stops, trainings stop, and go on from their last"
            " checkpoint. (Not where it has KillMode=process.)",
            "sudo loginctl enable-linger $USER: from then on each job has a scope of its own.",
        )
    if not found.managed or found.lingers:
        return
    if found.kills:
        yield bad(
            "When you log out, systemd ends your processes, trainings included (KillUserProcesses=yes).",
            "loginctl enable-linger",
        )
    elif found.runtime_goes:
        yield note(
            "When your last login ends, systemd removes the directory of the control sockets: jobs go on, but cannot be"
            " stopped or followed live.",
            "loginctl enable-linger, or set GPUFIT_RUNTIME to a directory of yours that stays.",
        )


def lab(found: Lab) -> Iterator[Finding]:
    if found.shared:
        yield ok(f"The lab is {found.path}, which all users share. `gpufit lab check` proves it.")
    elif found.remark:
        yield note(f"The lab {found.path} is private.", found.remark)
    else:
        yield ok(f"The lab is {found.path}, of your own: here is nothing to share with others.")


def packages(found: Packages) -> Iterator[Finding]:
    yield ok(f"jupyter_gpufit {found.ours} in {found.python}.")
    if not found.ipykernel or major(found.ipykernel) < OLDEST_IPYKERNEL:
        here = f"ipykernel {found.ipykernel}" if found.ipykernel else "no ipykernel"
        yield bad(
            f"There is {here} here, and {OLDEST_IPYKERNEL} is the oldest in which widgets answer while a cell waits.",
            f"{PIP} 'ipykernel>={OLDEST_IPYKERNEL}', then restart the kernels.",
        )
    else:
        yield ok(f"ipykernel {found.ipykernel}.")
    if not found.jupyterlab:
        yield note(
            "JupyterLab is not in this environment: if it runs in another one, that one needs jupyter_gpufit, too.",
            "Run `gpufit doctor` there as well.",
        )


def server_extension(found: ServerExtension) -> Iterator[Finding]:
    if found.enabled:
        yield ok("The server extension is enabled.")
    elif found.enabled is False:
        yield bad(
            f"The server extension is disabled in {found.said_in}: the panel stays empty.",
            "jupyter server extension enable jupyter_gpufit, then restart Jupyter.",
        )
    else:
        yield bad(
            "No configuration of Jupyter's names the server extension: the panel stays empty.",
            f"{PIP} --force-reinstall --no-deps jupyter_gpufit (or: jupyter server extension enable jupyter_gpufit)",
        )
    if found.elsewhere:
        yield note(
            f"`jupyter` in a terminal is that of {found.elsewhere}, and this is {sys.executable}.",
            f"If Jupyter runs from there: {found.elsewhere} -m pip install jupyter_gpufit, and `gpufit doctor` there.",
        )


def panel(found: Panel) -> Iterator[Finding]:
    again = f"{PIP} --force-reinstall --no-deps jupyter_gpufit, then reload the page."
    ours = _ours()
    if not found.version:
        yield bad("The panel is not among JupyterLab's extensions.", again)
    elif found.version != ours:
        yield bad(f"The panel in {found.folder} is of version {found.version}, and the package of {ours}.", again)
    else:
        yield ok(f"The panel is installed, of the package's version ({ours}).")
    if found.disabled_in:
        yield bad(f"The panel is disabled in {found.disabled_in}.", "jupyter labextension enable jupyter-gpufit")


def _ours() -> str:
    from ...system.version import version

    return version()


def kernels(found: tuple[Kernel, ...]) -> Iterator[Finding]:
    for kernel in found:
        yield _kernel(kernel)


def _kernel(kernel: Kernel) -> Finding:
    what, ours = f"The kernel {kernel.name!r} ({kernel.python})", _ours()
    install = f"{kernel.python} -m pip install jupyter_gpufit=={ours}"
    if kernel.trouble:
        return note(
            f"{what} could not be asked: {kernel.trouble}.",
            f"If it is no longer used: jupyter kernelspec remove {kernel.name}",
        )
    if not kernel.ours:
        return note(f"{what} has no jupyter_gpufit: %%gpufit does not work in its notebooks.", install)
    if kernel.ours != ours:
        return bad(f"{what} has jupyter_gpufit {kernel.ours}, and this environment {ours}.", install)
    if not kernel.ipykernel or major(kernel.ipykernel) < OLDEST_IPYKERNEL:
        upgrade = f"{kernel.python} -m pip install 'ipykernel>={OLDEST_IPYKERNEL}'"
        return bad(f"{what} has ipykernel {kernel.ipykernel or '(none)'}, which is too old.", upgrade)
    return ok(f"{what} has jupyter_gpufit {kernel.ours} and ipykernel {kernel.ipykernel}.")


def major(version: str) -> int:
    match = re.match(r"\d+", version)
    return int(match[0]) if match else 0


def shared_memory(found: SharedMemory) -> Iterator[Finding]:
    if found.memfd:
        yield bad(
            f"Shared memory cannot be made (memfd_create: {found.memfd}), so no variables can travel.",
            "In a container, allow memfd_create in its seccomp profile; elsewhere, free memory.",
        )
    if found.shm is None:
        yield note("There is no /dev/shm: DataLoader workers cannot pass tensors.", "Mount a tmpfs there.")
    elif min(found.shm, found.shm_free) < SMALL_SHM:
        yield note(
            f"/dev/shm has {format_bytes(found.shm_free)} of {format_bytes(found.shm)} free: DataLoader workers, which"
            " pass tensors through it, may die of a bus error.",
            "In a container: docker run --shm-size=8g; elsewhere, look for what is left there: ls -l /dev/shm",
        )
    elif not found.memfd:
        yield ok(f"Shared memory can be made; /dev/shm has {format_bytes(found.shm_free)} free.")


def limits(found: Limits) -> Iterator[Finding]:
    if found.files is not None and found.files < FEW_FILES:
        level = bad if found.files < TOO_FEW_FILES else note
        enough = found.most_files is None or found.most_files >= FEW_FILES
        yield level(
            f"A process may open {found.files} files (ulimit -n); sockets, shared tensors and data need more.",
            f"ulimit -n {FEW_FILES}" if enough else "An administrator raises nofile in /etc/security/limits.conf.",
        )
    if found.address_space is not None:
        yield bad(
            f"Address space is limited to {format_bytes(found.address_space)} (ulimit -v): CUDA reserves far more.",
            "ulimit -v unlimited; an administrator looks for `as` in /etc/security/limits.conf.",
        )
    if (found.files is None or found.files >= FEW_FILES) and found.address_space is None:
        yield ok("Open files and address space are not limited too tightly.")


def inotify(found: Inotify) -> Iterator[Finding]:
    few = [
        (name, value, least)
        for name, value, least in (
            ("fs.inotify.max_user_watches", found.watches, FEW_WATCHES),
            ("fs.inotify.max_user_instances", found.instances, FEW_INSTANCES),
        )
        if value is not None and value < least
    ]
    if found.trouble:
        yield bad(
            f"Files cannot be watched ({found.trouble}): waiting jobs and followers cannot start.",
            "sudo sysctl -w fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=524288",
        )
    for name, value, least in few:
        yield note(
            f"{name} is {value}: with many jobs and editors open that may be too few.", f"sudo sysctl -w {name}={least}"
        )
    if not found.trouble and not few:
        yield ok("Files can be watched.")

"""The GPUs and MIG instances that the NVIDIA driver shows, read through NVML.

Whatever goes wrong with one GPU stays with that GPU; what goes wrong with the driver is NoDevice. No GPU is set to
anything here, and no counter is read that makes its reader wait (PCIe throughput takes 20 ms per GPU).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

from ..errors import DeviceUnreadable, NoDevice
from ..system.identity import start_time_of
from .device import Device, Process

T = TypeVar("T")

LONGEST_COMMAND = 200  # characters
UNKNOWN_USER = "unknown process"  # of a process outside our container, hidden from us, or just gone


@dataclass(frozen=True)
class DriverFacts:
    """What the NVIDIA driver says of itself."""

    version: str
    cuda: str  # the newest CUDA it can run: "12.4"


class NvmlCode(IntEnum):
    """The answers of NVML that are told apart here."""

    UNINITIALIZED = 1
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    DRIVER_NOT_LOADED = 9
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    LIB_RM_VERSION_MISMATCH = 18
    UNKNOWN = 999


_NOT_OFFERED = {NvmlCode.NOT_SUPPORTED, NvmlCode.NOT_FOUND, NvmlCode.FUNCTION_NOT_FOUND}
_RELOADED = {NvmlCode.UNINITIALIZED, NvmlCode.DRIVER_NOT_LOADED}
_OF_THE_DRIVER = _RELOADED | {NvmlCode.LIB_RM_VERSION_MISMATCH}
_OF_THE_GPU = {NvmlCode.GPU_IS_LOST, NvmlCode.RESET_REQUIRED}

_NO_DEVICE = {
    NvmlCode.LIBRARY_NOT_FOUND: "the NVIDIA driver (libnvidia-ml.so.1) is not installed. Install it;"
    " a container also needs to be started with its GPUs (docker run --gpus all).",
    NvmlCode.DRIVER_NOT_LOADED: "the NVIDIA driver is installed but not loaded. An administrator loads it with"
    " `sudo modprobe nvidia`.",
    NvmlCode.LIB_RM_VERSION_MISMATCH: "the NVIDIA driver was updated, and its library and the loaded kernel module"
    " have different versions. Restart Jupyter; if that does not help, the machine needs a reboot.",
    NvmlCode.NO_PERMISSION: "this user may not open the NVIDIA driver. Ask an administrator for access to"
    " /dev/nvidia*.",
    # What a container sees after `systemctl daemon-reload` on its host took the devices out of its cgroup.
    NvmlCode.UNKNOWN: "the NVIDIA driver answers with an unknown error. In a container, restart the container;"
    " elsewhere `nvidia-smi` and `dmesg` tell more.",
}
_NO_GPU = "the NVIDIA driver is loaded but shows no GPU. `nvidia-smi -L` and `lspci` tell what the machine sees."
_NO_INSTANCE = (
    "MIG is on and the GPU has no instance. An administrator makes one with `sudo nvidia-smi mig -cgi ... -C`."
)
_PROBLEM = {
    NvmlCode.GPU_IS_LOST: "GPU is lost: it has fallen off the bus. An administrator resets it with"
    " `sudo nvidia-smi --gpu-reset -i {index}`, or reboots.",
    NvmlCode.RESET_REQUIRED: "GPU requires a reset. An administrator resets it with"
    " `sudo nvidia-smi --gpu-reset -i {index}`.",
}


def read_gpus() -> tuple[Device, ...]:
    """Every GPU as it is now, in its place its MIG instances if it has any; raise NoDevice when there is none."""
    return _nvml.read()


def read_driver() -> DriverFacts:
    """The versions of the NVIDIA driver; raise NoDevice when there is none."""
    return _nvml.ask(_driver)


def read_load(uuid: str) -> tuple[int | None, float | None]:
    """How busy a GPU is, in percent, and the watts it takes; None: it does not tell."""
    return _nvml.ask(lambda nvml: _load(nvml, nvml.nvmlDeviceGetHandleByUUID(uuid)))


def close_nvml() -> None:
    """Give NVML back until the next reading: held open, it is in the way of a driver's update or a GPU's reset."""
    _nvml.close()


class Nvml:
    """NVML, initialised at the first reading and then kept: to start it can take a second for every GPU."""

    def __init__(self, patience: float = 30.0) -> None:
        self._patience = patience  # seconds
        self._lock = Lock()
        self._started = False
        self._seen: dict[int, list[Device]] = {}  # by index: a GPU that is lost no longer tells which one it is
        self._chips: dict[tuple[int, str], Device] = {}  # by index and UUID: what of a GPU never changes

    def read(self) -> tuple[Device, ...]:
        return self.ask(self._all)

    def ask(self, question: Callable[[Any], T]) -> T:
        """Put a question to pynvml, with NVML started; one question at a time."""
        # A call into a hanging driver never returns. Those who come after it must not pile up behind it.
        if not self._lock.acquire(timeout=self._patience):
            why = f"the driver has not answered for {self._patience:g} s. `sudo dmesg` may tell which GPU hangs (Xid)."
            raise DeviceUnreadable("The NVIDIA driver", why)
        try:
            return self._ask(question)
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._stop()

    def _ask(self, question: Callable[[Any], T]) -> T:
        import pynvml

        fresh = not self._started
        try:
            self._start()
            return question(pynvml)
        except pynvml.NVMLError as error:
            self._stop()
            if fresh or error.value not in _RELOADED:
                raise NoDevice(_NO_DEVICE.get(error.value, f"NVML answers {_said(error)}.")) from error
        # The driver was reloaded since the last question. The indices may mean other GPUs now.
        self._seen.clear()
        return self._ask(question)

    def _start(self) -> None:
        import pynvml

        if not self._started:
            pynvml.nvmlInit()
            self._started = True

    def _stop(self) -> None:
        import pynvml

        if self._started:
            self._started = False
            with suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()

    def _all(self, nvml: Any) -> tuple[Device, ...]:
        devices = tuple(device for index in range(nvml.nvmlDeviceGetCount()) for device in self._gpu(nvml, index))
        if not devices or any(device.problem for device in devices):
            # Every program that holds NVML open is in the way of `nvidia-smi --gpu-reset`, and one that has seen a GPU
            # as lost may never see it come back. So let go, and look afresh the next time.
            self._stop()
        if not devices:
            raise NoDevice(_NO_GPU)
        return devices

    def _gpu(self, nvml: Any, index: int) -> list[Device]:
        """The GPU with this index, or instead of it its MIG instances."""
        before = self._seen.get(index) or [_nameless(index)]
        totals = {device.uuid: device.total for device in before}
        try:
            chip = nvml.nvmlDeviceGetHandleByIndex(index)
            who = index, nvml.nvmlDeviceGetUUID(chip)
            gpu = self._chips.get(who) or self._chips.setdefault(who, _chip(nvml, chip, *who))
            parts = _parts(nvml, gpu, chip)
        except nvml.NVMLError as error:
            found = [_broken(device, error) for device in before]
        else:
            found = [_measured(nvml, device, handle, totals.get(device.uuid, 0)) for device, handle in parts]
        self._seen[index] = found
        return found


def _chip(nvml: Any, chip: Any, index: int, uuid: str) -> Device:
    return Device(
        uuid=uuid,
        label=str(index),
        name=nvml.nvmlDeviceGetName(chip),
        index=index,
        kind="gpu",
        total=0,
        free=0,
        capability=_try(nvml, "nvmlDeviceGetCudaComputeCapability", chip),
    )


def _parts(nvml: Any, gpu: Device, chip: Any) -> list[tuple[Device, Any]]:
    """The GPU, or its MIG instances; each with its handle."""
    # Not `_try`: a GPU that MIG has divided must not pass for a whole one because of a passing error.
    mode = _offered(nvml, "nvmlDeviceGetMigMode", chip)
    if mode is None or not mode[0]:
        return [(gpu, chip)]
    parts: list[tuple[Device, Any]] = []
    for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(chip)):
        handle = _offered(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", chip, place)
        if handle is not None:
            uuid, name = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
            parts.append((replace(gpu, uuid=uuid, name=name, label=f"{gpu.index}:{place}", kind="mig"), handle))
    return parts or [(replace(gpu, problem=_NO_INSTANCE), chip)]


def _measured(nvml: Any, device: Device, handle: Any, before: int) -> Device:
    """The device as it is now; of one that cannot be read, the size that it had before."""
    try:
        total, free, reserved = _memory(nvml, handle)
        busy, power = _load(nvml, handle)
        return replace(
            device,
            total=total,
            free=0 if device.problem else free,
            reserved=reserved,
            processes=_processes(nvml, handle),
            utilisation=busy,
            temperature=_temperature(nvml, handle),
            power=power,
        )
    except nvml.NVMLError as error:
        return _broken(replace(device, total=before), error)


def _load(nvml: Any, handle: Any) -> tuple[int | None, float | None]:
    rates = _try(nvml, "nvmlDeviceGetUtilizationRates", handle)
    milliwatts = _try(nvml, "nvmlDeviceGetPowerUsage", handle)
    return None if rates is None else rates.gpu, None if milliwatts is None else milliwatts / 1000


def _broken(device: Device, error: Any) -> Device:
    """What is still known of a GPU that cannot be read; the error goes on if it concerns all of them."""
    if error.value in _OF_THE_DRIVER:
        raise error
    problem = _PROBLEM.get(error.value, "GPU cannot be read: NVML answers {said}.")
    problem = problem.format(index=device.index, said=_said(error))
    return replace(device, free=0, processes=(), utilisation=None, temperature=None, power=None, problem=problem)


def _said(error: Any) -> str:
    return repr(str(error).rstrip("."))


def _nameless(index: int) -> Device:
    return Device(
        uuid=f"GPU-unreadable-{index}",
        label=str(index),
        name="unreadable GPU",
        index=index,
        kind="gpu",
        total=0,
        free=0,
    )


def _offered(nvml: Any, function: str, *arguments: object) -> Any:
    """What NVML answers, or None where this GPU, driver or pynvml has no such thing."""
    if not hasattr(nvml, function):
        return None
    try:
        return getattr(nvml, function)(*arguments)
    except nvml.NVMLError as error:
        if error.value in _NOT_OFFERED:
            return None
        raise


def _try(nvml: Any, function: str, *arguments: object) -> Any:
    """A reading one can do without, or None: power or temperature may read "unknown error" on a GPU that works well."""
    try:
        return _offered(nvml, function, *arguments)
    except nvml.NVMLError as error:
        if error.value in _OF_THE_DRIVER | _OF_THE_GPU:
            raise
        return None


def _memory(nvml: Any, handle: Any) -> tuple[int, int, int]:
    """Bytes in total, free and reserved."""
    memory = _try(nvml, "nvmlDeviceGetMemoryInfo", handle, nvml.nvmlMemory_v2)
    if memory is not None:
        return memory.total, memory.free, memory.reserved
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)  # from drivers before 510, which count the reserve as used
    except nvml.NVMLError_NotSupported:
        import psutil

        host = psutil.virtual_memory()  # the chip has no memory of its own: DGX Spark, Jetson
        return host.total, host.available, 0
    return memory.total, memory.free, 0


def _temperature(nvml: Any, handle: Any) -> int | None:
    celsius: int | None = _try(nvml, "nvmlDeviceGetTemperatureV", handle, nvml.NVML_TEMPERATURE_GPU)
    if celsius is None:
        celsius = _try(nvml, "nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU)  # drivers before 570
    return celsius


def _processes(nvml: Any, handle: Any) -> tuple[Process, ...]:
    held: dict[int, int | None] = {}
    for question in _of_processes(nvml.nvmlLib):
        for entry in _try(nvml, question, handle) or ():
            if held.get(entry.pid) is None:  # whoever computes and draws is in both lists, with all its memory in each
                held[entry.pid] = entry.usedGpuMemory
    return tuple(_process(pid, amount) for pid, amount in held.items())


@lru_cache(maxsize=1)  # to look for a name that a library does not have takes long
def _of_processes(library: Any) -> tuple[str, ...]:
    """The questions by which the driver's library tells who holds memory."""
    # Early drivers of series 535 have a longer struct behind the name _v3, which pynvml would read as garbage pids.
    longer = hasattr(library, "nvmlDeviceGetConfComputeMemSizeInfo") and not hasattr(
        library, "nvmlDeviceGetRunningProcessDetailList"
    )
    version = 2 if longer or not hasattr(library, "nvmlDeviceGetComputeRunningProcesses_v3") else 3
    return tuple(f"nvmlDeviceGet{use}RunningProcesses_v{version}" for use in ("Compute", "Graphics", "MPSCompute"))


def _process(pid: int, amount: int | None) -> Process:
    import psutil

    try:
        if (started := start_time_of(pid)) is not None:
            user, since, command = _whose(pid, started)
            return Process(pid, user, amount, since, command)
    except (psutil.Error, OSError):
        pass
    return Process(pid, UNKNOWN_USER, amount)


@lru_cache(maxsize=1024)  # asked once a second, and psutil takes twice as long as the look at its start
def _whose(pid: int, started: int) -> tuple[str, float, str]:
    """Whose process this is, since when, and what it runs; its start tells it from others of the same number."""
    import psutil

    from ..system.users import user_name  # claims read devices

    process = psutil.Process(pid)
    command = ""
    with suppress(psutil.Error, OSError):  # where users do not see each other's processes
        command = " ".join(process.cmdline())[:LONGEST_COMMAND]
    return user_name(process.uids().real), process.create_time(), command


def _driver(nvml: Any) -> DriverFacts:
    cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
    return DriverFacts(nvml.nvmlSystemGetDriverVersion(), f"{cuda // 1000}.{cuda % 1000 // 10}")


_nvml = Nvml()

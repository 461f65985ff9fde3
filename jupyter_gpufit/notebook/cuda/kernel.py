"""The stand-in in one kernel: from the import of torch on, or from %load_ext if that came earlier."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

from ...devices.here import read_devices
from ...devices.nvml import close_nvml
from ...errors import GpufitError
from ...settings import Settings
from ...units import format_bytes
from .compiled import hint
from .hook import AfterImport
from .others import no_gpus_for_others

if TYPE_CHECKING:
    from ...cuda.slot import SlotMode  # these import torch
    from .expected import Expected


_HELD = (
    "This kernel was on a GPU before %load_ext jupyter_gpufit: it holds {held}."
    " To give that back, restart the kernel and put %load_ext jupyter_gpufit first."
)


class KernelCuda:
    """What `cuda` is in this kernel, and why."""

    def __init__(self, shell: InteractiveShell, settings: Settings, say: Callable[[str], None]) -> None:
        self._shell, self._settings, self._say = shell, settings, say
        self._hook = AfterImport("torch", self._torch_is_here)
        self._entered = ExitStack()
        self._mode: SlotMode | None = None
        self._expected: Expected | None = None
        self._context = ""  # what torch held of a GPU before we came
        self._beside = ""  # what another library did

    def begin(self) -> None:
        """Imports nothing heavy."""
        if self._settings.kernel_cuda == "stand-in":
            self._entered.enter_context(no_gpus_for_others(self._shell, self._say))
            self._hook.begin()
            if not self._context and (held := _held_by_this_process(self._settings)):
                self._beside = _HELD.format(held=f"{held} there, without a claim, for a library other than torch")
                self._say(self._beside)

    def end(self) -> None:
        """Let `cuda` be torch's own again."""
        self._hook.end()
        if self._mode is not None:
            self._shell.events.unregister("pre_run_cell", self._stand_in_this_thread)
            self._shell.events.unregister("post_run_cell", self._explain)
            self._mode = None
        self._entered.close()

    def capability(self) -> tuple[int, int] | None:
        """Of every device here, where that is the same, and known."""
        return self._expected.capability() if self._expected is not None else None

    def words(self) -> str:
        """For %gpufit kernel."""
        if self._settings.kernel_cuda == "real":
            return "cuda in this kernel is torch's own, as the setting kernel_cuda says; what is on it has no claim."
        if self._context:
            return self._context
        if self._mode is None:
            said = "cuda in this kernel will be a stand-in once torch is imported, as the setting kernel_cuda says."
        else:
            said = f"cuda in this kernel is a stand-in: it holds no device. {self._on_it()}"
        return f"{said} {self._beside}".rstrip()

    def _on_it(self) -> str:
        assert self._expected is not None
        device = self._expected.device
        of = "There is no device here." if device is None else f"It answers as {device.label} ({device.name})."
        return f"{of} {format_bytes(self._expected.used())} are on it, in the host's memory."

    def _torch_is_here(self) -> None:
        """In the middle of the user's `import torch`, which must not fail with us."""
        try:
            self._stand_in()
        except Exception as error:
            self._context = f"cuda in this kernel is torch's own: the stand-in cannot begin ({error})."
            self._say(self._context)

    def _stand_in(self) -> None:
        import torch

        if torch.cuda.is_initialized():
            self._context = _held()
            self._say(self._context)
            return
        from ...cuda.slot import SlotMode, standing_in
        from ...graph.kinds.loader_iterators import noted
        from .answers import NotebookAnswers
        from .expected import Expected

        expected = self._expected = Expected(self._settings, self._has_computed)
        mode = SlotMode(expected)
        self._entered.enter_context(standing_in(mode, NotebookAnswers(expected)))
        self._entered.enter_context(noted())
        self._mode = mode
        self._shell.events.register("pre_run_cell", self._stand_in_this_thread)
        self._shell.events.register("post_run_cell", self._explain)

    def _has_computed(self) -> None:
        device = self._expected.device if self._expected is not None else None
        there = "a CPU slot" if device is not None and device.kind == "slot" else "a GPU"
        where = "This cell computed on the CPU, in the notebook's own process."
        self._say(f"{where} To use {there}, put %%gpufit train on top of it.")

    def _explain(self, result: ExecutionResult) -> None:
        """Of an error that a library's compiled code makes of the stand-in."""
        said = hint(result.error_in_exec) if result.error_in_exec is not None else ""
        if said and self._expected is not None and self._expected.used():  # which looks at all objects
            self._say(said)

    def _stand_in_this_thread(self, info: object) -> None:
        """Modes belong to a thread: torch may have been imported in another one than cells run in."""
        import torch

        assert self._mode is not None
        if self._mode not in torch.overrides._get_current_function_mode_stack():
            torch.overrides._push_mode(self._mode)


def _held() -> str:
    """A sentence on what torch has of GPUs already in this process, and how it gives that back."""
    import torch

    used = sum(torch.cuda.memory_reserved(index) for index in range(torch.cuda.device_count()))
    return _HELD.format(
        held=f"{format_bytes(used)} there and CUDA's own context, without a claim, and its cuda stays torch's own"
    )


def _held_by_this_process(settings: Settings) -> str:
    """What it holds of GPUs already without torch: jax, TensorFlow and CuPy make contexts, too."""
    try:
        if "libcuda.so" not in Path("/proc/self/maps").read_text():
            return ""  # and the driver, which may take a second to answer, is not asked
        devices = read_devices(settings)
    except (OSError, GpufitError):
        return ""  # who trains hears why
    finally:
        close_nvml()
    mine = [process.bytes or 0 for device in devices for process in device.processes if process.pid == os.getpid()]
    return (format_bytes(sum(mine)) if sum(mine) else "memory") if mine else ""

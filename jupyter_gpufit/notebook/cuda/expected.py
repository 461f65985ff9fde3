"""The device that a training of this kernel would get, and what is on its stand-in here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch.nn.parameter import is_lazy

from ...cuda.surface.asker import asker
from ...devices import sides
from ...devices.card import Card
from ...devices.cards import sheet_of
from ...devices.device import Device
from ...devices.here import read_devices
from ...errors import GpufitError
from ...estimate.asking.target import largest_of, target_of
from ...settings import Settings
from ...system.objects import but_tuples


class Expected:
    """What a `SlotMode` asks of its memory: here there is none, and the memory is that of the device to come.

    Read when it is first asked for: NVML takes a second for a GPU, and most notebooks only ask whether there is one.
    """

    slot = ""  # no slot, but the notebook's own process; see errors.NotOnASlot

    def __init__(self, settings: Settings, on_computed: Callable[[], None]) -> None:
        self._settings = settings
        self._on_computed = on_computed
        self._has_computed = False
        self._peak = 0

    @cached_property
    def _devices(self) -> Sequence[Device]:
        """None where they cannot be read."""
        try:
            return read_devices(self._settings)
        except GpufitError:
            return ()

    @property
    def device(self) -> Device | None:
        """None: there is none, or it cannot be read."""
        return largest_of(self._devices) if self._devices else None

    def capability(self) -> tuple[int, int] | None:
        """Of every device here; None where they differ, or nobody has asked for a device yet."""
        known = vars(self).get("_devices", ())
        found = {sheet_of(device).card.capability for device in known}
        return found.pop() if len(found) == 1 else None

    @cached_property
    def card(self) -> Card:
        assert self.device is not None
        return target_of(self._settings, self.device).card

    @property
    def total(self) -> int:
        return 0 if self.device is None else self.device.total

    def free(self) -> int:
        """Bytes of the device that nobody has, as they are now."""
        try:
            now = [one for one in read_devices(self._settings) if self.device and one.uuid == self.device.uuid]
        except GpufitError:
            return 0
        return now[0].free if now else 0

    # What a mode tells and asks

    def computed(self) -> None:
        # To be shown is no computation, and what we do when a training's results come back is not the notebook's.
        if not self._has_computed and not asker(above=2).startswith(("torch._tensor_str.", "jupyter_gpufit.")):
            self._has_computed = True
            self._on_computed()

    def check(self, asked: int) -> None:
        """The host's memory is what there is; it says itself where that ends."""

    def exceeded(self, asked: int = 0) -> torch.OutOfMemoryError:
        return torch.OutOfMemoryError(
            "The host's memory, where the notebook's own `cuda` keeps its tensors, cannot hold so many more bytes"
            f" ({asked:,}). Put %%gpufit train on top of the cell to have a GPU's."
        )

    def used(self) -> int:
        """Bytes on the stand-in. Nothing counts them while they come and go: that would cost every operation."""
        found: dict[int, int] = {}
        for one in but_tuples():
            if not issubclass(type(one), torch.Tensor) or is_lazy(one):
                continue
            if one.layout is torch.strided and not one.is_meta:
                storage = one.untyped_storage()
                if sides.on_device(storage):
                    found[storage.data_ptr()] = storage.nbytes()
        now = sum(found.values())
        self._peak = max(self._peak, now)
        return now

    def peak(self) -> int:
        self.used()
        return self._peak

    recent_peak = peak

    def forget_peak(self) -> None:
        self._peak = 0

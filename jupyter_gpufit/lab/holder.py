"""What a holder does as long as it holds: note the use, and hear what the lab has to say to it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import anyio

from ..system.users import user_name
from ..units import device_words
from .grant import Granted
from .standing import forget_old_standings
from .watch import LabWatch
from .wishes import Wish, new_wishes

MARK_EVERY = 300.0  # seconds of use that a killed job may leave uncounted
PAUSE = 1.0  # seconds between two looks, however busy the lab is


class LooksOn(Protocol):
    """Whoever else wants to see each change of the lab."""

    async def look(self) -> float:
        """See what there is now; in how many seconds again, if nothing happens."""

    def close(self) -> None:
        """It holds no more."""


async def keep(granted: Granted, tell: Callable[[str], None], other: LooksOn | None = None) -> None:
    """Mark the use every few minutes, and tell of wishes and of a lab that was emptied; until cancelled."""
    keeper = _Keeper(granted, tell, other)
    forget_old_standings(granted.lab.path)
    try:
        await _keep(keeper)
    finally:
        if other is not None:
            other.close()


async def _keep(keeper: _Keeper) -> None:
    while True:
        with suppress(OSError):  # the lab is gone, or it is full: no reason to end a training
            await keeper.watch()
        await anyio.sleep(MARK_EVERY)


@dataclass
class _Keeper:
    granted: Granted
    tell: Callable[[str], None]
    other: LooksOn | None = None
    told: dict[int, Wish] = field(default_factory=dict)  # by the uid of who wishes
    gone: bool = False

    async def watch(self) -> None:
        marked = anyio.current_time()
        with LabWatch(self.granted.lab.path) as watch:
            while True:
                self._hear()
                again = await self.other.look() if self.other is not None else MARK_EVERY
                again = min(again, PAUSE) if self.gone else again
                await watch.changed(max(0.0, min(again, marked + MARK_EVERY - anyio.current_time())))
                if anyio.current_time() >= marked + MARK_EVERY:
                    marked = anyio.current_time()
                    self.granted.mark()
                # Whoever comes new must not find the device free meanwhile.
                if self.gone or self.granted.still_there:
                    await anyio.sleep(PAUSE)

    def _hear(self) -> None:
        if not self.granted.still_there:
            self._come_back()
        with suppress(OSError):  # the lab is gone: nobody wishes anything there
            for wish in new_wishes(self.granted.lab.path, self.granted.claim, self.told):
                self.told[wish.uid] = wish
                self.tell(_wished(self.granted, wish))

    def _come_back(self) -> None:
        lab, where = self.granted.lab.path, _where(self.granted)
        try:
            self.granted.come_back()
        except OSError:
            if not self.gone:
                self.tell(
                    f"Somebody emptied the lab {lab}, and nobody sees any more that you use {where}. It is claimed"
                    " again as soon as the lab is there."
                )
            self.gone = True
        else:
            self.gone = False
            self.tell(f"Somebody emptied the lab {lab}. You hold {where} as before: it is claimed again.")


def _where(granted: Granted) -> str:
    return device_words([device.label for device in granted.devices])


def _wished(granted: Granted, wish: Wish) -> str:
    name = granted.claim.request.name
    if wish.orders:
        return (
            f"The lab's administrator wants {_where(granted)} back. A job that can be saved is saved and leaves the"
            " device by itself. End any other job yourself."
        )
    return (
        f"{user_name(wish.uid)} asks you to release {_where(granted)} (gpufit release {name}). Your job runs on until"
        " you release it."
    )

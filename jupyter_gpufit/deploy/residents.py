"""Which models' weights are on the device, and which leave for another one's; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Residents:
    """Of one device."""

    sizes: Sequence[int] = (0,)  # bytes of each model's weights
    room: int = 0  # bytes for all of them together
    _inside: dict[int, None] = field(default_factory=dict)  # the one that was used longest ago comes first

    def __contains__(self, model: int) -> bool:
        return model in self._inside or not self.sizes[model]

    @property
    def all_there(self) -> bool:
        return all(one in self for one in range(len(self.sizes)))

    @property
    def inside(self) -> tuple[int, ...]:
        return tuple(self._inside)

    def copy(self) -> Residents:
        return Residents(self.sizes, self.room, dict(self._inside))

    def use(self, model: int, wanted: Sequence[int] = ()) -> list[int]:
        """Have it there, as the one used last; which others leave.

        First those that nobody wants, the one used longest ago before the others; then those `wanted` latest.
        """
        self._inside.pop(model, None)
        soon = {one: place for place, one in reversed(list(enumerate(wanted)))}  # its first wish counts
        leaving = []
        order = sorted(self._inside, key=lambda one: -soon.get(one, len(wanted)))  # stable: else by last use
        taken = sum(self.sizes[one] for one in self._inside)
        for one in order:
            if taken + self.sizes[model] <= self.room:
                break
            taken -= self.sizes[one]
            del self._inside[one]
            leaving.append(one)
        self._inside[model] = None
        return leaving

    def room_beside(self, model: int, running: int) -> bool:
        """Whether its weights can be there while that one runs."""
        return self.sizes[model] + self.sizes[running] <= self.room

    def use_soon(self, model: int, running: int, wanted: Sequence[int]) -> list[int] | None:
        """Have it there while another one runs; which others leave. None where it has no room.

        Neither the one that runs leaves for it, nor one that is wanted before it.
        """
        stays = {running, *wanted[: wanted.index(model)]}
        soon = {one: place for place, one in reversed(list(enumerate(wanted)))}
        order = sorted(
            [one for one in self._inside if one not in stays], key=lambda one: -soon.get(one, len(wanted))
        )  # stable, as above
        taken, leaving = sum(self.sizes[one] for one in self._inside), []
        for one in order:
            if taken + self.sizes[model] <= self.room:
                break
            taken -= self.sizes[one]
            leaving.append(one)
        if taken + self.sizes[model] > self.room:
            return None
        for one in leaving:
            del self._inside[one]
        self._inside[model] = None
        return leaving

    def gone(self, model: int) -> None:
        """It has not come."""
        self._inside.pop(model, None)

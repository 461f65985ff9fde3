"""A model's forward in each of its three ways: of the whole batch, with this rank's samples, and for the first time."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from ...errors import CannotPart
from .drawn import OfTheWhole, Unlike
from .forward import WithRows, WithTheWhole
from .given import BatchGiven, Leaves, batch_of, difference, first_samples, fits, guesses
from .group import Group, ShapesOnly
from .leaves import Unseen, leaves_of
from .parts import BatchShare, Rows, mark, rows_of, share_of, whole_of
from .passages import cut
from .samples import settle, settle_in
from .script import Script
from .sight import AsItIs, Sight
from .state import Dropped, LookedAt, drawn_until_now, sizes_of, tried


@dataclass(frozen=True)
class Runs:
    """The ways that one model is run."""

    group: Group
    sight: Sight
    real: Callable[..., Any]
    module: nn.Module

    @property
    def name(self) -> str:
        return type(self.module).__name__

    def plain(self, given: BatchGiven) -> Any:
        """By each rank, of the whole batch."""
        args, kwargs = given.put({})
        return self.real(self.module, *args, **kwargs)

    def with_rows(self, given: BatchGiven, guess: dict[int, int], script: Script, *, learns: bool = False) -> Any:
        """By each rank, of its own samples; what comes out is of all."""
        share = share_of(batch_of(given, guess), self.group)
        with self.sight.inside(AsItIs()):
            parts = {at: cut(self.group, given.leaves[at], dim, share.sizes) for at, dim in guess.items()}
            if learns or script.changes:  # else they share the memory of what the cell has
                parts = {at: part if part.requires_grad else part.clone() for at, part in parts.items()}
            versions = {at: part._version for at, part in parts.items()}
            if self.sight.kept:
                settle_in(self.module, partial(self._as_kept, share))
            forward = WithRows(self.group, share, script, self._parameters(), learns=learns)
        for at, part in parts.items():
            mark(part, Rows(guess[at], share.sizes))
        forward.knows(leaf for _, leaf in given.tensors)
        args, kwargs = given.put(parts)
        try:
            with self.sight.inside(forward), forward.drawing():
                made = self.real(self.module, *args, **kwargs)
            forward.finished()
        except (torch.OutOfMemoryError, CannotPart):
            raise
        except Exception:
            forward.told(ended=False)
            raise
        forward.told(ended=True)
        with self.sight.inside(AsItIs()):
            for at, part in parts.items():
                if part._version != versions[at]:
                    script.changes = True
                    self._hand_back(given.leaves[at], part)
            settle_in(self.module, self._kept_whole)
            return self._put_together(settle(made))

    def _kept_whole(self, t: torch.Tensor) -> torch.Tensor:
        """A state, say. What belongs to a graph is made whole by who looks at it: it is used at once, or never."""
        if t.requires_grad or rows_of(t) is None:
            return t
        whole = whole_of(self.group, t)
        self.sight.kept[whole] = t
        return whole

    def _as_kept(self, share: BatchShare, t: torch.Tensor) -> torch.Tensor:
        """This rank's rows of it, if it is what the last call has left, of a batch of that size."""
        found: torch.Tensor | None = self.sight.kept.get(t)
        rows = None if found is None else rows_of(found)
        return t if found is None or rows is None or rows.sizes != share.sizes else found

    def _parameters(self) -> list[torch.Tensor]:
        """Not those whose gradients may be sparse: each of these is summed by itself."""
        sparse = {id(one.weight) for one in self.module.modules() if getattr(one, "sparse", False) is True}
        return [p for p in self.module.parameters() if id(p) not in sparse]

    def _hand_back(self, given: torch.Tensor, part: torch.Tensor) -> None:
        """What it was given is what it has made of it, in place, also for a backward."""
        given.copy_(whole_of(self.group, part))

    def whole_leaves(self, leaves: Leaves) -> Leaves:
        """To be compared; where the ranks have not the same, no rank waits for another."""
        found = [(way, type(one), rows_of(one) if isinstance(one, torch.Tensor) else None) for way, one in leaves]
        said = self.group.all_gather(torch.tensor([zlib.crc32(repr(found).encode())]))
        if any(int(one) != int(said[0]) for one in said):
            raise Unlike("it makes something else on each device")
        with self.sight.inside(AsItIs()), torch.no_grad():
            return [(way, whole_of(self.group, one) if isinstance(one, torch.Tensor) else one) for way, one in leaves]

    def _put_together(self, made: Any) -> Any:
        """Each tensor once, so that what was one stays one."""
        known: dict[int, torch.Tensor] = {}

        def whole(t: torch.Tensor) -> torch.Tensor:
            if rows_of(t) is None:
                return t
            if id(t) not in known:
                known[id(t)] = whole_of(self.group, t)
            return known[id(t)]

        return tree_map_only(torch.Tensor, whole, made)


@dataclass(frozen=True)
class _Whole:
    """What a run with the whole batch came to; the model is as before."""

    made: Leaves
    left: Leaves
    script: Script
    buffers: Leaves
    parameters: Leaves  # two numbers of each
    drawn: Any

    def differs(self, runs: Runs, made: Any, before: LookedAt) -> str:
        if drawn_until_now() != self.drawn:
            return "it draws random numbers that depend on the size of the batch"
        return (
            difference(runs.whole_leaves(leaves_of(made)), self.made, "what it returns")
            or difference(_buffers(runs.module), self.buffers, "its buffers")
            or difference(_parameters(runs.module), self.parameters, "what its forward makes of its parameters")
            or difference(runs.whole_leaves(before.changed()), self.left, "what it leaves in attributes")
        )


def learned(runs: Runs, given: BatchGiven, known: dict[int, int] | None) -> tuple[dict[int, int], Script, Any]:
    """Where the samples are (nowhere: all ranks compute it whole), how each function goes with them, and the result."""
    name, module = runs.name, runs.module
    before, why = LookedAt(module), ""
    tries = [known] if known is not None else guesses(module, given)
    tested, whole = _affordable(runs, given, tries[0], before)
    best: tuple[int, dict[int, int], Script] | None = None
    for guess in tries:
        if not fits(tested, guess) or batch_of(tested, guess) < runs.group.size:
            continue
        script = whole.script.again()
        try:
            made = runs.with_rows(tested, guess, script, learns=True)
            differs = "" if isinstance(runs.group, ShapesOnly) else whole.differs(runs, made, before)
            if not differs and not script.parts:
                differs = "most of what it computes goes over the whole batch"
        except torch.OutOfMemoryError:
            raise
        except CannotPart:
            before.restore()
            raise
        except Unlike as error:
            differs = str(error)
        except Exception as error:
            differs = f"{type(error).__name__}: {error}"
        if _somewhere(runs.group, bool(differs)):  # all ranks go on alike
            differs = differs or "on another device it does not come to what the whole batch makes"
        if not differs and not script.wholes and tested is given:
            return guess, script, made
        before.restore()
        if not differs and (best is None or script.wholes < best[0]):
            best = script.wholes, guess, script
        why = why or differs
    if best is not None:
        return *best[1:], runs.with_rows(given, *best[1:])
    if all(t.dim() < 2 for _, t in given.tensors):  # one sample, with nothing to tell it from a batch
        return {}, Script(), runs.plain(given)
    raise CannotPart(name, why or "it is not given samples that can be parted")


def _affordable(runs: Runs, given: BatchGiven, guess: dict[int, int], before: LookedAt) -> tuple[BatchGiven, _Whole]:
    """Of the whole batch, or of as many of its samples as there is memory for on all ranks."""
    tested, size = given, runs.group.size
    if isinstance(runs.group, ShapesOnly):  # what a run needs, and not what it takes for this where there is room
        tested = first_samples(given, guess, min(batch_of(given, guess), 2 * size))
    while True:
        whole = None
        try:
            whole = _whole_run(runs, tested, before, is_cells=tested is given)
        except torch.OutOfMemoryError:
            if batch_of(tested, guess) < 2 * size:
                raise
        except (CannotPart, Unlike):
            raise
        except Exception as error:
            if tested is given:
                raise
            if isinstance(runs.group, ShapesOnly):
                tested = given  # it takes batches of one size
                continue
            if batch_of(tested, guess) < 2 * size:
                raise CannotPart(runs.name, f"fewer samples cannot be compared: {error}") from None
        if not _somewhere(runs.group, whole is None):
            assert whole is not None
            return tested, whole
        del whole
        tested = first_samples(given, guess, max(batch_of(tested, guess) // 2 // size, 1) * size)


def _somewhere(group: Group, here: bool) -> bool:
    if isinstance(group, ShapesOnly):
        return here
    found = torch.tensor([float(here)])
    group.all_reduce(found)
    return bool(found.item())


def _whole_run(runs: Runs, given: BatchGiven, before: LookedAt, *, is_cells: bool) -> _Whole:
    """Where the cell's own error comes up, it comes up from a run as it is, with what that prints."""
    try:
        try:
            with tried():
                return _noted(runs, given, before)
        except Dropped:
            before.restore()
            return _noted(runs, given, before)
        finally:
            before.restore()
    except (torch.OutOfMemoryError, CannotPart, Unlike):
        raise
    except Exception:
        if is_cells:
            runs.plain(given)
        raise


def _noted(runs: Runs, given: BatchGiven, before: LookedAt) -> _Whole:
    script = Script()
    # It may change them in place, and that twice; a trial run counts no copies.
    copies = {} if isinstance(runs.group, ShapesOnly) else {at: t.clone() for at, t in given.tensors}
    args, kwargs = given.put(copies)
    with runs.sight.inside(WithTheWhole(runs.group, script)), OfTheWhole(script.draws, before.about_to_write):
        made = runs.real(runs.module, *args, **kwargs)
    try:
        returned = leaves_of(made)
    except Unseen as kind:
        raise CannotPart(runs.name, f"it returns a {kind}, into which nobody can look") from None
    left, buffers = _detached(before.changed()), _buffers(runs.module, copy=True)
    return _Whole(_detached(returned), left, script, buffers, _parameters(runs.module), drawn_until_now())


def _detached(leaves: Leaves) -> Leaves:
    return [(way, one.detach() if isinstance(one, torch.Tensor) else one) for way, one in leaves]


def _parameters(module: nn.Module) -> Leaves:
    return [(f" {at}", one) for at, one in enumerate(sizes_of(module))]


def _buffers(module: nn.Module, *, copy: bool = False) -> Leaves:
    return [(way, b.detach().clone() if copy else b.detach()) for way, b in module.named_buffers()]

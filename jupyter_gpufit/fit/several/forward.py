"""A forward's calls: noted with the whole batch, then made with this rank's rows.

Each tensor in a forward is whole or rows (parts.py). A call that is given nothing of the batch is made by all ranks
alike. One that makes rows of rows is made of one's own; where whole tensors come beside rows, they pass `meet`. Sums,
means, losses and BatchNorm know their way. Anything else is computed of whole tensors by all, which is always right.
Which way a call goes follows from the shapes that it makes of the whole batch and of rows, seen once.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any

import torch

from . import losses
from .beside import EMBEDDINGS, cuts_of, goes_over, renormed, sized, with_cuts
from .drawn import OfRows, Unlike
from .functions import (
    HOOKS,
    SIZES,
    UNMET,
    VALUES,
    VIEWS,
    is_alike,
    is_by_value,
    is_in_place,
    made_by,
    name_of,
    tensors_in,
    with_tensors,
)
from .group import Group, ShapesOnly
from .norms import batch_norm
from .parts import BatchShare, Rows, mark, rows_of
from .passages import add, buckets, cut, grads_needed, join, meet
from .pieces import IN_PIECES, is_large, weight_of
from .samples import ARITHMETIC, whole_number
from .script import Along, Cuts, Script, ScriptLine, Way
from .sight import with_whole

_FAILS = object()
_GOES_ON, _ENDED, _FAILED = range(3)  # what ranks say to each other that learn together


class WithTheWhole:
    """Notes what is called; what rows an earlier forward has left are made whole."""

    def __init__(self, group: Group, script: Script) -> None:
        self._group, self._script = group, script

    def call(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        if _are_rows((args, kwargs)):
            args, kwargs = with_whole(self._group, args), with_whole(self._group, kwargs)
        out = func(*args, **kwargs)
        name = name_of(func)
        shapes = [tuple(t.shape) for t in made_by(name, args, kwargs, out)]
        if not shapes and name.startswith("."):
            return out  # an attribute that is no tensor
        self._script.calls.append(ScriptLine(name, shapes))
        return out


class WithRows:
    """Makes the calls of a script; `learns`: finds the ways that they go."""

    def __init__(
        self,
        group: Group,
        share: BatchShare,
        script: Script,
        parameters: Iterable[torch.Tensor] = (),
        *,
        at: tuple[int, int] = (0, 0),
        learns: bool = False,
    ) -> None:
        self.group, self.share, self.script = group, share, script
        self._at, self._learns = at[0], learns
        self._known: dict[
            int, torch.Tensor
        ] = {}  # while it learns: whatever a call has made, or was given to the model
        self._failed = False  # on another rank: there is nobody any more to agree with
        self._drawing = OfRows(script.draws, share, group, at=at[1], learns=learns) if script.draws.made else None
        self._met: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # by the whole one's id, with it
        trained = [p for p in parameters if p.requires_grad and not is_large(p)]
        self._buckets = {id(p): one for one in buckets(trained) for p in one}

    def knows(self, tensors: Iterable[torch.Tensor]) -> None:
        """Of these it is known whether they are whole."""
        self._known.update((id(t), t) for t in tensors)

    @property
    def at(self) -> tuple[int, int]:
        """So many calls and draws were made."""
        return self._at, self._drawing.at if self._drawing else 0

    def drawing(self) -> AbstractContextManager[Any]:
        """To be entered around its calls."""
        return self._drawing or nullcontext()

    def call(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        name = name_of(func)
        if name.startswith(".") and not isinstance(out := func(*args, **kwargs), torch.Tensor):
            return sized(out, *args)
        if name in SIZES:
            self.script.line(self._at, name)
            self._at += 1
            return sized(func(*args, **kwargs), *args, **kwargs)
        if func in EMBEDDINGS:
            args, kwargs = renormed(self.group, func, args, kwargs)
        if name in ARITHMETIC and not _are_counted(args):
            args, kwargs = tuple(map(whole_number, args)), {key: whole_number(one) for key, one in kwargs.items()}
        line, self._at = self.script.line(self._at, name), self._at + 1
        with_rows = _are_rows((args, kwargs))
        if with_rows and name in HOOKS:
            return self._hook(name, *args, **kwargs)
        if self._learns:
            if self._failed:
                raise Unlike("on another device it goes another way")
            return self._learn(line, with_rows, func, args, kwargs)
        if line.way == "plain":
            if with_rows and line.shapes:
                raise Unlike(f"{name} is given samples where it was not")
            return func(*args, **kwargs)
        args, kwargs = with_cuts(self.group, self.share, line.cuts, args, kwargs)
        out = self._go(line.way, name, func, args, kwargs)
        self._mark(line, made_by(name, args, kwargs, out), (args, kwargs))
        return out

    def _hook(self, name: str, t: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """A function that looks at a gradient is shown that of all samples."""
        rows = rows_of(t)
        if name != "register_hook" or rows is None or rows.outer > 1 or not rows.sizes:
            raise Unlike("it looks at gradients inside of it")
        group, (hook,) = self.group, (*args, *kwargs.values())

        def of_rows(grad: torch.Tensor) -> torch.Tensor | None:
            made = hook(join(group, grad, rows.dim, rows.sizes))
            return None if made is None else cut(group, made, rows.dim, rows.sizes)

        return t.register_hook(of_rows)

    def finished(self) -> None:
        """All calls have been made."""
        if self._at != len(self.script.calls):
            raise Unlike("it ends before it did")
        if self._drawing:
            self._drawing.finished()

    @property
    def learns(self) -> bool:
        return self._learns

    def told(self, *, ended: bool) -> None:
        """Say to those who learn with this rank how its run ended: they may be in the middle of theirs."""
        if self._learns and not self._failed:
            self._tell(_ENDED if ended else _FAILED, 0, 0)

    def _tell(self, state: int, exactly: int, about: int) -> list[tuple[int, int, int]]:
        """What each of them says at the same time; Unlike where one of them has failed."""
        if isinstance(self.group, ShapesOnly):
            return [(state, exactly, about)]
        said = [tuple(one.tolist()) for one in self.group.all_gather(torch.tensor([state, exactly, about]))]
        if state != _FAILED and any(one[0] != state for one in said):
            self._failed = True
            raise Unlike("on another device it goes another way")
        return said

    def _go(self, way: Way, name: str, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        group = self.group
        if way == "alike":
            return func(*args, **kwargs)
        if way == "whole":
            return func(*with_whole(group, args), **with_whole(group, kwargs))
        given = args, kwargs
        args, kwargs = self._with_met(name, args, kwargs)
        if way == "loss":
            return losses.loss(group, name, func, args, kwargs)
        rows = next((rows for t in tensors_in(given) if (rows := rows_of(t)) is not None), None)
        if way == "norm":
            assert rows is not None
            bound = losses.bound(func, args, kwargs)
            return batch_norm(group, rows, bound["input"], bound)
        out = func(*args, **kwargs)
        if way == "sum":
            return add(group, out)
        return losses.mean(group, out, rows) if way == "mean" else out

    def _with_met(self, name: str, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if name in UNMET:
            return args, kwargs
        kept, matrix = 1 if is_in_place(name) else 0, weight_of(name, args, kwargs) if name in IN_PIECES else None

        def meets(t: torch.Tensor) -> torch.Tensor:
            return t if t is matrix else self._meets(t)

        return (*args[:kept], *with_tensors(meets, args[kept:])), with_tensors(meets, kwargs)

    def _meets(self, t: torch.Tensor) -> torch.Tensor:
        if not grads_needed(t) or rows_of(t) is not None:
            return t
        if self._learns and not t.is_leaf and id(t) not in self._known:
            raise Unlike("it computes something by functions that nobody sees")  # it may be rows
        if id(t) not in self._met:
            # Not sooner: autograd goes back by the order of making, and all gradients would wait for its end.
            bucket = self._buckets.get(id(t), [t])
            for one, met in zip(bucket, meet(self.group, bucket), strict=True):
                self._met[id(one)] = one, met
        return self._met[id(t)][1]

    def _mark(self, line: ScriptLine, made: Sequence[torch.Tensor], given: Any) -> None:
        if len(made) != len(line.along):
            raise Unlike(f"{line.name} makes another number of tensors")
        for t, along in zip(made, line.along, strict=True):
            if along is None:
                mark(t, None)
            elif along.by_value:
                mark(t, Rows(along.dim, ()))
            else:
                outer = _outer(line.name, given, t, along.dim)
                mark(t, Rows(along.dim, self._sizes(line.name, t, along.dim, outer), outer))

    def _sizes(self, name: str, t: torch.Tensor, dim: int, outer: int) -> tuple[int, ...]:
        if t.dim() <= dim or t.shape[dim] % (self.share.mine * outer):
            raise Unlike(f"what {name} makes does not follow the batch")
        each = t.shape[dim] // (self.share.mine * outer)
        return tuple(size * each for size in self.share.sizes)

    def _learn(
        self, line: ScriptLine, with_rows: bool, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> Any:
        out = self._learn_with(line, func, args, kwargs) if with_rows else self._learn_without(line, func, args, kwargs)
        self.knows(made_by(line.name, args, kwargs, out))
        return out

    def _learn_with(self, line: ScriptLine, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        name = line.name
        way, along, out = self._tried(line, func, args, kwargs)
        line.way, line.along = self._agreed(way, along, len(line.shapes), line.cuts)
        line.cuts = line.cuts if line.way == "rows" else ()  # another rank may have found no rows
        args, kwargs = with_cuts(self.group, self.share, line.cuts, args, kwargs)
        if line.way != way or way in ("sum", "mean", "loss", "norm", "whole"):
            out = self._go(line.way, name, func, args, kwargs)
        if line.shapes:
            self._mark(line, made_by(name, args, kwargs, out), (args, kwargs))
        return out

    def _learn_without(self, line: ScriptLine, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """What is made by the batch's size alone, as zeros for each sample, is rows, too."""
        out = func(*args, **kwargs)
        made = made_by(line.name, args, kwargs, out)
        along = self._along(line, made)
        line.way, line.along = self._agreed("rows" if along and any(along) else "plain", along or [], len(line.shapes))
        if line.way != "rows":
            line.way = "plain"
            return out
        if any(grads_needed(t) for t in tensors_in((args, kwargs))):
            out = self._go("rows", line.name, func, args, kwargs)
            made = made_by(line.name, args, kwargs, out)
        self._mark(line, made, (args, kwargs))
        return out

    def _tried(
        self, line: ScriptLine, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> tuple[Way, list[Along | None], Any]:
        """The way of a call that is given rows, and what it made of them where that is what is wanted."""
        name, nowhere = line.name, [None] * len(line.shapes)
        if name in VALUES:
            return "whole", [], None
        if name == "batch_norm" and losses.bound(func, args, kwargs)["training"]:
            rows = rows_of(losses.bound(func, args, kwargs)["input"])
            of_samples = rows is not None and rows.dim == 0 and rows.sizes
            return ("norm", [Along(0)], None) if of_samples else ("whole", list(nowhere), None)
        if line.shapes == [()] and losses.is_loss(name, func, args, kwargs):
            return "loss", list(nowhere), None
        if name == "instance_norm" and losses.bound(func, args, kwargs)["running_mean"] is not None:
            return "whole", list(nowhere), None
        if name.startswith("unique") or goes_over(name, func, args, kwargs):
            return "whole", list(nowhere), None
        if is_in_place(name) and not self._all_rows(line, func, args, kwargs):
            return "whole", list(nowhere), None
        drawn = self.at[1]
        found, out = self._as_rows(line, func, args, kwargs)
        if found is not None:
            return "rows", found, out
        for cuts in cuts_of(self.share, args, kwargs) if self.at[1] == drawn and not is_in_place(name) else ():
            found, cut_out = self._as_rows(line, func, *with_cuts(self.group, self.share, cuts, args, kwargs))
            if found is not None and self.at[1] == drawn:
                line.cuts = cuts
                return "rows", found, cut_out
        if out is _FAILS:
            return "whole", list(nowhere), None  # which raises it again, where it is the cell's own
        made = made_by(name, args, kwargs, out)
        same = bool(made) and [tuple(t.shape) for t in made] == line.shapes
        if same and is_alike(name, args, rows_of(made[0]) is not None or _are_rows(args[:1])):
            return "alike", list(nowhere), out
        if len(made) == 1 and [tuple(made[0].shape)] == line.shapes and name in ("sum", "mean"):
            rows = rows_of(args[0]) if isinstance(args[0], torch.Tensor) else None
            if rows is not None and (rows.sizes or name == "sum"):
                return ("sum" if name == "sum" else "mean"), list(nowhere), None
        return ("whole", list(nowhere), None) if made else ("plain", [], out)

    def _as_rows(
        self, line: ScriptLine, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> tuple[list[Along | None] | None, Any]:
        """Where rows are in what it makes of rows, if all of that is some; and what it makes."""
        try:
            met, named = self._with_met(line.name, args, kwargs)
            out = func(*met, **named)
        except torch.OutOfMemoryError:
            raise
        except Exception:
            return None, _FAILS
        by_value = is_by_value(line.name, args, kwargs) or _of_some(line.name, args, kwargs)
        made = made_by(line.name, args, kwargs, out)
        along = self._along(line, made, by_value=by_value)
        if not along or not all(along) or not _keeps_order(line.name, (args, kwargs), made, along):
            return None, out
        return along, out

    def _all_rows(self, line: ScriptLine, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> bool:
        along = self._along(line, made_by(line.name, args, kwargs, None))
        return bool(along) and all(along or ())

    def _along(
        self, line: ScriptLine, made: Sequence[torch.Tensor], *, by_value: bool = False
    ) -> list[Along | None] | None:
        """Where the batch is in what was made; None: in no one place."""
        if len(made) != len(line.shapes):
            return None
        found: list[Along | None] = []
        for t, whole in zip(made, line.shapes, strict=True):
            if tuple(t.shape) == whole:
                found.append(None)
                continue
            differ = [dim for dim, size in enumerate(t.shape) if size != whole[dim]] if t.dim() == len(whole) else []
            if len(differ) != 1:
                return None
            dim = differ[0]
            found.append(Along(dim, by_value or t.shape[dim] * self.share.whole != whole[dim] * self.share.mine))
        return found

    def _agreed(
        self, way: Way, along: list[Along | None], made: int, cuts: Cuts = ()
    ) -> tuple[Way, list[Along | None]]:
        """All ranks go one way; shapes that follow values may look like rows to one of them."""
        dims = [one.dim if one else None for one in along]
        said = set(self._tell(_GOES_ON, _sum_of(way, along, cuts), _sum_of(way, dims, cuts)))
        if len(said) == 1:
            return way, along
        if way == "rows" and len({about for _, _, about in said}) == 1:
            return way, [Along(one.dim, True) if one else None for one in along]
        return "whole", [None] * made


def _sum_of(*said: Any) -> int:
    return zlib.crc32(repr(said).encode())


def _of_some(name: str, args: Any, kwargs: Any) -> bool:
    """Whether it computes with rows that were chosen by their values, or chooses by them."""
    there = [rows for t in tensors_in(args[1:] if name == "__getitem__" else (args, kwargs)) if (rows := rows_of(t))]
    return bool(there) and not any(rows.sizes for rows in there)


def _are_counted(given: Any) -> bool:
    """Whether they are whole numbers, as places are: among these a size is this rank's."""
    return any(not (t.is_floating_point() or t.is_complex()) for t in tensors_in(given))


def _are_rows(given: Any) -> bool:
    return any(rows_of(t) is not None for t in tensors_in(given))


def _keeps_order(name: str, given: Any, made: Sequence[torch.Tensor], along: Sequence[Along | None]) -> bool:
    """Whether what looks like rows in a view is: by a wrong number of them it has other numbers in each."""
    if name not in VIEWS:
        return True
    rows = [(t, rows) for t in tensors_in(given) if (rows := rows_of(t)) is not None]
    return all(
        one is None or prod(t.shape[: there.dim]) * there.outer % prod(m.shape[: one.dim]) == 0
        for t, there in rows
        for m, one in zip(made, along, strict=True)
    )


def _outer(name: str, given: Any, made: torch.Tensor, dim: int) -> int:
    """How often all samples come over in this dimension, of which a view may have made one of several."""
    for t in tensors_in(given):
        rows = rows_of(t)
        if rows is not None and (name in VIEWS or rows.outer > 1):
            before, now = prod(t.shape[: rows.dim]) * rows.outer, prod(made.shape[:dim])
            return before // now if name in VIEWS and before % now == 0 else rows.outer
    return 1

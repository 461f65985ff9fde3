"""A forward's calls: noted with the whole batch, then made with this rank's rows.

Each tensor in a forward is whole or rows (parts.py). A call that is given nothing of the batch is made by all ranks
alike. One that makes rows of rows is made of one's own; where whole tensors come beside rows, they pass `meet`. Sums,
means, losses and BatchNorm know their way. Anything else is computed of whole tensors by all, which is always right.
Which way a call goes follows from the shapes that it makes of the whole batch and of rows, seen once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any

import torch

from . import losses
from .drawn import OfRows, Unlike
from .functions import (
    HOOKS,
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
from .passages import add, buckets, cut, join, meet
from .script import WAYS, Along, Script, ScriptLine, Way
from .sight import grads_needed, with_whole


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
        self._drawing = OfRows(script.draws, share, group, at=at[1], learns=learns) if script.draws.made else None
        self._met: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # by the whole one's id, with it
        self._buckets = {id(p): one for one in buckets([p for p in parameters if p.requires_grad]) for p in one}

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
            return out
        line, self._at = self.script.line(self._at, name), self._at + 1
        with_rows = _are_rows((args, kwargs))
        if with_rows and name in HOOKS:
            return self._hook(name, *args, **kwargs)
        if self._learns:
            return self._learn(line, with_rows, func, args, kwargs)
        if line.way == "plain":
            if with_rows and line.shapes:
                raise Unlike(f"{name} is given samples where it was not")
            return func(*args, **kwargs)
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
        kept = 1 if is_in_place(name) else 0
        return (*args[:kept], *with_tensors(self._meets, args[kept:])), with_tensors(self._meets, kwargs)

    def _meets(self, t: torch.Tensor) -> torch.Tensor:
        if not grads_needed(t) or rows_of(t) is not None:
            return t
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
        name = line.name
        if not with_rows:
            return self._learn_without(line, func, args, kwargs)
        way, along, out = self._tried(line, func, args, kwargs)
        line.way, line.along = self._agreed(way, along, len(line.shapes))
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
        if name == "instance_norm" or name.startswith("unique"):
            return "whole", list(nowhere), None
        if is_in_place(name) and not self._all_rows(line, func, args, kwargs):
            return "whole", list(nowhere), None
        try:
            met, named = self._with_met(name, args, kwargs)
            out = func(*met, **named)
        except torch.OutOfMemoryError:
            raise
        except Exception:
            return "whole", list(nowhere), None  # which raises it again, where it is the cell's own
        made = made_by(name, args, kwargs, out)
        along = self._along(line, made, by_value=is_by_value(name, args, kwargs))
        if along and all(along):
            return "rows", along, out
        same = bool(made) and [tuple(t.shape) for t in made] == line.shapes
        if same and is_alike(name, args, rows_of(made[0]) is not None or _are_rows(args[:1])):
            return "alike", list(nowhere), out
        if len(made) == 1 and [tuple(made[0].shape)] == line.shapes and name in ("sum", "mean"):
            rows = rows_of(args[0]) if isinstance(args[0], torch.Tensor) else None
            if rows is not None and (rows.sizes or name == "sum"):
                return ("sum" if name == "sum" else "mean"), list(nowhere), None
        return ("whole", list(nowhere), None) if made else ("plain", [], out)

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

    def _agreed(self, way: Way, along: list[Along | None], made: int) -> tuple[Way, list[Along | None]]:
        """All ranks go one way; shapes that follow values may look like rows to one of them."""
        if isinstance(self.group, ShapesOnly):
            return way, along
        own = [WAYS.index(way), *((1 + 2 * one.dim + one.by_value) if one else 0 for one in along)]
        own = (own + [0] * made)[: made + 1]
        said = {tuple(one.tolist()) for one in self.group.all_gather(torch.tensor(own))}
        if len(said) == 1:
            return way, along
        if way == "rows" and len({(code[0], *((c + 1) // 2 for c in code[1:])) for code in said}) == 1:
            return way, [Along(one.dim, True) if one else None for one in along]
        return "whole", [None] * made


def _are_rows(given: Any) -> bool:
    return any(rows_of(t) is not None for t in tensors_in(given))


def _outer(name: str, given: Any, made: torch.Tensor, dim: int) -> int:
    """How often all samples come over in this dimension, of which a view may have made one of several."""
    for t in tensors_in(given):
        rows = rows_of(t)
        if rows is not None and (name in VIEWS or rows.outer > 1):
            before, now = prod(t.shape[: rows.dim]) * rows.outer, prod(made.shape[:dim])
            return before // now if name in VIEWS and before % now == 0 else rows.outer
    return 1

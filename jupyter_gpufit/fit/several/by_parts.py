"""Operations that each rank does to its part of a tensor, so that nothing is gathered: scaling, norms, sums."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .group import Group

_TO_EACH = frozenset("zero_ fill_ mul_ div_ _foreach_zero_ _foreach_mul_ _foreach_div_".split())  # number by number
_NORMS = frozenset(("linalg_vector_norm", "_foreach_norm"))


def taken(func: Any, args: Any, kwargs: dict[str, Any]) -> torch.Tensor | None:
    """The tensor of which parts suffice; None: they do not, or nobody knows."""
    name = func._opname
    if func.namespace != "aten" or not args or "out" in kwargs or (name != "sum" and name not in _TO_EACH | _NORMS):
        return None
    of = args[0]
    if isinstance(of, (list, tuple)):
        of = of[0] if len(of) == 1 else None
    if not isinstance(of, torch.Tensor) or not of.is_floating_point():
        return None
    if name in _TO_EACH:
        others = [one for one in tree_leaves((args[1:], kwargs)) if isinstance(one, torch.Tensor)]
        return of if all(one.dim() == 0 for one in others) else None
    if name == "sum":
        return of if len(args) == 1 else None
    said = [*args[2:], kwargs.get("dim"), kwargs.get("keepdim")]  # of lists, a dtype
    return of if _order(args, kwargs) > 0 and not any(one not in (None, False) for one in said) else None


def changes(func: Any) -> bool:
    return func._opname in _TO_EACH


def to_part(func: Any, args: Any, kwargs: dict[str, Any], part: torch.Tensor) -> None:
    """Change it as the whole would be."""
    func([part] if isinstance(args[0], (list, tuple)) else part, *args[1:], **kwargs)


def of_parts(group: Group, func: Any, args: Any, kwargs: dict[str, Any], part: torch.Tensor) -> Any:
    """What it makes of the whole, from each rank's part."""
    dtype = kwargs.get("dtype") or part.dtype
    exact = torch.promote_types(dtype, torch.float32)
    if func._opname == "sum":
        own = part.sum(dtype=exact)
        group.all_reduce(own)
        return own.to(dtype)
    order = _order(args, kwargs)
    own = torch.linalg.vector_norm(part, order, dtype=exact) if part.numel() else part.new_zeros((), dtype=exact)
    whole = torch.linalg.vector_norm(torch.stack(group.all_gather(own)), order).to(dtype)
    return [whole] if isinstance(args[0], (list, tuple)) else whole


def _order(args: Any, kwargs: dict[str, Any]) -> float:
    return float(args[1] if len(args) > 1 else kwargs.get("ord", 2))

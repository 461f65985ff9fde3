"""torch's modules that are called: their loops are layers, which nobody leaves, but where one is called with nothing
that a layer would take.

Then its forward may be a whole training: `trainer()`. Nothing but the forward is run where it has no hooks.
"""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

# Hooks of all modules there are; torch asks for the first four, too, before it runs nothing but the forward.
_FOR_ALL = (
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
)
_PLAIN = (int, float, str, type(None))  # numbers of steps, names of files


def forward_of(callee: Any) -> FunctionType | None:
    """What a call of it does, if it is a module and does nothing else."""
    home: Any = sys.modules.get("torch.nn.modules.module")
    if home is None or not isinstance(callee, home.Module) or type(callee).__call__ is not home.Module.__call__:
        return None
    hooks = (callee._forward_hooks, callee._forward_pre_hooks, callee._backward_hooks, callee._backward_pre_hooks)
    for_all = (getattr(home, name) for name in _FOR_ALL)
    if any(hooks) or any(for_all) or callee._compiled_call_impl is not None:
        return None
    forward = getattr(callee.forward, "__func__", None)
    return forward if isinstance(forward, FunctionType) and callee.forward.__self__ is callee else None


def may_train(args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    return all(isinstance(one, _PLAIN) for one in (*args, *named.values()))

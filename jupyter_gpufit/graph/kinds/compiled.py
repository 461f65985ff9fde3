"""What torch.compile made: shipped as the original and how it was compiled; it is compiled again when first used.

And what torch.compiler.disable made, which torch makes of a hundred functions of its own when they are first called;
and functions of TorchScript, which is compiled again from their text.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

import torch

from ...system.unheard import unheard
from ..kind import Kind, Pickler, Reduced

_WITHIN = ("_torchdynamo_orig_backend", "_torchdynamo_orig_callable")  # by the version of torch


def reduce_compiled_module(module: Any, pickler: Pickler) -> Reduced:
    from torch._dynamo.eval_frame import DisableContext

    if isinstance(module.dynamo_ctx, DisableContext):
        return disable_again, (module._orig_mod, {})
    return compile_again, (module._orig_mod, _options(module.dynamo_ctx))


def reduce_compiled_function(fn: FunctionType, pickler: Pickler) -> Reduced:
    from torch._dynamo.eval_frame import _TorchDynamoContext

    if fn.__dict__.get("_torchdynamo_disable"):
        return disable_again, (fn.__dict__["_torchdynamo_orig_callable"], _how_disabled(fn))
    cells = [cell.cell_contents for cell in fn.__closure__ or ()]
    context = next((held for held in cells if isinstance(held, _TorchDynamoContext)), None)
    original = fn.__dict__["_torchdynamo_orig_callable"]
    return compile_again, (original, {} if context is None else _options(context))


def _options(context: Any) -> dict[str, Any]:
    backend = context.callback
    while (inner := next((found for name in _WITHIN if (found := getattr(backend, name, None))), None)) is not None:
        backend = inner
    found = {"backend": backend, "dynamic": getattr(context, "_dynamic", None)}
    return found | {"fullgraph": bool(getattr(context, "fullgraph", False))}


def compile_again(original: Any, options: dict[str, Any]) -> Any:
    return torch.compile(original, **options)


def _how_disabled(fn: FunctionType) -> dict[str, Any]:
    there = fn.__dict__
    found = {"recursive": there.get("_torchdynamo_disable_recursive"), "reason": there.get("_torchdynamo_disable_msg")}
    usual = {"recursive": True, "reason": None, "wrapping": True}  # earlier versions have no other
    found["wrapping"] = "__wrapped__" in there
    return {name: value for name, value in found.items() if value not in (None, usual[name])}


def disable_again(original: Any, options: dict[str, Any]) -> Any:
    from torch._dynamo import disable

    return disable(original, **options)


def reduce_scripted(fn: Any, pickler: Pickler) -> Reduced:
    original = getattr(fn, "_torchdynamo_inline", None)
    if original is None:
        return pickler.refuse(fn, "a function that torch.jit has traced, or loaded. Do that inside the cell.")
    return script_again, (original,)


def script_again(original: Any) -> Any:
    with unheard(DeprecationWarning, FutureWarning):  # which the notebook has had
        return torch.jit.script(original)


SCRIPTED = Kind(reduce=reduce_scripted, reads_names=True)
COMPILED_MODULE = Kind(reduce=reduce_compiled_module)

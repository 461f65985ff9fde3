"""Autocast on the stand-in: C++ knows none for it, so CUDA's lists (ATen/autocast_mode.h) are registered from here."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from .device import STAND_IN

aten = torch.ops.aten
_KEY = "AutocastPrivateUse1"

# Those that ATen registers for CUDA (autocast_mode.h), held against the dispatcher by a test.
_LOWER = """_convolution _convolution.deprecated cudnn_convolution cudnn_convolution_transpose
conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input conv_transpose3d.input
convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul
linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
_scaled_dot_product_flash_attention scaled_dot_product_attention"""
_FLOAT32 = """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim nuclear_norm
cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss
smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss
multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d
upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d
upsample_bicubic2d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d _upsample_bilinear2d_aa
_upsample_bicubic2d_aa nuclear_norm.dim"""
_FLOAT32_RESULT = "norm.Scalar norm.ScalarOpt_dim"
_FLOAT32_UNLESS_TOLD = """prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm
sum sum.dim_IntList linalg_matrix_norm linalg_matrix_norm.str_ord"""
_PROMOTE = "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add"

_copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # of weights: cast once per region, and alive until its end
Function = Callable[..., Any]
used = False  # whether a weight was cast in this process


def begin() -> list[Any]:
    """Register the kernels and let autocast("cuda") mean the stand-in. What is returned must be kept alive."""
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(torch.library.fallthrough_kernel, _KEY)
    library = torch.library.Library("aten", "IMPL")
    for names, policy in POLICIES:
        for name in names.split():
            _register(library, name, policy)
    _replace_switches()
    return [everything, library]


def cast_for_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    if not torch.is_autocast_enabled(STAND_IN):
        return query, key, value, mask
    dtype = torch.get_autocast_dtype(STAND_IN)
    return _cast(query, dtype), _cast(key, dtype), _cast(value, dtype), _cast(mask, dtype)


def cast_for_cudnn(tensors: list[Any]) -> list[Any]:
    """The arguments of a recurrent layer. Its weights are cast anew at each call."""
    if not torch.is_autocast_enabled(STAND_IN):
        return tensors
    dtype = torch.get_autocast_dtype(STAND_IN)
    return [t.to(dtype) for t in tensors]


def _register(library: Any, name: str, policy: Callable[[Any, Any, Any], Any]) -> None:
    base, _, overload = name.partition(".")
    op = getattr(getattr(aten, base, None), overload or "default", None)
    if op is None:
        return  # an operator of another version of torch
    off = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)  # type: ignore[attr-defined]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(off):
            return policy(op, args, kwargs)

    library.impl(op, kernel, _KEY)


def _lower(op: Any, args: Any, kwargs: Any) -> Any:
    return _with_dtype(op, args, kwargs, torch.get_autocast_dtype(STAND_IN))


def _float32(op: Any, args: Any, kwargs: Any) -> Any:
    return _with_dtype(op, args, kwargs, torch.float32)


def _told(op: Any, args: Any, kwargs: Any) -> Any:
    """softmax, sum, ...: dtype=float32 where the user gave none."""
    arguments = op._schema.arguments
    full = {**dict(zip([a.name for a in arguments], args, strict=False)), **kwargs}
    first = args[0] if args else None
    if full.get("dtype") is None and isinstance(first, torch.Tensor) and first.dtype in (torch.float16, torch.bfloat16):
        full["dtype"] = torch.float32
    positional = [full.pop(a.name) for a in arguments if not a.kwarg_only and a.name in full]
    return op(*positional, **full)


def _promote(op: Any, args: Any, kwargs: Any) -> Any:
    found = tree_flatten((args, kwargs))[0]
    if any(isinstance(t, torch.Tensor) and t.dtype == torch.float32 for t in found):
        return _with_dtype(op, args, kwargs, torch.float32)
    return op(*args, **kwargs)


def _with_dtype(op: Any, args: Any, kwargs: Any, dtype: torch.dtype) -> Any:
    return op(*tree_map(lambda t: _cast(t, dtype), args), **tree_map(lambda t: _cast(t, dtype), kwargs))


def _cast(t: Any, dtype: torch.dtype) -> Any:
    if not (isinstance(t, torch.Tensor) and t.is_floating_point() and t.dtype not in (torch.float64, dtype)):
        return t
    is_weight = t.dtype == torch.float32 and t.requires_grad and t.is_leaf
    if dtype == torch.float32 or not is_weight or not torch.is_autocast_cache_enabled():
        return t.to(dtype)
    global used
    used = True
    hit = _copies.get(id(t))
    if hit is None or hit[0] is not t:
        hit = _copies[id(t)] = (t, t.to(dtype))
    return hit[1]


def _refuse(op: Any, args: Any, kwargs: Any) -> Any:
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast."
        " Use torch.nn.functional.binary_cross_entropy_with_logits without the sigmoid before it."
    )


POLICIES: tuple[tuple[str, Function], ...] = (
    (_LOWER, _lower),
    (f"{_FLOAT32} {_FLOAT32_RESULT}", _float32),
    (_FLOAT32_UNLESS_TOLD, _told),
    (_PROMOTE, _promote),
    ("binary_cross_entropy", _refuse),  # as CUDA does
)


def _replace_switches() -> None:
    autocast, clear_real = torch.amp.autocast_mode.autocast, torch.clear_autocast_cache
    begin_real = autocast.__init__

    def begin_mapped(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        begin_real(self, _mapped(device_type), *args, **kwargs)

    def clear() -> None:
        _copies.clear()
        clear_real()

    autocast.__init__ = begin_mapped  # type: ignore[method-assign]
    torch.clear_autocast_cache = clear
    for name in ("is_autocast_enabled", "get_autocast_dtype", "set_autocast_enabled", "set_autocast_dtype"):
        setattr(torch, name, _with_mapped_type(getattr(torch, name)))


def _with_mapped_type(real: Function) -> Function:
    @wraps(real)
    def switch(*args: Any, **kwargs: Any) -> Any:
        if not args and "device_type" not in kwargs and real.__name__.startswith(("is_", "set_autocast_enabled")):
            args = ("cuda",)  # what these meant before they had an argument
        if len(args) == 1 and isinstance(args[0], bool):
            args = ("cuda", *args)
        return real(*[_mapped(a) for a in args], **{k: _mapped(a) for k, a in kwargs.items()})

    return switch


def _mapped(device_type: Any) -> Any:
    return STAND_IN if device_type == "cuda" else device_type

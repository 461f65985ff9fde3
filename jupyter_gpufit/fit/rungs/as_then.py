"""A module as it was when it ran first, for its second run.

Between a forward and its backward a cell may switch a mode, freeze a part, put other parameters in (as
`torch.func.functional_call` does for a while), or take the module out of training; and a forward may itself add to a
cache, count, or draw a number. The second run finds all that as the first one found it, so it computes the same, and
leaves it as it is. What cannot be put back is refused: bytes that were changed in place, and see belongings.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.attention import _cur_sdpa_kernel_backends, sdpa_kernel
from torch.nn.modules.batchnorm import _NormBase
from torch.utils._pytree import tree_leaves

from ...errors import NotTheSameAgain
from .belongings import Belongings, of_module

_TABLES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def has_hooks(module: nn.Module) -> bool:
    """Which a second run would call again."""
    return any(getattr(module, name, None) for name in _HOOKS)


class AsThen:
    """How things stood just before the first run."""

    def __init__(self, module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._name = type(module).__name__
        self._modules = [(one, _attributes(one)) for one in module.modules()]
        self._trained = [(p, p.requires_grad) for p in module.parameters() if p.is_leaf]
        norms = {id(buffer) for one in module.modules() if isinstance(one, _NormBase) for buffer in one.buffers()}
        changing = [*module.parameters(), *(buffer for buffer in module.buffers() if id(buffer) not in norms)]
        given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        owned = [one for module in module.modules() for one in of_module(module)]
        self._belongings = Belongings((*args, *kwargs.values(), *owned))
        changing += [t for t in self._belongings.tensors if id(t) not in norms]
        # Not held: within a module that runs twice itself, what this one is given is made again, not kept till then.
        self._versions = [(weakref.ref(t), t._version) for t in (*changing, *given) if not t.is_inference()]
        self._kernels = _cur_sdpa_kernel_backends()

    def ran(self) -> None:
        """The first run is over."""
        self._belongings.ran()

    @contextmanager
    def again(self) -> Iterator[None]:
        """For the second run."""
        if any(t._version != version for ref, version in self._versions if (t := ref()) is not None):
            raise NotTheSameAgain(self._name)
        with ExitStack() as stack:
            if not stack.enter_context(self._belongings.again()):
                raise NotTheSameAgain(self._name)
            for module, then in self._modules:
                stack.callback(object.__setattr__, module, "__dict__", vars(module))
                object.__setattr__(module, "__dict__", _attributes_of(then))
            for p, then_trained in self._trained:
                if p.requires_grad != then_trained:
                    stack.callback(p.requires_grad_, p.requires_grad)
                    p.requires_grad_(then_trained)
            if self._kernels != _cur_sdpa_kernel_backends():
                stack.enter_context(sdpa_kernel(self._kernels))
            yield


def _attributes(module: nn.Module) -> dict[str, Any]:
    return _attributes_of(vars(module))


def _attributes_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy: what the second run sets goes with it."""
    return {**attributes, **{name: dict(attributes[name]) for name in _TABLES if name in attributes}}

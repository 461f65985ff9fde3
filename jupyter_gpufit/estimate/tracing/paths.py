"""Which module computes: in a forward the innermost one that was called, in a backward the one whose forward made the
node that runs.

Autograd numbers its nodes in the order of their making. The number at which each module was entered and left therefore
says, for any node, where it comes from.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from .books import Books

_ACCUMULATE = 1 << 60  # nodes that add to a .grad are numbered from far above


class Paths:
    def __init__(self, books: Books, namespace: Mapping[str, object]) -> None:
        self.books, self.namespace = books, namespace
        self.stack: list[str] = []
        self.roots: list[tuple[int, bool, int | None]] = []  # modules the cell called: id, with gradients?, batch size
        self.learning = False  # whether the last of them was in training mode
        self._phases: list[Any] = []
        self._names: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()
        self._owners: dict[int, str] = {}  # a parameter's id to its module's name
        self._numbers: list[int] = []
        self._paths: list[str] = []

    def begin(self) -> None:
        register_module_forward_pre_hook(self._enter)
        register_module_forward_hook(self._leave, always_call=True)
        self.books.where = self.where
        self.books.recomputing = lambda: self.books.phase == "backward" and bool(self.stack)

    def name_of(self, module: torch.nn.Module) -> str:
        """Of one that was called, as blocks are named by it."""
        return self._names.get(module, "")

    def where(self) -> str:
        if self.stack:
            return self.stack[-1]
        return self._of_node() if self.books.phase == "backward" else ""

    def _of_node(self) -> str:
        node = torch._C._current_autograd_node()
        if node is None:
            return ""
        number = node._sequence_nr()
        if number < _ACCUMULATE:
            at = bisect_right(self._numbers, number) - 1
            return self._paths[at] if at >= 0 else ""
        return self._owners.get(id(getattr(node, "variable", None)), "")

    def _enter(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        if not self.stack:
            self._name_all(module)
        if self.books.phase != "backward":
            self._note_call(module, args)
        self._push(self._names.get(module) or f"{self.stack[-1]}.{type(module).__name__}")

    def _note_call(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        if not self.stack:
            self.learning = module.training
            self.roots.append((id(module), torch.is_grad_enabled(), _first_dimension(args)))
        elif self.roots and self.roots[-1][2] is None:  # it was called with keywords, which a hook does not see
            self.roots[-1] = (*self.roots[-1][:2], _first_dimension(args))

    def _push(self, name: str) -> None:
        self._phases.append(self.books.phase)
        if self.books.phase == "optimizer":
            self.books.phase = "forward"  # the closure that LBFGS calls
        self.stack.append(name)
        self._mark(name)

    def _leave(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if self.stack:
            self.stack.pop()
            self.books.phase = self._phases.pop()
            self._mark(self.stack[-1] if self.stack else "")

    def _mark(self, name: str) -> None:
        self._numbers.append(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]
        self._paths.append(name)

    def _name_all(self, root: torch.nn.Module) -> None:
        if root in self._names:
            return
        name = next((name for name, value in self.namespace.items() if value is root and name[0] != "_"), "")
        name = name or type(root).__name__
        for path, module in root.named_modules():
            full = f"{name}.{path}" if path else name
            self._names[module] = full
            own = module._parameters  # in whose place a class may have put another kind of table
            self._owners.update(
                (id(p), full) for p in (own.values() if hasattr(own, "values") else own) if p is not None
            )


def _first_dimension(args: tuple[Any, ...]) -> int | None:
    for arg in args:
        if isinstance(arg, torch.Tensor) and arg.dim():
            return int(arg.shape[0])
    return None

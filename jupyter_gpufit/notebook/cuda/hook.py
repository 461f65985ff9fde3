"""Tells when a module has been imported, and does not import it."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class AfterImport(MetaPathFinder):
    """Calls `then` once `name` has been imported for the first time, before the line that imports it goes on."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name, self._then = name, then
        self._asks = False  # the other finders

    def begin(self) -> None:
        if self._name in sys.modules:
            self._then()
        else:
            sys.meta_path.insert(0, self)

    def end(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name or self._asks:
            return None
        self._asks = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asks = False
        # Perhaps somebody only asks whether it could be imported, as transformers does: each spec tells.
        if spec is not None and spec.loader is not None:
            self._tell_after(spec.loader)
        return spec

    def _tell_after(self, loader: object) -> None:
        execute = loader.exec_module  # type: ignore[attr-defined]

        def exec_module(module: ModuleType) -> None:
            execute(module)  # should it fail, the cell mends what was missing, and imports it again
            self.end()
            self._then()

        # On this one object: a loader of ours in its place would not know what others ask of it (its path, its text).
        loader.exec_module = exec_module  # type: ignore[attr-defined]

"""What modules put on `cuda` as they are imported, before the cell runs: as in the cell, it is on the stand-in's.

A file beside the notebook often ends with a try of what it defines: `net = UNet().to(device)`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class ImportedOnDevice(MetaPathFinder):
    """Has the code of modules run within something; torch's own, which make that, do without."""

    def __init__(self, within: Callable[[], AbstractContextManager[Any]]) -> None:
        self._within = within
        self._asks = False  # the other finders
        self._inside = False  # a module's code, which imports others

    @contextmanager
    def begun(self) -> Iterator[None]:
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if self._asks or name.partition(".")[0] == "torch":
            return None
        self._asks = True
        try:
            specs = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
            spec = next(filter(None, specs), None)
        finally:
            self._asks = False
        if spec is not None and spec.loader is not None and str(spec.origin).endswith(".py"):
            self._run_within(spec.loader)
        return spec

    def _run_within(self, loader: Loader) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del vars(loader)["exec_module"]
            if self._inside:
                execute(module)
                return
            self._inside = True
            try:
                with self._within():
                    execute(module)
            finally:
                self._inside = False

        vars(loader)["exec_module"] = exec_module  # of this one object: what others ask of a loader it still answers

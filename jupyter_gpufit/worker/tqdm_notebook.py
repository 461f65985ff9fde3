"""What `tqdm.notebook` is in a worker: the same names, drawing tqdm's bar of text.

The real one draws a widget, whose model would live in a process that the browser does not speak with: it would stand at
0 % for ever. This file is executed under the real one's name, so that its class is found where a notebook's refers to
it, and is the notebook's own again when it travels back. ipywidgets is not imported, nor anything before tqdm.notebook.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Any

NAME = "tqdm.notebook"
__all__ = ["tnrange", "tqdm", "tqdm_notebook", "trange"]


class InPlace:
    """Finds this file where `tqdm.notebook` is looked for."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_file_location(NAME, __file__) if name == NAME else None


def draw_text() -> None:
    """From now on, `tqdm.notebook` is this file."""
    sys.meta_path.insert(0, InPlace)


if __name__ == NAME:
    from tqdm.std import tqdm as std_tqdm

    class tqdm_notebook(std_tqdm):  # type: ignore[misc]  # untyped library
        """A bar of text that takes the options of the widget."""

        def __init__(self, *args: Any, display: bool = True, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)

        def display(self, msg: str | None = None, pos: int | None = None, **of_the_widget: Any) -> None:
            super().display(msg, pos)

    def tnrange(*args: Any, **kwargs: Any) -> tqdm_notebook:
        """`tqdm(range(*args))`."""
        return tqdm_notebook(range(*args), **kwargs)

    tqdm, trange = tqdm_notebook, tnrange

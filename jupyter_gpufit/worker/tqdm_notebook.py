"""What `tqdm.notebook` is in a worker: the same names, drawing a bar of HTML.

The real one draws a widget, whose model would live in a process that the browser does not speak with: it would stand
at 0 % for ever. A bar of HTML is a display that changes, like any other: it goes on after a move, a resume or a reload,
and is still a bar in the saved file. A bar that an earlier cell made goes on where it is.

This file is executed under the real one's name, so that its class is found where a notebook's refers to it, and is the
notebook's own again when it travels back. ipywidgets is not imported, nor anything before tqdm.notebook. Executed as
`tqdm.autonotebook`, which looks for a kernel's modules, it says that this is a notebook.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Any

NAME, AUTO = "tqdm.notebook", "tqdm.autonotebook"
__all__ = ["tnrange", "tqdm", "tqdm_notebook", "trange"]


class InPlace:
    """Finds this file where `tqdm.notebook` is looked for."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_file_location(name, __file__) if name in (NAME, AUTO) else None


def draw_html() -> None:
    """From now on, `tqdm.notebook` is this file."""
    sys.meta_path.insert(0, InPlace)


if __name__ == AUTO:
    from tqdm.notebook import tqdm, trange
elif __name__ == NAME:
    import os
    from html import escape

    from IPython.display import publish_display_data
    from tqdm.std import tqdm as std_tqdm

    from jupyter_gpufit.jobs.bars import BAD, GOES_ON, GOOD, html_bar

    OFTEN = 0.25  # seconds between two of its looks: each is kept in the job's journal

    class tqdm_notebook(std_tqdm):  # type: ignore[misc]  # untyped library
        """A bar of HTML that takes the options of the widget, and looks like it."""

        gpufit_display: str | None = None  # its display_id, once it is shown
        gpufit_shows = True
        colour: Any = None  # a property of the real one
        container: Any = None  # of a bar that an earlier cell made: the notebook's widget, in which it goes on

        def __init__(self, *args: Any, display: bool = True, **kwargs: Any) -> None:
            self.gpufit_shows = display
            # To tqdm, a bar that is drawn by somebody else.
            super().__init__(*args, **{"mininterval": OFTEN, **kwargs, "gui": True})
            if not self.disable and self.delay <= 0:
                self.display()

        def display(self, msg: str | None = None, pos: int | None = None, **of_the_widget: Any) -> None:
            if self.gpufit_shows:
                self._publish(msg, "")

        def close(self) -> None:
            if self.disable:
                return
            was = self.gpufit_display
            super().close()
            if self.container is None and (was is None or not self.gpufit_shows):
                return
            unfinished = bool(self.total) and self.n < self.total
            if self.leave or unfinished or (self.leave is None and self.pos == 0):
                self._publish(None, BAD if unfinished else GOOD)
            elif self.container is not None:
                self.container.close()
            else:
                self._update({"text/plain": "", "text/html": ""})

        def clear(self, *_: Any, **__: Any) -> None:
            """A display is nowhere in the way of what is printed."""

        def _publish(self, msg: str | None, colour: str) -> None:
            said = {**self.format_dict, "colour": None}  # which text knows eight of, and warns of others
            text = msg if msg is not None else self.format_meter(**said)
            marked = (said["bar_format"] or "{l_bar}<bar/>{r_bar}").replace("{bar}", "<bar/>")
            line = msg if msg is not None else self.format_meter(**{**said, "bar_format": marked})
            left, bar, right = (part or "" for part in (*re.split(r"\|?(<bar/>)\|?", line, maxsplit=1), "", "")[:3])
            if self.container is not None:
                self._change_widget(left, right, colour)
            else:
                self._update({"text/plain": text, "text/html": self._html(left, bool(bar), right, colour)})

        def _change_widget(self, left: str, right: str, colour: str) -> None:
            before, bar, after = self.container.children
            before.value, bar.value, after.value = escape(left), self.n, escape(right)
            if colour:
                bar.bar_style = "danger" if colour == BAD else "success"

        def _html(self, left: str, bar: bool, right: str, colour: str) -> str:
            ended = 'value="1" max="1"' if colour else ""  # of a bar that does not know its total
            full = f'value="{self.n}" max="{self.total}"' if self.total else ended
            accent = (colour if colour == BAD else self.colour) or colour or GOES_ON
            return html_bar(left, right, full=full if bar else None, accent=accent)

        def _update(self, data: dict[str, str]) -> None:
            shown = self.gpufit_display is not None
            self.gpufit_display = self.gpufit_display or os.urandom(8).hex()
            publish_display_data(data, transient={"display_id": self.gpufit_display}, update=shown)

    def __getattr__(name: str) -> Any:
        """The class of the notebook's widget, for a bar of an earlier cell."""
        if name != "TqdmHBox":
            raise AttributeError(name)
        from ipywidgets import HBox

        made = globals()[name] = type(name, (HBox,), {"__module__": NAME})
        return made

    def tnrange(*args: Any, **kwargs: Any) -> tqdm_notebook:
        """`tqdm(range(*args))`."""
        return tqdm_notebook(range(*args), **kwargs)

    tqdm, trange = tqdm_notebook, tnrange

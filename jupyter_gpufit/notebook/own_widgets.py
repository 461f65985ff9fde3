"""Widgets of the notebook's own that went to a job: what the worker makes of them is seen where they are shown.

Until the job has left, what a browser sends them is the worker's to hear, whose observers are at work. Their attributes
come back with the job's other variables; so that a reload of the page shows what is, the traits are set at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ipywidgets.widgets import widget as widgets
from traitlets import TraitError

from ..graph.kinds.widgets import unwrapped

Hear = Callable[[str, Mapping[str, Any], list[Any]], None]


class OwnWidget:
    """One of them, to be spoken with as with a mirror."""

    def __init__(self, widget: Any, hear: Hear, has_left: Callable[[], bool]) -> None:
        self._widget, self._hear, self._has_left = widget, hear, has_left
        self._id, self._line = widget.model_id, widget.comm
        self.heard_before = unwrapped(self._line._msg_callback)  # what the notebook's own widget hears
        self.clears = False  # with the next output
        self.listen()

    def listen(self) -> None:
        """What a browser sends is the worker's from now on; where another job has the widget too, the later one's."""
        self._line.on_msg(self)

    def leave(self) -> None:
        """And the notebook's own again, unless another job hears it now."""
        if self._line._msg_callback is self:
            self._line.on_msg(self.heard_before)

    @property
    def is_output(self) -> bool:
        return bool(self._widget._model_name == "OutputModel")

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self._widget.get_state()
        return found

    def tell(self, data: dict[str, Any], buffers: list[bytes]) -> None:
        """Pass a message of the worker's on to the browser."""
        if data.get("method") == "update":
            self._set(with_buffers(data, buffers))
        self._line.send(data=data, buffers=buffers)

    def change(self, **state: Any) -> None:
        """A change of ours, as if the worker had said it."""
        self.tell({"method": "update", "state": state, "buffer_paths": []}, [])

    def close(self) -> None:
        self._widget.close()

    def _set(self, state: Mapping[str, Any]) -> None:
        """Without calling observers: the worker's have been called."""
        for name in set(state) & set(self._widget.keys):
            read = self._widget.trait_metadata(name, "from_json", self._widget._trait_from_json)
            self._widget._trait_values[name] = self._as_kept(name, read(state[name], self._widget))

    def _as_kept(self, name: str, value: Any) -> Any:
        """What the trait makes of it, a list or a tuple; the class's own validators were asked by the worker."""
        with suppress(TraitError), self._widget.cross_validation_lock:
            return self._widget.traits()[name]._validate(self._widget, value)
        return value

    def __call__(self, msg: Any) -> None:
        """Hear what a browser sent."""
        data, buffers = msg["content"]["data"], list(msg.get("buffers") or ())
        if left := self._has_left():
            self.leave()
        if left or data.get("method") == "request_state":
            self.heard_before(msg)
            return
        if data.get("method") == "update":
            self._set(with_buffers(data, buffers))
            if widgets.JUPYTER_WIDGETS_ECHO:
                self._line.send(data={**data, "method": "echo_update"}, buffers=buffers)
        self._hear(self._id, data, buffers)


def with_buffers(data: Mapping[str, Any], buffers: list[Any]) -> dict[str, Any]:
    """A state with its bytes in their places."""
    state: dict[str, Any] = json.loads(json.dumps(data.get("state", {})))
    with suppress(KeyError, IndexError, TypeError):  # a message that does not say where
        widgets._put_buffers(state, data.get("buffer_paths", ()), buffers)
    return state

"""Mirrors of the widgets that a job's cell made: the browser speaks with these, and they with the worker.

A mirror is a widget of this kernel, with the other one's name in the browser and its state, whatever class that is of.
So it is asked after a reload of the page, stands in a saved notebook, and keeps its last state once the worker is gone,
unless the widget itself comes back with the cell's variables: then that has its place, and hears the browser.
What a job says reaches its own mirrors only: neither another widget of the kernel, nor any other comm.

An Output widget catches what is printed within `with out:`. Here that is done where the events come by: they go into
the mirror's outputs, as a widget's state, and not by the browser.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from typing import Any

import anyio
from ipywidgets import Widget
from ipywidgets.widgets import widget as widgets

from ..errors import GpufitError
from ..jobs.client import ask
from ..jobs.events import Clear, Display, Event, Failure, Result, Text, WidgetMessage
from ..jobs.job import Job
from ..jobs.paths import JobPaths
from ..jobs.record import Record, read_record
from ..jobs.state import LEFT, OVER
from .own_widgets import Hear, OwnWidget, with_buffers
from .saved import WIDGET_VIEW
from .widget_words import within, words_of

LONGEST = 700 << 10  # bytes of what a browser may send; a request has to hold it as text
AGAIN, TRIES = 0.25, 80  # seconds and times, while a job goes from one process to the next
MOST_OUTPUTS = 2000  # in an Output: the latest


class Mirror(Widget):  # type: ignore[misc]  # untyped library
    """One widget of the worker's."""

    def __init__(self, id: str, state: dict[str, Any], hear: Hear) -> None:
        self.state, self._hear = state, hear
        self.clears = False  # with the next output
        super().__init__(model_id=id)
        for name in ("_model_name", "_model_module", "_model_module_version"):
            self.set_trait(name, str(state.get(name, "")))

    @property
    def is_output(self) -> bool:
        return bool(self.state.get("_model_name") == "OutputModel")

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:
        keys = self.state.keys() if key is None else [key] if isinstance(key, str) else key
        return {name: self.state[name] for name in keys if name in self.state}

    def notify_change(self, change: Any) -> None:
        """What is told the browser is the worker's state; the traits of this class are not."""
        super(Widget, self).notify_change(change)

    def tell(self, data: dict[str, Any], buffers: list[bytes]) -> None:
        """Pass a message of the worker's on to the browser."""
        if self.comm is None:
            return  # the widget itself has come
        if data.get("method") == "update":
            self.state.update(with_buffers(data, buffers))
        self.comm.send(data=data, buffers=buffers)

    def hand_over(self) -> tuple[Any, tuple[Any, ...] | None]:
        """Its line to the browser, for the widget itself, which comes from the worker; and what an Output has caught.

        This one has none any more: a widget that goes closes its own, and the browser's with it.
        """
        line = self.comm
        widgets._instances.pop(line.comm_id, None)
        self._trait_values["comm"] = None
        return line, tuple(self.state.get("outputs", ())) if self.is_output else None

    def change(self, **state: Any) -> None:
        """A change of ours, as if the worker had said it."""
        self.tell({"method": "update", "state": state, "buffer_paths": []}, [])

    def _handle_msg(self, msg: Any) -> None:
        data, buffers = msg["content"]["data"], list(msg.get("buffers") or ())
        match data.get("method"):
            case "update":
                self.state.update(with_buffers(data, buffers))
                if widgets.JUPYTER_WIDGETS_ECHO:
                    self._send({**data, "method": "echo_update"}, buffers=buffers)
                self._hear(self.model_id, data, buffers)
            case "request_state":
                state, paths, own = widgets._remove_buffers(self.get_state())
                self._send({"method": "update", "state": state, "buffer_paths": paths}, buffers=own)
            case "custom":
                self._hear(self.model_id, data, buffers)


class Mirrors:
    """Those of one job in this kernel; events may come from any thread, one at a time."""

    def __init__(self, job: Job, paths: JobPaths, sent: Mapping[str, Any] | None = None) -> None:
        self._job, self._paths = job, paths
        self._mirrors: dict[str, Mirror | OwnWidget] = {}
        self._catching: list[Mirror | OwnWidget] = []  # the innermost last
        self._said: set[str] = set()  # mirrors that somebody has used here
        self._unsent: deque[str] = deque()
        self._sender: threading.Thread | None = None
        self._guard = threading.Lock()
        for id, own in (sent or {}).items():  # by their names in the browser: this kernel's own that went to the job
            self._mirrors[id] = OwnWidget(own, self._hear, self._has_left)

    def take(self, event: WidgetMessage) -> None:
        """Let the browser see what the worker's widget said."""
        mirror = self._mirrors.get(event.comm)
        data, buffers = dict(event.data), [b64decode(one) for one in event.buffers]
        if event.what in ("open", "again"):
            self._open(event.comm, with_buffers(data, buffers))
        elif mirror is None or (event.what == "heard" and event.comm in self._said):
            return  # its beginning is not in the journal any more; or it was said here, and may have changed since
        elif event.what == "close":
            self._mirrors.pop(event.comm).close()
        else:
            self._note_catching(mirror, data.get("state", {}))
            if data.get("method") != "update" or data["state"]:
                mirror.tell(data, buffers)

    def leave(self) -> None:
        """The job has ended: what a browser sends the notebook's own is theirs again."""
        for one in self._mirrors.values():
            if isinstance(one, OwnWidget):
                one.leave()

    def shown(self, display: Display) -> dict[str, Any]:
        """What to display: with the widget that it was, where its mirror is here."""
        id = display.transient.get("gpufit_widget", "")
        if id not in self._mirrors:
            return display.data
        view = {WIDGET_VIEW: {"version_major": 2, "version_minor": 0, "model_id": id}}
        return {**display.data, **self._readable(id), **view}

    def _readable(self, id: str) -> dict[str, Any]:
        """What stands in a saved notebook for a box, whose own text would be the names of classes."""
        words = "" if within(self._mirrors[id].state) is None else words_of(id, self._state_of)
        return {"text/plain": words, "text/html": f"<pre>{escape(words)}</pre>"} if words else {}

    def _state_of(self, id: str) -> Mapping[str, Any] | None:
        return self._mirrors[id].state if id in self._mirrors else None

    def caught(self, event: Event) -> bool:
        """Whether an Output takes what was written, and has it now."""
        if not self._catching:
            return False
        into = self._catching[-1]
        match event:
            case Text(name, text):
                self._add(into, {"output_type": "stream", "name": name, "text": text})
            case Display(metadata=metadata):
                self._add(into, {"output_type": "display_data", "data": self.shown(event), "metadata": metadata})
            case Result(data, metadata):
                self._add(into, {"output_type": "display_data", "data": data, "metadata": metadata})
            case Failure(ename, evalue, traceback):
                said = {"output_type": "error", "ename": ename, "evalue": evalue, "traceback": list(traceback)}
                self._add(into, said)
            case Clear(wait):
                into.clears = wait
                if not wait:
                    into.change(outputs=[])
            case _:
                return False
        return True

    def _open(self, id: str, state: dict[str, Any]) -> None:
        if (mirror := self._mirrors.get(id)) is not None:  # of an earlier look at the same job, or before a resume
            if isinstance(mirror, OwnWidget):
                mirror.listen()
            self._note_catching(mirror, state)
            if mirror.is_output:
                state.pop("outputs", None)  # which the worker does not have: they were caught here
            changed, paths, buffers = widgets._remove_buffers(state)
            mirror.tell({"method": "update", "state": changed, "buffer_paths": paths}, buffers)
        elif id not in widgets._instances:  # what else this kernel has is nobody else's
            catches = state.get("msg_id")
            mirror = self._mirrors[id] = Mirror(id, {**state, "msg_id": ""} if catches else state, self._hear)
            self._note_catching(mirror, {"msg_id": catches} if catches else {})

    def _note_catching(self, mirror: Mirror | OwnWidget, state: dict[str, Any]) -> None:
        """An Output says by its `msg_id` whether it catches; in a browser it would, too, and twice is too often."""
        if "msg_id" in state and mirror.is_output:
            self._catching = [one for one in self._catching if one is not mirror]
            if state.pop("msg_id"):
                self._catching.append(mirror)

    @staticmethod
    def _add(into: Mirror | OwnWidget, output: dict[str, Any]) -> None:
        outputs = [] if into.clears else list(into.state.get("outputs", ()))
        into.clears = False
        last = outputs[-1] if outputs else {}
        if output["output_type"] == "stream" == last.get("output_type") and last["name"] == output["name"]:
            outputs[-1] = {**last, "text": last["text"] + output["text"]}
        else:
            outputs.append(output)
        into.change(outputs=outputs[-MOST_OUTPUTS:])

    # To the worker ----------------------------------------------------------------------------------------------------

    def _hear(self, id: str, data: Mapping[str, Any], buffers: list[Any]) -> None:
        """Send it to the worker, in its order, from a thread: whoever clicks does not wait for a socket."""
        text = json.dumps({"comm": id, "data": data, "buffers": [b64encode(one).decode() for one in buffers]})
        if len(text) > LONGEST:
            return
        self._said.add(id)
        with self._guard:
            self._unsent.append(text)
            if self._sender is None:
                self._sender = threading.Thread(target=self._send_all, name="gpufit-widgets", daemon=True)
                self._sender.start()

    def _send_all(self) -> None:
        while True:
            with self._guard:
                if not self._unsent:
                    self._sender = None
                    return
                text = self._unsent.popleft()
            for _ in range(TRIES):
                record = read_record(self._paths)
                if record.state in LEFT or self._is_heard(record, text):
                    break  # of one that has ended, the mirror keeps what was chosen
                time.sleep(AGAIN)

    def _has_left(self) -> bool:
        return read_record(self._paths).state in OVER  # also of one that was killed, or whose files were cleaned away

    def _is_heard(self, record: Record, text: str) -> bool:
        """Whether the worker has it, or refuses it for good; between two of its processes, nobody hears."""
        with suppress(GpufitError, BaseExceptionGroup):
            answer = anyio.run(ask, self._job, record, "widget", text)
            return answer.ok or not answer.data.get("later")
        return False

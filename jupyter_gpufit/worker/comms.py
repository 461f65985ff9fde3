"""The comms of a cell's widgets: what they send goes to the journal, and what a browser sends comes to them.

A widget of ipywidgets lives where it was made: here. A kernel that follows the job has a mirror of it, which speaks
with the browser (notebook/mirrors.py). What the browser sends is heard in the main thread, at the next safe point, as
between two cells in a kernel; never in the middle of an iteration.

A widget may change thousands of times a second, and each change would stand in the journal: the first is told at once,
what follows within `EVERY` seconds as one. Only the target of widgets is carried; whatever else a cell opens has nobody
at its other end, as before.
"""

from __future__ import annotations

import json
import math
import re
import sys
import threading
import time
import traceback
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import comm
from comm.base_comm import BaseComm, CommManager

from ..jobs.events import Event, WidgetMessage
from ..jobs.protocol import Answer
from ..units import MiB, format_bytes

TARGET = "jupyter.widget"
OUTPUTS = "@jupyter-widgets/output"  # whose changes say what is printed where: their order counts
EVERY = 0.25  # seconds between two changes of one widget that are told
LONGEST = 8 * MiB  # of a message, with its bytes; more would be a large part of the journal
REFERENCE = re.compile("IPY_MODEL_([0-9a-f]+)")  # from one widget's state to another
MOST_UNHEARD = 256  # messages of a browser that wait for a safe point


class WorkerComm(BaseComm):
    """One widget's line to its mirrors."""

    here: ClassVar[Comms]
    announced = False  # mirrors know it; after a resume, they may not
    stays = True  # its widget was made here, and does not travel; one of the notebook's goes back to it
    # Of a kernel, an Output asks for the message whose output it is to catch: here it is the cell's.
    kernel = SimpleNamespace(get_parent=lambda: {"header": {"msg_id": "gpufit"}})

    def publish_msg(
        self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **keys: Any
    ) -> None:
        self.here.publish(self, msg_type.removeprefix("comm_"), data or {}, buffers or ())

    def handle_msg(self, msg: Any) -> None:
        """Not as in a kernel, where a cell ends first: figures that this one has begun stay its own."""
        if self._msg_callback is not None:
            self._msg_callback(msg)

    def __reduce__(self) -> Any:
        """A checkpoint has the widget with its line; the line is another process's from then on."""
        kept = {"_msg_callback": self._msg_callback, "_close_callback": self._close_callback, "stays": self.stays}
        return _restored, (self.comm_id, self.target_name), kept


def _restored(id: str, target: str) -> WorkerComm:
    made = WorkerComm(target_name=target, comm_id=id, primary=False)
    WorkerComm.here.manager.register_comm(made)
    return made


@dataclass
class Comms:
    """All of this process."""

    emit: Callable[[Event], None]
    note: Callable[[str], None]
    wake: Callable[[Callable[[], None]], None] = lambda call: None  # has it called at the next safe point
    manager: CommManager = field(default_factory=CommManager)
    hears: bool = False  # the cell runs, and does not stand still to be saved: what came now would be lost with it
    taking: bool = False  # what goes wrong now is a widget's handler, and ends no cell
    _held: dict[str, WidgetMessage] = field(default_factory=dict)  # by comm: changes that are to be told
    _told: dict[str, float] = field(default_factory=dict)  # by comm: time.monotonic()
    _in_order: set[str] = field(default_factory=set)  # comms of which no change may be late
    _unheard: deque[tuple[str, dict[str, Any]]] = field(default_factory=deque)
    _guard: threading.RLock = field(default_factory=threading.RLock)  # a finaliser may close a comm in here
    _teller: threading.Thread | None = None
    _said: bool = False

    def install(self) -> None:
        """From now on, comms that this process opens are these."""
        before = vars(WorkerComm).get("here")
        WorkerComm.here = self
        del before  # not sooner: lines that end with it look for it, and Python has it for a moment after its end
        comm.create_comm = WorkerComm
        comm.get_comm_manager = lambda: self.manager

    # To the browser ---------------------------------------------------------------------------------------------------

    def publish(self, line: WorkerComm, what: str, data: Any, buffers: Iterable[Any]) -> None:
        if line.target_name != TARGET or data.get("method") == "echo_update":  # the mirror has echoed it
            return
        raw = [bytes(one) for one in buffers]
        message = self._encoded(line.comm_id, what, data, raw)
        if message is None:
            return
        with self._guard:
            if what == "open":
                line.announced = True
                if data.get("state", {}).get("_model_module") == OUTPUTS:
                    self._in_order.add(line.comm_id)
            elif not line.announced:
                self._announce(line)
            if what == "msg" and data.get("method") == "update" and line.comm_id not in self._in_order:
                self._tell_soon(message)
            else:
                self.flush()
                self.emit(message)

    def flush(self) -> None:
        """Tell what is held back."""
        with self._guard:
            held, self._held = self._held, {}
            for message in held.values():
                self._told[message.comm] = time.monotonic()
                self.emit(message)

    def shown(self, data: Mapping[str, Any]) -> str:
        """The widget that a display shows; empty: none of ours."""
        id = str(data.get("model_id", ""))
        line = self.manager.comms.get(id)
        if not isinstance(line, WorkerComm) or line.target_name != TARGET:
            return ""
        if not line.announced:
            self._announce(line)
        return id

    def announce_all(self) -> None:
        """After a resume: show those who follow this process what widgets there are."""
        with self._guard:
            for line in list(self.manager.comms.values()):
                if isinstance(line, WorkerComm) and line.target_name == TARGET and not line.announced:
                    self._announce(line)

    def _announce(self, line: WorkerComm) -> None:
        """A widget that a checkpoint had, with all of its state; what it refers to comes first."""
        widget = getattr(line._msg_callback, "__self__", None)
        if widget is None or not hasattr(widget, "get_state"):
            return
        from ipywidgets.widgets import widget as widgets

        line.announced = True
        widgets._instances[line.comm_id] = widget
        state, paths, buffers = widgets._remove_buffers(widget.get_state())
        if state.get("_model_module") == OUTPUTS:
            self._in_order.add(line.comm_id)
        message = self._encoded(line.comm_id, "again", {"state": state, "buffer_paths": paths}, map(bytes, buffers))
        for id in REFERENCE.findall(json.dumps(state, default=str)):
            other = self.manager.comms.get(id)
            if isinstance(other, WorkerComm) and not other.announced:
                self._announce(other)
        if message is not None:
            self.emit(message)
        for other in self._holders(line.comm_id):
            self._announce(other)

    def _holders(self, id: str) -> Iterator[WorkerComm]:
        """What shows this widget within it: a kernel that does not have it, and attaches, could draw it nowhere."""
        for line in list(self.manager.comms.values()):
            if isinstance(line, WorkerComm) and line.target_name == TARGET and not line.announced:
                widget: Any = getattr(line._msg_callback, "__self__", None)
                state = widget.get_state() if hasattr(widget, "get_state") else {}
                if id in REFERENCE.findall(json.dumps(state, default=str)):
                    yield line

    def _encoded(self, id: str, what: str, data: Any, buffers: Iterable[bytes]) -> WidgetMessage | None:
        """The message as a journal has it; None for one that is none."""
        raw = list(buffers)
        try:
            text = json.dumps(data)
        except (TypeError, ValueError):
            return None
        size = len(text) + sum(map(len, raw))
        if size > LONGEST:
            if not self._said:
                self._said = True
                self.note(
                    f"A widget's message of {format_bytes(size)} is not shown: {format_bytes(LONGEST)} is the limit."
                )
            return None
        return WidgetMessage(id, what, json.loads(text), tuple(b64encode(one).decode() for one in raw))

    def _tell_soon(self, message: WidgetMessage) -> None:
        id = message.comm
        if id in self._held:
            self._held[id] = merged(self._held[id], message)
        elif time.monotonic() - self._told.get(id, -math.inf) >= EVERY:
            self._told[id] = time.monotonic()
            self.emit(message)
        else:
            self._held[id] = message
            if self._teller is None or not self._teller.is_alive():
                self._teller = threading.Thread(target=self._tell_forever, name="gpufit-comms", daemon=True)
                self._teller.start()

    def _tell_forever(self) -> None:
        """As long as there is something to tell."""
        while True:
            time.sleep(EVERY)
            with self._guard:
                if not self._held:
                    self._teller = None
                    return
                self.flush()

    # From the browser -------------------------------------------------------------------------------------------------

    def hear(self, text: str) -> Answer:
        """Keep what a browser sent, until the cell comes to a safe point."""
        try:
            record = json.loads(text)
            id, data = str(record["comm"]), dict(record["data"])
            buffers = [memoryview(b64decode(one)) for one in record["buffers"]]
        except (ValueError, KeyError, TypeError) as error:
            return Answer(False, f"the widget's message cannot be read: {error!r}")
        if not self.hears:
            return Answer(False, "the cell is just being saved, or does not run", {"later": True})
        if id not in self.manager.comms:
            return Answer(False, "there is no such widget")
        if len(self._unheard) >= MOST_UNHEARD:
            return Answer(False, f"{MOST_UNHEARD} messages of widgets wait for the cell's next iteration")
        self._unheard.append((id, {"content": {"comm_id": id, "data": data}, "buffers": buffers, "metadata": {}}))
        self.wake(self.take)
        return Answer(True)

    def take(self) -> None:
        """Let the widgets hear what came; to be called in the main thread, at a safe point."""
        self.taking = True
        try:
            self._take()
        finally:
            self.taking = False

    def _take(self) -> None:
        while self._unheard:
            id, message = self._unheard.popleft()
            line = self.manager.comms.get(id)
            try:
                if line is not None:
                    self._tell_heard(line, message)
                    line.handle_msg(message)
            except Exception:  # the user's own handler: as in a kernel, it ends no cell
                traceback.print_exc(file=sys.stderr)

    def _tell_heard(self, line: BaseComm, message: dict[str, Any]) -> None:
        """For those who read the journal: the mirror that passed it on shows it already, or something newer."""
        data = message["content"]["data"]
        raw = map(bytes, message["buffers"])
        if data.get("method") == "update" and (told := self._encoded(line.comm_id, "heard", data, raw)):
            with self._guard:
                self.flush()  # what the cell changed before comes before
                self.emit(told)


def merged(before: WidgetMessage, after: WidgetMessage) -> WidgetMessage:
    """Two changes of one widget as one."""
    state = {**before.data.get("state", {}), **after.data.get("state", {})}
    changed = after.data.get("state", {})
    kept = [
        (path, one)
        for path, one in zip(before.data.get("buffer_paths", ()), before.buffers, strict=False)
        if path[0] not in changed and path[0] not in {later[0] for later in after.data.get("buffer_paths", ())}
    ]
    paths = [path for path, _ in kept] + list(after.data.get("buffer_paths", ()))
    data = {"method": "update", "state": state, "buffer_paths": paths}
    return WidgetMessage(after.comm, "msg", data, (*(one for _, one in kept), *after.buffers))

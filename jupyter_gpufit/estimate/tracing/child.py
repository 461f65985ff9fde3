"""The forked child in which a cell is traced: puts all in place, runs the cell, says what it saw, and is gone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import linecache
import logging
import os
import types
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from inspect import CO_COROUTINE
from pathlib import Path
from typing import Any, NoReturn

import torch

from ...cuda.stand_in import autocast, device, uncompiled
from ...cuda.stand_in.shim import CudaShim
from ...devices.card import Card
from ...devices.speeds import DeviceSpeed
from ...errors import CannotPart
from ...fit.clock import clock
from ...fit.ladder import fitted, is_paged, moved, watchers
from ...fit.plan import Plan
from ...fit.seen import Modules
from ...fit.several.calls import around
from ...fit.several.group import ShapesOnly
from ...fit.sharing import Sharing
from ...surroundings import midway
from ...system.contained import Contained
from ...system.names import Holders
from ..asking.worth import means_to_train
from ..reckoning.record import AUTOCAST, NO_STEP, Kind
from . import (
    arrived,
    groups,
    loading,
    on_host,
    processes,
    sparse,
    sparse_gradients,
    subclasses,
    surface,
    types_told,
    whole,
)
from .answers import ANSWERS
from .books import Books
from .doubt import doubt_about
from .entries import BookEntry
from .example import by_example
from .failures import CELL, as_the_user_sees_it, in_a_line, limit_of_ours, line_of
from .hidden import in_place
from .imported import ImportedOnDevice
from .left_out import Place, check_at, in_words, refused_at
from .loops import CUT, Loops, cut_cell, cut_functions, leave_out_of_libraries
from .modules import Moves
from .paths import Paths
from .quiet import Ipython, silence
from .read import Reads
from .shapes_told import kernels
from .so_far import keep_so_far
from .steps import Steps
from .unshared import unshare


@dataclass
class Child:
    """One trace. `out` is where its result goes, as one line of JSON."""

    source: str
    open_namespace: Callable[[], dict[str, object]]
    card: Card
    steps: int
    out: int  # file descriptor
    scratch: Path
    plan: Plan
    speed: DeviceSpeed
    sharing: Sharing
    left_out: Collection[Place] = ()
    holders: Holders | None = None
    namespace: dict[str, Any] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)
    reads: Reads = field(init=False)
    _kept_peak: int = -1  # bytes, of what was last kept for a bad end

    def __post_init__(self) -> None:
        self.reads = Reads(self.scratch)

    def run(self) -> NoReturn:
        warnings.filterwarnings("ignore")
        _stay_alone()
        notes: Counter[str] = Counter()
        silence(notes)
        try:
            self._install(notes)
        except Exception as error:  # private parts of torch have moved
            self._tell({"status": "died", "error": f"torch {torch.__version__} cannot be traced: {error}"})
        try:
            self._open()
        except BaseException as error:  # of objects that the user's own code opens
            self._tell({"status": "died", "error": in_a_line(error)})
        try:
            code = cut_cell(self.source, CELL, self.left_out)
            with self._on_stand_in(), fitted(self.plan):
                watchers.append(self.books.follow)
                clock.speed = self.speed
                self.counted.steps += is_paged()  # what one uses is known from the one before
                self.books.arrive()
                with around(ShapesOnly(self.sharing.devices), split=self.sharing.split, is_whole=self._is_whole):
                    self._execute(code)
        except SystemExit as left:
            self._finish("completed" if left.code in (None, 0) else "failed", f"SystemExit: {left.code}")
        except BaseException as error:
            self._failed(error)
        self._finish("completed")

    @contextlib.contextmanager
    def _on_stand_in(self) -> Iterator[None]:
        shim = CudaShim(self.card, kernels(self.books))
        with torch.autograd.set_multithreading_enabled(False), shim, self.books:
            yield

    def _is_whole(self, error: CannotPart) -> None:
        self.books.notes[error.whole_on(self.sharing.devices).rstrip(".")] = 1

    def _install(self, notes: Counter[str]) -> None:
        uncompiled.begin(lambda what: notes.update([what]))  # first: a mode's making imports the compiler
        self.books = Books(
            device.begin(), self.card, notes, answers=ANSWERS, by_example=by_example, of_sparse=sparse.answer
        )
        self.kept += autocast.begin()
        self.kept += whole.begin(self.books)
        surface.begin(self.books)
        subclasses.begin(self.books)
        sparse_gradients.begin(self.books)
        processes.begin(self.books)
        groups.begin()
        self.paths, self.modules = Paths(self.books, self.namespace), Modules()
        self.counted = Steps(self.books, self.paths, self.steps, lambda: self._finish("stopped"))
        self.counted.loops = self.loops = Loops(self.books, self.paths, self.counted, self._keep_so_far)
        logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)  # which repeats users' errors

    def _open(self) -> None:
        linecache.cache[CELL] = (len(self.source), None, self.source.splitlines(keepends=True), CELL)
        contained = Contained(self.scratch, "an estimate", lambda what: self.books.notes.update([what]), self.holders)
        contained.begin()
        self.reads.begin()
        on_device = arrived.begin(self.books)
        midway.begin_alone(lambda: self.namespace)  # after the worker's, from which we were forked
        with ImportedOnDevice(self._on_stand_in).begun():
            opened = self.namespace = self.open_namespace()
        on_device.found.clear()
        self.paths.namespace = opened
        unshare()
        contained.close_open_ends([self.out])
        self.counted.find_all()
        gc.freeze()  # what is here already need not be looked at again, and its pages stay shared
        self.counted.begin()
        self.paths.begin()
        self.modules.begin()
        Moves(self.books, self.counted.optimizers).begin()
        loading.begin(self.books, self.counted)
        on_host.begin(self.books)
        self.books.notes.update(in_words(place, CELL) for place in self.left_out)
        leave_out_of_libraries(opened, self.left_out)
        for name in cut_functions(opened, self.left_out):
            self.books.notes[f"loops of {name}() not cut: its source is not known"] += 1
        opened[CUT] = self.loops.cut
        opened["get_ipython"] = lambda: Ipython(self.books, lambda source: self._execute(cut_cell(source, CELL)))
        opened.setdefault("__name__", "__main__")
        types_told.begin(opened)

    def _execute(self, code: types.CodeType) -> None:
        if code.co_flags & CO_COROUTINE:
            asyncio._set_running_loop(None)  # that of the process we were forked from
            asyncio.run(eval(code, self.namespace))
        else:
            exec(code, self.namespace)

    # The end

    def _keep_so_far(self) -> None:
        """What was seen when a loop had trained enough, for whatever happens to this process later."""
        if self.books.peak > self._kept_peak:
            self._kept_peak = self.books.peak
            keep_so_far(self.scratch, json.dumps({"status": "died"} | self._seen()))

    def _failed(self, error: BaseException) -> NoReturn:
        if why := limit_of_ours(error):
            self._finish("died", why, line_of(error))
        refused = refused_at(error, self.namespace)
        if any("guessed" in note for note in self.books.notes):
            self.counted.end_in_step()  # a line search has divided by what is no difference between guessed losses
            refused = refused or check_at(error)
        self._finish("failed", as_the_user_sees_it(error) + self._sides(error), line_of(error), refused)

    def _sides(self, error: BaseException) -> str:
        """Which models of the earlier cells are still on the CPU, where two devices met."""
        if "on the same device" not in in_a_line(error):
            return ""
        models = {name: value for name, value in self.namespace.items() if issubclass(type(value), torch.nn.Module)}
        left = [name for name, model in models.items() if any(p.device.type == "cpu" for p in model.parameters())]
        said = ", ".join(left)
        return f' ({said} on the CPU: {left[0]}.to("cuda") in this cell moves it)' if left else ""

    def _finish(self, status: str, error: str = "", where: str = "", refused: Place | None = None) -> NoReturn:
        """Nothing of the user's runs after this: no `finally`, no `atexit`."""
        with contextlib.suppress(BaseException):
            torch._C._set_only_lift_cpu_tensors(False)
        self._tell({"status": status, "error": error, "where": where, "refused": refused} | self._seen())

    def _tell(self, body: dict[str, Any]) -> NoReturn:
        with os.fdopen(self.out, "w") as file:
            json.dump(body, file)
            file.write("\n")
        os._exit(0)

    def _seen(self) -> dict[str, Any]:
        books = self.books
        changes = in_place(books.events, books.entries)
        trains = any(entry.saved for entry in books.entries)
        if not self.counted.counts() and means_to_train(self.source, self.namespace):
            books.notes[NO_STEP] = 1
        if autocast.used:
            books.notes[AUTOCAST] = 1
        used = sorted({block for block, _ in changes})
        index = {block: at for at, block in enumerate(used)}
        rows = [books.entries[block] for block in used]
        return {
            "blocks": [(e.size, e.phase, _kind(e, trains), e.op, e.module, e.step) for e in rows],
            "changes": [(index[block], alive) for block, alive in changes],
            "steps": max(self.counted.counts().values(), default=0),
            "notes": dict(books.notes),
            "modules": [(self.paths.name_of(m.module), *m.row) for m in self.modules.found.values()],
            "flops_per_step": self.counted.flops_per_step(),
            "flops_again_per_step": self.counted.flops_again_per_step(),
            "moved_per_step": self.counted.moved_per_step(),
            "steps_in_all": self.loops.steps_in_all(),
            "seconds_per_step": self.counted.seconds_per_step(),
            "waited_per_step": self.counted.waited_per_step(),
            "on_host": moved().taken,
            "samples_per_step": self.counted.samples_per_step(),
            "largest_batch": self.counted.largest_batch,
            "resident": _private_bytes(),
            "read": self.reads.seen(),
            "doubt": "" if changes else doubt_about(self.source, self.namespace, self.reads),
        }


def _kind(entry: BookEntry, trains: bool) -> Kind:
    """Of a block that nothing labelled: by when it lived."""
    if entry.kind is not None:
        return entry.kind
    if entry.phase == "forward" and (entry.saved or not trains):
        return "activation"
    return "temporary"


def _private_bytes() -> int:
    try:
        text = Path("/proc/self/smaps_rollup").read_text()
    except OSError:
        return 0
    found = [line.split() for line in text.splitlines() if line.startswith("Private_")]
    return sum(int(parts[1]) * 1024 for parts in found)


def _stay_alone() -> None:
    """One thread computes, whatever the notebook or the cell sets: those of OpenMP were left behind by the fork, and
    who splits work among them waits for ever."""
    torch.set_num_threads(1)
    torch.set_num_threads = lambda nthreads: None

"""A training at a safe point, as one graph and the bytes beside it: START HERE.

    take ─► Snapshot ─► (written, read) ─► restore ─► the training goes on, and its reply is what it would have been

The graph is a stream of graph/'s. It holds the variables, the activations, the process's settings, what the reply will
need of the arrival, and the sets that need help with their order.

    pickler      what writes it                            restore      what reads it
    tensors      on their devices, with their hooks        loaders      in the middle of an epoch, with workers
    suspended    generators                                opened_files cut back when the training goes on
    reporters    bars, log files, TensorBoard              process      what belongs to no variable
    users_files  what others may have written meanwhile
    modules      what cells have put into them             orders       of sets
    arrived      what the reply will need                  hazards      what would silently go another way
    blobs        bytes out and in                          autograd     which graphs of tensors can be held
    trackers     runs of W&B and MLflow                    caches       what lru_cache remembers
    past_modes   our calls of torch, and the cell's modes  watched      what goes on in a loader's workers
    rich_displays  what rich's threads draw                trials       of what modules hold

Objects that cannot be saved are named, all at once (CannotSave); what can be saved later only defers (NotHere).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..checkpoint.values import Snapshot
from ..errors import CannotSave, NotHere
from ..graph import Arrival
from ..graph.deep import deeply
from ..graph.made_modules import beyond_imports
from ..graph.modules import Here
from ..graph.paths import where
from ..graph.put_back import written
from ..graph.stream import HISTORY, Namespace, Refusal, a_thing, is_the_shells
from ..graph.texts import compared_by_identity
from ..graph.wire import seal, split
from ..program.values import FrameRecord, hidden
from ..surroundings import process
from ..surroundings.past_modes import past_modes
from ..system.collecting import without_collecting
from . import hazards, modules
from .arrived import changed_by_now, needed_of
from .blobs import Parts, gather
from .hazards import Problem
from .libraries import trackers
from .pickler import SnapshotPickler, Unready
from .trials import trials
from .users_files import Look, Written

VERSION = 4  # of what a snapshot's has in it: a resume reads no other
_OF_DYNAMO = re.compile(r"G__.*|torch_dynamo_resume_in_.*|.*_fn_\d+")  # names that compiling leaves in the namespace
Skip = Callable[[str], bool]


def take(
    program: Any,
    arrival: Arrival,
    namespace: Namespace,
    *,
    skip: Skip = lambda name: False,
    extra: Any = None,
) -> Snapshot:
    """The training as it stands, to be called in the main thread at a safe point. Copies no bytes of tensors.

    `skip`: names that are not the user's. `extra` comes back with the restored training; it may refer to its objects.
    Raises NotHere if it can be saved at a later safe point, CannotSave if something in it cannot be saved at all.
    """
    hazards.check_moment()
    with past_modes(), without_collecting():
        whole = _Whole(
            program, arrival, namespace, skip, program.records(), process.read() | {"trackers": trackers.live()}, extra
        )
        try:
            return whole.written()
        except RecursionError:
            return deeply(whole.written)


def preflight(program: Any, namespace: Namespace, *, skip: Skip = lambda name: False) -> tuple[Problem, ...]:
    """What no checkpoint of these variables could hold: where it is, and a sentence. Quick, and nothing is copied."""
    whole = _Whole(program, None, namespace, skip, [], {}, None)
    with without_collecting():
        try:
            return whole.problems()
        except RecursionError:
            return deeply(whole.problems)


@dataclass(frozen=True)
class _Whole:
    """All that a snapshot is taken of."""

    program: Any
    arrival: Arrival | None
    namespace: Namespace
    skip: Skip
    records: list[FrameRecord]
    settings: process.Settings
    extra: Any

    def written(self) -> Snapshot:
        pickler, names, remarks = self._all({})
        if stored := pickler.stored_ids():
            pickler, names, remarks = self._all(stored)
        self._refuse(pickler)
        graph = pickler.stream.getvalue()
        parts, header = self._laid_out(pickler, names)
        files = (*header["looks"], *header["written"])
        remarks += [*pickler.remarks, *hazards.threads_left_behind(), *hazards.finalizers_left_behind()]
        return Snapshot(seal(header, graph, version=VERSION), parts.blobs, tuple(remarks), files)

    def _all(self, stored: Mapping[int, Any]) -> tuple[SnapshotPickler, list[str], list[str]]:
        """What wrote the whole stream, the names in it, and remarks. `stored`: objects whose id() is a number in it."""
        assert self.arrival is not None
        there: list[Here] = [*compared_by_identity(), *self._beyond_imports()]
        while True:
            pickler = self._pickler(stored)
            pickler.anchor(there)
            try:
                names, remarks = self._fill(pickler, self.arrival)
            except (CannotSave, NotHere):
                if not (met := pickler.missing(there, None)):
                    raise
            else:
                if not (met := pickler.missing(there, None)):
                    return pickler, names, remarks
            there += met

    def _fill(self, pickler: SnapshotPickler, arrival: Arrival) -> tuple[list[str], list[str]]:
        names = self._write_variables(pickler)
        changed = changed_by_now(arrival)
        self._write(pickler, changed)
        memo = pickler.memo.copy()
        self._write(pickler, needed_of(arrival, changed, memo))
        orders, remarks = hazards.orders_of_sets(memo, self._roots)
        self._write(pickler, orders)
        return names, remarks

    def problems(self) -> tuple[Problem, ...]:
        pickler = self._pickler({})
        pickler.only_tries()
        try:
            self._write_variables(pickler)
        except (NotHere, CannotSave) as error:
            return error.problems if isinstance(error, CannotSave) else ()
        return tuple(problem for _, problem in self._told(pickler))

    def _pickler(self, stored: Mapping[int, Any]) -> SnapshotPickler:
        known = self.arrival.whole.offset_of if self.arrival is not None else lambda address: None
        pickler = SnapshotPickler(self.program, self.namespace, known)
        pickler.take_ids(stored)
        return pickler

    def _write_variables(self, pickler: SnapshotPickler) -> list[str]:
        """And all that belongs to no variable; the names."""
        names = [name for name in list(self.namespace) if self._is_theirs(name)]
        for pickler.name in names:
            self._write(pickler, self.namespace[pickler.name])
        pickler.name = ""
        for part in (self.records, self.settings, self._attributes(), self._data_of_modules(), self.extra):
            self._write(pickler, part)
        return names

    def _beyond_imports(self) -> list[Here]:
        with trials(self.program, self.namespace) as can_be_saved:
            return beyond_imports(can_be_saved)

    def _attributes(self) -> list[modules.Attribute]:
        return modules.attributes_set(self.program.saved(), self.namespace)

    def _data_of_modules(self) -> modules.Contents:
        """What can be saved of it: their locks and files they make for themselves again."""
        with trials(self.program, self.namespace) as can_be_saved:
            return modules.held_by(modules.own_modules(), can_be_saved)

    def _is_theirs(self, name: str) -> bool:
        ours = is_the_shells(name, self.namespace[name]) or hidden(name) or self.skip(name)
        return not ours and not HISTORY.fullmatch(name) and not _OF_DYNAMO.fullmatch(name)

    def _write(self, pickler: SnapshotPickler, value: Any) -> None:
        try:
            pickler.dump(value)
        except Unready as error:
            raise NotHere(self._put_off(error)) from error
        except pickler.passed_on:
            raise
        except Exception as error:  # in the middle of the stream, which is broken from here on
            pickler.refusals.append(Refusal(pickler.name, value, f"{a_thing(value)} that cannot be copied ({error})."))
            self._refuse(pickler)

    def _put_off(self, error: Unready) -> str:
        name, path = where(self._roots(), error.obj) or ("", "something")
        variable, _, function = name.partition(" of ")
        line = self.program.where_set(variable, function.removesuffix("()"))
        return f"{path} is {error.why}. If only its value is wanted, keep its {error.instead}{line and f' in {line}'}."

    def _roots(self) -> dict[str, Any]:
        """The variables, and those of the functions that are running, under names that a user understands."""
        roots = {name: value for name, value in self.namespace.items() if self._is_theirs(name)}
        for record in self.records:
            roots |= self._held_by(record)
        return roots

    def _held_by(self, record: FrameRecord) -> dict[str, Any]:
        roots: dict[str, Any] = {}
        if record is not self.records[0]:
            function = record.uid.split(":")[-2] if record.uid.count(":") > 1 else record.uid
            for name, value in [*record.locals.items(), *_contents(record)]:
                if not hidden(name):
                    roots[f"{name} of {function}()"] = value
        roots |= {f"the loop over {_loop(one)}": one for one in record.its.values()}
        roots |= {_held(one): one for one in record.cms.values()}
        return roots

    def _told(self, pickler: SnapshotPickler) -> list[tuple[Refusal, Problem]]:
        found: dict[tuple[str, str], tuple[Refusal, Problem]] = {}
        for refusal in pickler.refusals:
            key = (refusal.name, refusal.why)
            if key not in found:
                roots = self._roots()
                mine = {refusal.name: roots[refusal.name]} if refusal.name in roots else roots
                place = where(mine, refusal.obj)
                path = place[1] if place else refusal.name or "a setting of the process"
                found[key] = refusal, (path, refusal.why)
        return list(found.values())

    def _refuse(self, pickler: SnapshotPickler) -> None:
        if found := self._told(pickler):
            problems = tuple(problem for _, problem in found)
            raise CannotSave(problems, passing=all(self._is_passing(refusal) for refusal, _ in found))

    def _is_passing(self, refusal: Refusal) -> bool:
        """Whether only functions have it, which will end; the cell itself does not before its training has."""
        functions = self.records[1:]
        return not refusal.name and any(where(self._held_by(one), refusal.obj) for one in functions)

    def _laid_out(self, pickler: SnapshotPickler, names: list[str]) -> tuple[Parts, dict[str, Any]]:
        assert self.arrival is not None
        layout = pickler.recorder.lay_out()
        devices = {layout.table[number][1]: storage for number, storage in pickler.on_devices.items()}
        came = split(self.arrival.graph)[0]
        parts = gather(layout, devices, self.arrival.whole, came["extents"], self._roots(), self.arrival.began)
        return parts, {
            "names": names,
            "table": layout.table,
            "alone": layout.alone,
            "shared": layout.shared,
            "shared input": self.arrival.whole.shared,
            "files": layout.files,
            "places": parts.places,
            "devices": sorted(devices),
            "inputs": parts.inputs,
            "input size": self.arrival.memory.size,
            "mapped": parts.mapped,
            "began": self.arrival.began,
            "looks": {path: Look.at(path) for path, _ in layout.mapped},
            "written": {path: Written.of(path, read) for path, read in pickler.files.items()},
            "buffers": pickler.buffers,
            "anchored": bool(pickler.anchored),
            "path": list(sys.path),
            "sources": pickler.sources,
            # What earlier cells put back into modules that this cell does not name came with the variables.
            "ahead": [*written(modules.lost(self._attributes())), *came.get("ahead", ())],
            "program": self.program.saved(),
            "modules": modules.stamps(),
            "surroundings": vars(process.Surroundings.now()),
        }


def _contents(record: FrameRecord) -> Iterator[tuple[str, Any]]:
    for name, cell in record.cells.items():
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue


def _held(one: Any) -> str:
    if isinstance(one, BaseException):
        return f"the {type(one).__name__} that is being handled"
    return f"`with` a {type(one).__name__}"


def _loop(iterator: Any) -> str:
    return f"a {type(iterator).__name__}"

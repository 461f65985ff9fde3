"""From a snapshot to a training that goes on, in a process that has just started."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import CannotArrive, NotResumable
from ..graph import Arrival, GraphMemory
from ..graph.opening import Opener, Whole
from ..graph.put_back import put_back
from ..graph.sources import make_known
from ..graph.stream import GraphUnpickler, Namespace
from ..graph.wire import OtherFormat, split
from ..surroundings import process
from ..system.collecting import without_collecting
from . import modules
from .arrived import NeededAgain, arrival_again
from .blobs import Loaded, Read, fill_files, fill_input
from .restoring import Restoring
from .take import VERSION
from .users_files import LeftFiles, UsersFiles


@dataclass(frozen=True)
class Restored:
    arrival: Arrival
    extra: Any
    remarks: tuple[str, ...]  # what the user should know: sentences
    put_settings: Callable[[], None]  # random generators and modes: last of all, when the loop goes on


def restore(
    graph: bytes,
    read: Read,
    program: Any,
    namespace: Namespace,
    *,
    memory: GraphMemory | None = None,
    left: LeftFiles | None = None,
) -> Restored:
    """Open a snapshot in `namespace`; `read(i, view)` fills a view with the bytes of blob i.

    `memory`: the kernel's, whose bytes are made those of the snapshot; without it, there is a new one.
    `left`: how the training ended; by default, right after the snapshot.
    The program has the records then, and puts the settings in place when the cell has come to where it stood.
    """
    left = left or LeftFiles()
    try:
        header, stream = split(graph, version=VERSION)
    except OtherFormat:
        why = "another version of jupyter_gpufit saved it. Resume it with that version."
        raise NotResumable(left.job, why) from None
    process.Surroundings(**header["surroundings"]).put()
    sys.path += [entry for entry in header["path"] if entry not in sys.path]
    make_known(header["sources"])
    put_back(header.get("ahead", ()))
    if program is not None:
        program.remember(header["program"])
        # Who asks for the text of a function, of a generator that goes on say, finds it as before the checkpoint.
        texts = header["program"]["texts"]
        make_known({name: (text.splitlines(keepends=True), None) for name, text in texts.items()})
    memory = _input_memory(header, memory)
    whole = Whole(memory)
    whole.share(header.get("shared input", ()))
    fill_input(whole, len(header["places"]), header["inputs"], read)
    remarks: list[str] = []
    files = UsersFiles(left, remarks)
    fill_files(len(header["places"]) + len(header["inputs"]), header["mapped"], read, header["looks"], files)
    files.cut_back(header["written"])
    restoring = Restoring(files, remarks)
    before = dict(namespace)
    with without_collecting():
        loaded = Loaded(header["places"], set(header["devices"]), dict(header.get("shared", ())), read)
        records, settings, extra, needed = _open(header, stream, loaded, program, namespace, whole, restoring)
        for finish in restoring.last:
            finish()
        arrival = arrival_again(needed, namespace, before, memory, whole, header["began"])
    told = (*modules.changed_files(header["modules"]), *remarks)
    found = Restored(arrival, extra, told, lambda: process.put(settings))
    if program is not None:
        program.resume(records)
        program.on_resumed = found.put_settings
    return found


_OTHER_MEMORY = (
    "The notebook's memory is not the one that this training was started with."
    " Restart the kernel, and resume again: the checkpoint has all that is needed."
)


def _input_memory(header: dict[str, Any], memory: GraphMemory | None) -> GraphMemory:
    if memory is not None and memory.size != header["input size"]:
        raise CannotArrive("", _OTHER_MEMORY)
    return memory or GraphMemory.create(header["input size"])


def _open(
    header: dict[str, Any],
    stream: bytes,
    loaded: Loaded,
    program: Any,
    namespace: Namespace,
    whole: Whole,
    restoring: Restoring,
) -> tuple[Any, process.Settings, Any, NeededAgain]:
    opener, name = Opener(), ""
    opener.extend(header["table"], header["files"], loaded, whole, alone=header.get("alone", ()))
    try:
        given = [namespace, opener, restoring, program]
        unpickler = GraphUnpickler(stream, given, opener, header["buffers"])
        if header["anchored"]:
            unpickler.load()
        for name in header["names"]:
            namespace[name] = unpickler.load()
        name = ""
        records, settings, attributes, data, extra, _, needed, orders = (unpickler.load() for _ in range(8))
    except CannotArrive as error:
        raise CannotArrive(error.name or name, error.why) from error
    except Exception as error:
        raise CannotArrive(name, f"{type(error).__name__}: {error}.") from error
    for obj, order in orders:
        order.fill(obj)
    modules.put_attributes(attributes)
    modules.put_data(data)
    return records, settings, extra, needed

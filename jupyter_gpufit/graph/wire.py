"""How a graph begins, and by which names what is in it is made: this is what a later version has to read.

A graph is a line of JSON with the format, a pickled header, and the pickle stream of the objects. The line is read
before anything is unpickled. In both pickles our own functions and classes stand under names of this table, not under
those of modules, so that a file of ours can move without making a checkpoint unreadable.
"""

from __future__ import annotations

import io
import json
import pickle
from importlib import import_module
from typing import Any

FORMAT = 2
_OURS = __name__.partition(".")[0]

_HOMES: dict[
    str, tuple[str, str]
] = {  # by the first part of the name: a module of ours, and what of it stands in graphs
    "anew": ("graph.kinds.anew", "fill_local"),
    "archived": ("graph.kinds.archived", "fill_archived"),
    "arrays": ("graph.kinds.arrays", "fill_array fill_draws fill_objects make_array make_draws make_objects make_view"),
    "caches": ("graph.kinds.caches", "fill_cached make_answering"),
    "classes": ("graph.kinds.classes", "fill_enum fill_made make_class make_enum"),
    "contexts": ("graph.kinds.contexts", "make_variable set_value"),
    "compiled": ("graph.kinds.compiled", "compile_again disable_again script_again"),
    "containers": (
        "graph.kinds.containers",
        "fill_array fill_bytes fill_container fill_dict fill_list fill_set make_array make_container",
    ),
    "databases": (
        "graph.kinds.databases",
        "connect_again fill_database make_closed open_environment",
    ),
    "directories": ("graph.kinds.directories", "DirectoryEntry make_read"),
    "ended": ("graph.kinds.ended", "EndedChild fill make make_executor make_pool make_process make_queue make_thread"),
    "enums": ("graph.kinds.enums", "fill_member find_member"),
    "exceptions": ("graph.kinds.exceptions", "fill_error fill_own_way make_error"),
    "figures": ("graph.kinds.figures", "fill_figure"),
    "frame readers": ("graph.kinds.frame_readers", "make_closed open_again read_on"),
    "frames": ("graph.kinds.frames", "fill_frame fill_index"),
    "functions": (
        "graph.kinds.functions",
        "fill_cell fill_function make_cached make_cached_property make_cell make_function",
    ),
    "generic": ("graph.kinds.generic", "make_as_built_in"),
    "hdf5": ("graph.kinds.hdf5", "close find_in_file make_closed open_again"),
    "instances": (
        "graph.kinds.instances",
        "fill_instance fill_storable find_or_make make_instance",
    ),
    "iterations": (
        "graph.kinds.iterations",
        (
            "make_accumulate make_accumulated make_as_pickled make_batched make_chain make_cycle make_pairwise"
            " make_zip_longest"
        ),
    ),
    "unbegun": ("graph.midway", "fill_parked go_on make_ended make_generator make_parked"),
    "modules": ("graph.modules", "dictionary_of"),
    "odd": (
        "graph.kinds.odd",
        (
            "fill_namespace find_descriptor find_match find_nth_match find_stream make_closed_file make_dict_view"
            " make_flat make_namespace"
        ),
    ),
    "slopes": ("graph.kinds.slopes", "Slope"),
    "standing": ("graph.kinds.standing_workers", "StandingElsewhere"),
    "written": ("graph.kinds.streams", "find_method"),
    "tensors": (
        "graph.kinds.tensors",
        (
            "fill_loader fill_tensor make_device_tensor make_event make_flowing make_lazy make_meta make_optimizer"
            " make_sloped make_sparse make_stream make_tensor"
        ),
    ),
    "unavailable": ("graph.unavailable", "Unavailable unavailable"),
    "locks": ("graph.kinds.locks", "make_lock"),
    "shared": (
        "graph.kinds.shared_values",
        "fill_count make_condition make_count make_data make_event make_lock",
    ),
    "made": ("graph.made_modules", "filled loaded_from named registered"),
    "loggers": ("graph.kinds.loggers", "Elsewhere fill_logger"),
    "opened": ("graph.kinds.opened_files", "fill_file make_opened"),
    "texts": ("graph.texts", "interned suppressed"),
    "parents": ("graph.kinds.parents", "CameTo fill_parent make_again"),
    "surfaces": ("graph.kinds.surfaces", "fill_surface make_clock make_surface"),
    "scripted": ("graph.kinds.scripted", "fill_around_one fill_module load_again make_around_one method_again part_of"),
    "simulators": ("graph.kinds.simulators", "Simulated arrive"),
    "simulated": ("system.simulators", "CallSeen Stood"),
    "tracked": ("graph.kinds.tracked_runs", "join"),
    "trackers": ("surroundings.tracked", "TrackedByMlflow TrackedByWandb"),
    "weak": ("graph.kinds.weak", "fill_reference make_weak_method"),
    "widgets": ("graph.kinds.widgets", "fill_line fill_widget make_line"),
    "wrapped": ("graph.kinds.wrapped", "fill_wrapped make_wrapped"),
    "writers": ("graph.kinds.writers", "another fill_writer make_events make_writer"),
    "around": ("surroundings.holders", "here_or_new"),
    "iterators": ("program.running.iterators", "Entries Matches"),
    "generators": ("program.running.generators", "create prime"),
    "getters": ("program.running.getters", "Getter"),
    "delegates": ("program.running.delegates", "Delegate"),
    "managers": ("program.running.managers", "Again Entered NumpyErrors Recipe"),
    "run": ("program.running.run_calls", "RunCall"),
    "saved.run": ("snapshot.kinds.run_modules", "fill_module"),
    "program": ("program.values", "FrameRecord GeneratorRecord Unit"),
    "streams": ("cuda.surface.streams", "OneEvent OneStream"),
    "saved.arrived": ("snapshot.arrived", "NeededAgain"),
    "saved.autograd": ("snapshot.kinds.autograd", "look_at split_again"),
    "saved.caches": ("snapshot.kinds.caches", "fill_cached make_cached"),
    "saved.loaders": ("snapshot.kinds.loaders", "fill_remembering"),
    "saved.workers": ("snapshot.loader_workers", "Carried"),
    "saved.files": ("snapshot.kinds.opened_files", "make_csv_reader make_raw redirect_again"),
    "saved.pools": ("graph.kinds.pools", "end made_anew"),
    "saved.suspended": ("snapshot.kinds.suspended", "prime_later"),
    "saved.tensors": (
        "snapshot.kinds.tensors",
        (
            "fill_attributes fill_generator fill_scaler fill_storage fill_tensor find_default_generator"
            " make_device_storage make_event make_generator make_storage make_stream make_tensor"
        ),
    ),
    "saved.mlflow": ("snapshot.libraries.mlflow_runs", "Autologging take_up tell_autologging"),
    "saved.reporters": (
        "snapshot.libraries.reporters",
        "fill_bar fill_csv_writer fill_handler fill_rich_bar make_bar",
    ),
    "saved.wandb": ("snapshot.libraries.wandb_runs", "fill_ended fill_run take_up"),
    "saved.looks": ("snapshot.users_files", "Look Written"),
}
NAMES = {f"{first}.{name}": (home, name) for first, (home, names) in _HOMES.items() for name in names.split()}
# What was another's before: checkpoints have it under the name that it had.
_MOVED = "make_csv_writer make_text seek"
_OF_RANDOM_NUMBERS = "fill_generator find_default_generator make_generator"
NAMES |= {
    f"instances.{name}": ("graph.kinds.generic", name) for name in "fill_generic find_in_module set_state".split()
}
NAMES["generators.expressed"] = ("graph.midway", "make_expression")  # of the program
NAMES |= {f"tensors.{name}": ("graph.kinds.storages", name) for name in "fill_storage make_storage make_typed".split()}
NAMES |= {f"tensors.{name}": ("graph.kinds.random_numbers", name) for name in _OF_RANDOM_NUMBERS.split()}
NAMES["functions.fill_class"] = ("graph.kinds.classes", "fill_class")
NAMES["saved.figures.fill_transform"] = ("graph.kinds.figures", "fill_transform")
NAMES |= {f"odd.{name}": ("graph.kinds.weak", name) for name in "fill_weak make_reference make_weak".split()}
NAMES |= {f"saved.files.{name}": ("graph.kinds.opened_files", name) for name in _MOVED.split()}
_KNOWN = {place: name for name, place in NAMES.items()}


class OtherFormat(Exception):
    """A graph that another version wrote."""


def seal(header: dict[str, Any], stream: bytes, *, version: int = 0) -> bytes:
    """A graph of this format; `version`: of what the header holds."""
    body = io.BytesIO()
    _HeaderPickler(body, 5).dump(header)
    return json.dumps({"format": FORMAT, "version": version}).encode() + b"\n" + body.getvalue() + stream


def split(graph: bytes, *, version: int = 0) -> tuple[dict[str, Any], bytes]:
    """A graph's header, and the stream that follows it; raises OtherFormat before anything is unpickled."""
    line, _, rest = graph.partition(b"\n")
    try:
        found = json.loads(line)
        is_ours = found["format"] == FORMAT and found["version"] == version
    except (ValueError, KeyError, TypeError):
        is_ours = False
    if not is_ours:
        raise OtherFormat
    stream = io.BytesIO(rest)
    header: dict[str, Any] = pickle.load(stream)
    return header, stream.read()


def reference(thing: Any) -> Any:
    """What a pickler's reducer returns for a function or class of ours; None: it is not, or has no name here."""
    home = getattr(thing, "__module__", None)
    if not isinstance(home, str) or not home.startswith(f"{_OURS}."):
        return None
    name = _KNOWN.get((home.removeprefix(f"{_OURS}."), thing.__qualname__))
    return None if name is None else (made_by, (name,))


def made_by(name: str) -> Any:
    """What stands under a name in a graph."""
    home, own = NAMES[name]
    return getattr(import_module(f"{_OURS}.{home}"), own)


class _HeaderPickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        found = reference(obj) if isinstance(obj, type) or callable(obj) else None
        return NotImplemented if found is None else found

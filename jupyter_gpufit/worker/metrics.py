"""Loss, accuracy, learning rate: numbers read from the running loop's own variables, with nothing added to the cell.

Once a second the control thread looks at the frames of the main thread that are the user's, the innermost first, and
takes what is a number already: a float, a scalar of numpy or torch on the CPU, the last of a list of floats, an
optimizer's learning rate. Of a library's own function it takes what that logged (`{"loss": 0.69}` of a Trainer) and not
its variables, which may be sums, or scaled. A tensor on a GPU is left alone, since reading it would wait; copies.py
fetches it.
"""

from __future__ import annotations

import itertools
import linecache
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Set, Sized
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from ..jobs.live import Loss, finite
from ..system.variables import read
from .loops import Nest, nest_of

MOST = 16  # values of one reading
MOST_FRAMES = 8  # of the user's, looked at
DEEPEST = 400  # frames
MOST_PARTS = 100  # attributes of an object, looked at
MOST_LOGGED = 64  # entries of a dict that is a log
POINTS = 1000  # that a curve of a short run has: the time between two grows with the time before, up to LONGEST
LONGEST = 10.0  # seconds between two points: the latest thousand show the last hours, whatever came before

_WORDS = frozenset(
    "loss losses nll elbo perplexity ppl acc accuracy error err lr score scores reward rewards kl entropy norm"
    " mse mae rmse iou dice f1 auc bleu wer cer".split()
)
_BETWEEN_WORDS = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])|(?<=[a-z])\d+$")
_LOSS = frozenset({"loss", "losses"})
_OURS = str(Path(__file__).parents[1])
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")} | {_OURS})
_FRAME = "_gf_f"  # in which rewritten code keeps its loops, see program/


@dataclass(frozen=True)
class Reading:
    """What one look found."""

    values: Mapping[str, float]
    nest: Nest  # the loops that are being run
    elsewhere: bool = False  # there are more, on a GPU: see copies.py


@dataclass
class Sampler:
    """Looks at a thread again and again."""

    thread: int  # its ident
    seen: dict[str, CodeType] = field(default_factory=dict)  # whose each number is
    _loss: str = ""  # which variable was taken for the loss
    _last: dict[str, float] | None = None  # what was read before
    _changing: set[str] = field(default_factory=set)

    def look(self) -> Reading:
        """Read what the thread's variables are now; takes well under a millisecond."""
        frames = [*_users_frames(sys._current_frames().get(self.thread))]
        values: dict[str, float] = {}
        logged: dict[str, float] = {}
        whose: dict[str, CodeType] = {}
        logs: dict[str, CodeType] = {}
        programs, elsewhere = [], False
        for frame in frames:
            numbers = numbers_in(frame)
            for name in (*numbers.own, *numbers.elsewhere):
                whose.setdefault(name, frame.f_code)
            elsewhere = elsewhere or bool(numbers.elsewhere)
            if (program := numbers.program or _of_cell(frame)) is not None:
                programs.append(program)
            for name, value in numbers.own.items():
                values.setdefault(name, value)
            for name, value in numbers.logged.items():
                logged.setdefault(name, value)
            for name in numbers.logged:
                logs.setdefault(name, frame.f_code)
        self.seen |= {**logs, **whose}
        return Reading(self._chosen({**logged, **values}, logged.keys() - values), nest_of(programs[::-1]), elsewhere)

    def elsewhere(self) -> dict[str, Any]:
        """The tensors on a GPU that are single numbers and named like a metric, the innermost first."""
        found: dict[str, Any] = {}
        for frame in _users_frames(sys._current_frames().get(self.thread)):
            if _is_users_file(frame.f_code.co_filename):
                for name, value in on_a_gpu(read(frame)):
                    found.setdefault(name, value)
        return found

    def loss(self, values: Mapping[str, float]) -> Loss | None:
        """The loss among the values; once found it stays the same variable while there is one of this name."""
        found = loss_among(values, self._loss)
        self._loss = self._loss if found is None else found.name
        return found

    def _chosen(self, values: Mapping[str, float], logged: Set[str]) -> dict[str, float]:
        """Those named like a metric, and others once they have changed: a constant is not worth a curve.

        What is logged changes, too, or comes later; what does not is a configuration.
        """
        last = self._last if self._last is not None else values
        self._changing |= {name for name, value in values.items() if last.get(name, value) != value}
        self._changing |= logged - last.keys()
        self._last = dict(values)
        named = [name for name in values if is_metric(name) and (name not in logged or name in self._changing)]
        others = [name for name in values if name in self._changing and not is_metric(name)]
        return {name: values[name] for name in [*named, *others][:MOST]}


@dataclass(frozen=True)
class Numbers:
    """Those of one frame of the user's, or of a library that the user's code called."""

    own: Mapping[str, float]  # of the user's variables
    logged: Mapping[str, float]
    elsewhere: Mapping[str, Any]  # tensors of the user's variables, on a GPU
    program: Any  # the rewritten code's record of its loops, or None


def numbers_in(frame: FrameType) -> Numbers:
    """What a frame has now."""
    found = read(frame)
    is_users = _is_users_file(frame.f_code.co_filename)
    own: dict[str, float] = {}
    for name, value in itertools.chain(_numbers(found) if is_users else (), _rates(frame)):
        own.setdefault(name, value)
    logged: dict[str, float] = {}
    for name, value in _logged(found):
        logged.setdefault(name, value)
    return Numbers(own, logged, dict(on_a_gpu(found)) if is_users else {}, found.get(_FRAME))


def numbers_among(variables: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among a cell's variables; a name that two have is the first one's."""
    found: dict[str, float] = {}
    for name, value in _numbers(variables):
        found.setdefault(name, value)
    return found


def loss_among(values: Mapping[str, float], before: str = "") -> Loss | None:
    """The loss among the values: what was taken for it `before`, or else what is called so."""
    if before not in values:
        candidates = [name for name in values if not _LOSS.isdisjoint(_words(name))]
        if not candidates:
            return None
        before = "loss" if "loss" in candidates else candidates[0]
    return Loss(name=before, value=finite(values[before]))


@dataclass
class SampledCurve:
    """Decides which readings are worth an entry of the journal: a long training must not fill it with points."""

    began: float
    _latest: float = float("-inf")

    def is_due(self, now: float) -> bool:
        """Whether so much time has passed that the curve so far would show it."""
        if now - self._latest < min((now - self.began) / POINTS, LONGEST):
            return False
        self._latest = now
        return True


def is_metric(name: str) -> bool:
    """Whether a variable is named like something to be watched."""
    return not _WORDS.isdisjoint(_words(name))


def _words(name: str) -> list[str]:
    """ "trainLoss_2" is of the words train and loss, and f1 is one itself."""
    return [name.lower(), *(word.lower() for word in _BETWEEN_WORDS.split(name))]


def _users_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """The innermost frames of code that the user wrote."""
    found = depth = 0
    while frame is not None and found < MOST_FRAMES and depth < DEEPEST:
        if _is_users(frame.f_code):
            found += 1
            yield frame
        frame, depth = frame.f_back, depth + 1


_known: dict[CodeType, bool] = {}


def _is_users(code: CodeType) -> bool:
    known = _known.get(code)
    if known is None:
        if len(_known) > 10_000:  # code that is made again and again
            _known.clear()
        known = _known[code] = _FRAME in code.co_varnames or _is_users_file(code.co_filename)
    return known


def _is_users_file(filename: str) -> bool:
    entry = linecache.cache.get(filename)
    if entry is not None and len(entry) == 4 and entry[1] is None:
        return True  # the text of a cell; see graph/sources.py
    return filename.startswith("/") and not filename.startswith(_LIBRARIES) and "/site-packages/" not in filename


def _of_cell(frame: FrameType) -> Any:
    """A cell's own record of its loops stands among its globals."""
    return frame.f_globals.get(_FRAME) if frame.f_code.co_name == "<module>" else None


def _numbers(variables: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers among variables, and among the attributes of `self` those that are named like a metric."""
    for name, value in variables.items():
        if name.startswith("_"):
            continue
        if name == "self":
            for attribute, inner in _public(value):
                yield from _number(attribute, inner, named_only=True)
        yield from _number(name, value, named_only=False)


def _logged(variables: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """What is kept as a log: a dict of metrics, or of lists of them, or a list of such dicts; in `self`, too."""
    for name, value in variables.items():
        if not name.startswith("_"):
            yield from _of_log(value)
    for _, part in _public(variables.get("self")):
        yield from _of_log(part)
        if not isinstance(part, Sized):  # a module's list of layers is no log
            for _, inner in _public(part):
                yield from _of_log(inner)


def _of_log(value: Any) -> Iterator[tuple[str, float]]:
    try:
        log = value[-1] if isinstance(value, list) and value else value
        if isinstance(log, dict) and len(log) <= MOST_LOGGED:
            for name, inner in list(log.items()):
                if type(name) is str:
                    yield from _number(name, inner, named_only=True)
    except Exception:
        return  # of a kind with a mind of its own


def _public(value: Any) -> list[tuple[str, Any]]:
    """The attributes that are not somebody's internals."""
    return [(name, inner) for name, inner in list(_attributes(value).items())[:MOST_PARTS] if name[:1] != "_"]


def _rates(frame: FrameType) -> Iterator[tuple[str, float]]:
    """The learning rate of an optimizer that stands among a function's global names; its other globals may be old."""
    if "torch" in sys.modules:
        from torch.optim import Optimizer

        for name in frame.f_code.co_names:
            if isinstance(value := frame.f_globals.get(name), Optimizer):
                yield from _of_torch(name, value, named_only=True)


def _attributes(value: Any) -> dict[str, Any]:
    try:
        found = object.__getattribute__(value, "__dict__")  # not the user's own __getattr__
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def _number(name: str, value: Any, *, named_only: bool) -> Iterator[tuple[str, float]]:
    kind = type(value)
    if kind is float:
        if not named_only or is_metric(name):
            yield name, value
    elif kind is int:
        if is_metric(name):
            yield name, float(value)
    elif kind is list:
        if is_metric(name) and value and type(last := value[-1]) is float:
            yield name, last
    elif kind.__module__ == "numpy":
        if kind.__name__.startswith("float") and (not named_only or is_metric(name)):
            yield name, float(value)
    elif "torch" in sys.modules:
        yield from _of_torch(name, value, named_only=named_only)


def _of_torch(name: str, value: Any, *, named_only: bool) -> Iterator[tuple[str, float]]:
    import torch

    try:
        if type(value) in (torch.Tensor, torch.nn.Parameter):
            if (not named_only or is_metric(name)) and _is_at_hand(value):
                yield name, value.item()
        elif isinstance(value, torch.optim.Optimizer) and type(rate := value.param_groups[0]["lr"]) is float:
            yield "lr", rate
    except Exception:
        return  # half made, or of a kind that has no value (a fake one, a vmapped one)


def on_a_gpu(variables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The tensors there that are single numbers and named like a metric."""
    if "torch" not in sys.modules:
        return
    import torch

    for name, value in variables.items():
        if type(value) is not torch.Tensor or not is_metric(name) or _is_a_part(value):
            continue
        if value.is_cuda and value.numel() == 1 and value.is_floating_point() and not value.is_sparse:
            yield name, value


def _is_a_part(value: Any) -> bool:
    """Of a batch, the rest of which is on other devices: whoever looks has all of them meet."""
    from ..fit.several.parts import rows_of

    return rows_of(value) is not None


def _is_at_hand(value: Any) -> bool:
    """One number on the CPU; on a GPU it would have to be waited for, and several devices for each other."""
    if _is_a_part(value):
        return False
    return value.numel() == 1 and value.device.type == "cpu" and value.is_floating_point() and not value.is_sparse

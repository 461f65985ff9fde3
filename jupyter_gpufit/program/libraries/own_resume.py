"""A library's training loop whose text is not at hand: it is left and entered by the library's own resume.

The call is saved between two of the library's steps with all that the trainer holds by then, less the library's frames.
To go on, the trainer, made again, writes a checkpoint of its own into a directory of ours and is called with that. So
nothing of the library's lies on the disk beside a checkpoint or is read from there, and leaving is as quick as ever.
Not to the bit: what only the library's frames knew, and the batches drawn in the middle of an epoch, may differ.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, MethodType
from typing import Any

from ...errors import NotResumable
from ..running.activation import Activation, Runner
from .own_resume_libraries import ENTRIES, Loaded, Resuming, resuming_of
from .own_resume_overrides import base_of, signature_with, wrapper_of

INEXACT = "by the library's own resume: not exact to the bit in the middle of an epoch"
_PREFIX = "own-resume-"
# Of these, MLflow's autologging has threads and queues that outlast each step.
_AUTOLOGGED = (("mlflow", "lightning"), ("mlflow", "pytorch_lightning"))


@dataclass(frozen=True)
class OwnResume:
    """A call of train() or fit() as it is saved: in place of the callee."""

    method: MethodType
    args: tuple[Any, ...]
    keywords: dict[str, Any]

    def go_on(self, frame: Activation) -> Any:
        """Call it again, where the trainer was left."""
        program, trainer = frame.program, self.method.__self__
        resuming = resuming_of(trainer)
        assert resuming is not None, f"{type(trainer).__name__} was saved by its own resume, and has none here"
        step = resuming.step(trainer)
        frame.resumed()
        program.on_note(f"{self.method.__qualname__} goes on {INEXACT}.")
        with _directory(program.scratch) as directory:
            path = resuming.save(trainer, directory)
            args, keywords = self._resumed_from(path, resuming)

            def loaded() -> None:
                if (now := resuming.step(trainer)) != step:
                    why = f"it was saved at step {step:,} and went on from step {now:,}. It has to pass on"
                    raise NotResumable(self.method.__qualname__, f"{why} its {resuming.parameter}.")
                program.arrived()  # the generators once more: to come to its place, it has drawn from them
                shutil.rmtree(directory, ignore_errors=True)

            return _run(self, resuming, frame, args, keywords, loaded)

    def _resumed_from(self, path: str, resuming: Resuming) -> tuple[tuple[Any, ...], dict[str, Any]]:
        signature = signature_with(resuming.parameter, self.method, base_of(resuming))
        assert signature is not None, "it was not left without"
        bound = signature.bind(*self.args, **self.keywords)
        bound.arguments.update(resuming.resumed_from(path, signature.parameters))
        return bound.args, bound.kwargs


def calls(method: MethodType, frame: Activation) -> Callable[..., Any] | None:
    """What to call instead of a library's train() or fit(), so that it can be left; None for all else."""
    if getattr(method, "__name__", "") not in ENTRIES or (resuming := resuming_of(method.__self__)) is None:
        return None
    why, way_on = _why_unknown(method, resuming)
    inside = f"inside {method.__name__}()"
    parameter = signature_with(resuming.parameter, method, base_of(resuming))
    if parameter is None or not resuming.can_save(method.__self__) or _is_autologged(method, resuming):
        frame.program.library.tell(f"{why}: the cell cannot be checkpointed {inside}.{way_on}")
        return None
    frame.program.library.tell(f"{why}, so {inside} the cell is checkpointed {INEXACT}.{way_on}")

    def call(*args: Any, **keywords: Any) -> Any:
        return _run(OwnResume(method, args, keywords), resuming, frame, args, keywords)

    return call


def _why_unknown(method: MethodType, resuming: Resuming) -> tuple[str, str]:
    """Why a call is not left in the library's own loop, and how it would be."""
    if (wrapper := wrapper_of(method)) not in ("", resuming.library):
        instead = " It can with Lightning's MLFlowLogger instead of mlflow's autolog()."
        way_on = instead if _is_autologged(method, resuming) else ""
        return f"{wrapper} has wrapped {method.__name__}() of {resuming.library}", way_on
    version = getattr(sys.modules[resuming.library], "__version__", "?")
    return f"the text of {method.__name__}() of {resuming.library} {version} is not at hand", ""


def _is_autologged(method: MethodType, resuming: Resuming) -> bool:
    return (wrapper_of(method), resuming.library) in _AUTOLOGGED


def goes_on_by_it(callee: Any) -> bool:
    """Whether a place is such a call."""
    return isinstance(callee, OwnResume)


def where(callee: Any) -> str:
    """To be said of a place that is such a call."""
    return f", inside {callee.method.__qualname__}, {INEXACT}" if goes_on_by_it(callee) else ""


def _run(
    own: OwnResume,
    resuming: Resuming,
    frame: Activation,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    loaded: Loaded = lambda: None,
) -> Any:
    safe_point = _SafePoint(frame.program, sys._getframe())
    frame.callee = own
    try:
        with resuming.watched(own.method.__self__, safe_point, loaded):
            return own.method(*args, **keywords)
    finally:
        frame.callee = safe_point.standing = None


@dataclass
class _SafePoint:
    """Between two steps: the place is that of the call, however deep in the library this is asked."""

    program: Runner
    standing: FrameType | None

    def __call__(self) -> None:
        if self.program.pending and self.standing is not None:
            self.program.stop(self.standing)


@contextmanager
def _directory(around: str | None) -> Iterator[Path]:
    """For this user alone, and without what a resume left that was killed."""
    for left in Path(around).glob(f"{_PREFIX}*") if around else ():
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=around, ignore_cleanup_errors=True) as made:
        yield Path(made)

"""A library's training loop of a version that is not known here: it is left and entered by the library's own resume.

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
from typing import TYPE_CHECKING, Any

from .own_resume_libraries import ENTRIES, Loaded, Resuming, resuming_of

if TYPE_CHECKING:
    from .frame import Frame
    from .program import Program

INEXACT = "by the library's own resume: not exact to the bit in the middle of an epoch"
_PREFIX = "own-resume-"


@dataclass(frozen=True)
class OwnResume:
    """A call of train() or fit() as it is saved: in place of the callee."""

    method: MethodType
    args: tuple[Any, ...]
    keywords: dict[str, Any]

    def go_on(self, frame: Frame) -> Any:
        """Call it again, where the trainer was left."""
        program, trainer = frame.program, self.method.__self__
        resuming = resuming_of(trainer)
        assert resuming is not None, f"{type(trainer).__name__} was saved by its own resume, and has none here"
        frame.resumed()
        program.on_note(f"{self.method.__qualname__} goes on {INEXACT}.")
        with _directory(program.scratch) as directory:
            path = resuming.save(trainer, directory)
            args, keywords = resuming.resumed_from(path, self.method, self.args, self.keywords)

            def loaded() -> None:
                program.arrived()  # the generators once more: to come to its place, it has drawn from them
                shutil.rmtree(directory, ignore_errors=True)

            return _run(self, resuming, frame, args, keywords, loaded)


def calls(method: MethodType, frame: Frame) -> Callable[..., Any] | None:
    """What to call instead of a library's train() or fit(), so that it can be left; None for all else."""
    if method.__name__ not in ENTRIES or (resuming := resuming_of(method.__self__)) is None:
        return None
    version = getattr(sys.modules[resuming.library], "__version__", "?")
    unknown, inside = f"{resuming.library} {version} is not known here", f"inside {method.__name__}()"
    if not resuming.can_save(method.__self__):
        frame.program.library.tell(f"{unknown}: the cell cannot be checkpointed {inside}.")
        return None
    frame.program.library.tell(f"{unknown}, so {inside} the cell is checkpointed {INEXACT}.")

    def call(*args: Any, **keywords: Any) -> Any:
        return _run(OwnResume(method, args, keywords), resuming, frame, args, keywords)

    return call


def where(callee: Any) -> str:
    """To be said of a place that is such a call."""
    return f", inside {callee.method.__qualname__}, {INEXACT}" if isinstance(callee, OwnResume) else ""


def _run(
    own: OwnResume,
    resuming: Resuming,
    frame: Frame,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    loaded: Loaded = lambda: None,
) -> Any:
    safe_point = _SafePoint(frame.program, frame, sys._getframe())
    frame.callee = own
    try:
        with resuming.watched(own.method.__self__, safe_point, loaded):
            return own.method(*args, **keywords)
    finally:
        frame.callee = safe_point.standing = None


@dataclass
class _SafePoint:
    """Between two steps: the place is that of the call, however deep in the library this is asked."""

    program: Program
    frame: Frame
    standing: FrameType | None

    def __call__(self) -> None:
        if self.program.pending and self.standing is not None:
            self.program.stop(self.frame, self.standing)


@contextmanager
def _directory(around: str | None) -> Iterator[Path]:
    """For this user alone, and without what a resume left that was killed."""
    for left in Path(around).glob(f"{_PREFIX}*") if around else ():
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=around, ignore_cleanup_errors=True) as made:
        yield Path(made)

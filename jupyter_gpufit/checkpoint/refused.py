"""Why a checkpoint was not saved, and what to do about it."""

from __future__ import annotations

import errno
from pathlib import Path

from ..errors import CheckpointError, NotSaved, TakenOver
from ..units import format_bytes
from .request import WriterAnswer
from .staging import NoRoom


def not_saved(directory: Path, answer: WriterAnswer, epoch: int = 0) -> CheckpointError:
    if answer.current:
        return TakenOver(str(directory), epoch, answer.current)
    why = answer.failed
    if answer.errno == errno.ENOSPC and answer.needed:
        why += f": it needs {format_bytes(answer.needed)} and {format_bytes(answer.free)} are free"
    remedy = _REMEDIES.get(answer.errno, "The next one will be tried as usual.")
    return NotSaved(answer.file or str(directory), why, remedy)


_REMEDIES = {
    errno.ENOSPC: "Free space there (gpufit clean removes what ended), or choose another place with GPUFIT_DATA.",
    errno.EDQUOT: "Your quota is used up: free some of it, or choose another place with GPUFIT_DATA.",
    errno.EFBIG: "Raise the limit on the size of files (ulimit -f), or choose another file system with GPUFIT_DATA.",
    errno.EROFS: "Have it made writable, or choose another place with GPUFIT_DATA.",
    errno.EACCES: "Make it writable for you (chmod u+rwx), or choose another place with GPUFIT_DATA.",
    errno.EPERM: "Make it writable for you, or choose another place with GPUFIT_DATA.",
    errno.EIO: "The disk may be failing: choose another place with GPUFIT_DATA.",
}


def no_room(directory: Path, lack: NoRoom) -> NotSaved:
    why = f"it needs {format_bytes(lack.needed)} more of the host's memory and {format_bytes(lack.free)} are free"
    return NotSaved(str(directory), why, "Free memory on this machine, or train with less data in memory.")

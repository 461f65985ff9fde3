"""Which of a job's numbers are drawn: those that its user picked, in the card or in the panel, or else its loss.

The choice lies with the job's files, so that the card, the panel and a second browser show the same, also tomorrow.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable

from ..errors import StorageError
from ..system.files import read_small, write_whole
from ..system.foreign import parsed_record
from .paths import JobPaths

FORMAT = 1
MOST = 16  # names; as many as one reading of the loop has
LONGEST = 200  # characters of a name


def pick(paths: JobPaths, names: Iterable[str]) -> None:
    """Draw these from now on."""
    kept = [name[:LONGEST] for name in dict.fromkeys(names)][:MOST]
    try:
        write_whole(paths.picked, json.dumps({"format": FORMAT, "names": kept}))
    except OSError as error:
        raise StorageError(str(paths.root), error.strerror or str(error), "GPUFIT_DATA") from error


def picked(paths: JobPaths) -> tuple[str, ...] | None:
    """What was picked; None: nobody has chosen. A file that cannot be read is no reason to show nothing."""
    try:
        record = parsed_record(read_small(paths.picked))
        names = record["names"] if record["format"] <= FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return tuple(map(str, names)) if isinstance(names, list) else None


def shown(names: Collection[str], picked: tuple[str, ...] | None) -> tuple[str, ...]:
    """Those to draw of the names that there are: where nobody has chosen, the one that looks like the loss."""
    if picked is not None:
        return tuple(name for name in names if name in picked)
    losses = [name for name in names if "loss" in name.lower()]
    exact = [name for name in losses if name.lower() == "loss"]
    return tuple((exact or losses or list(names))[:1])

"""What a trace has seen so far, in a file: all that is left of it when its process is ended before it could tell."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_NAME = ".gpufit-seen-so-far"
_replace = os.replace  # before a traced process gets another


def keep_so_far(scratch: Path, text: str) -> None:
    half = scratch / f"{_NAME}-half"
    half.write_text(text)
    _replace(half, scratch / _NAME)


def seen_so_far(scratch: Path) -> dict[str, Any]:
    """Empty when there is nothing."""
    try:
        found: dict[str, Any] = json.loads((scratch / _NAME).read_text())
    except (OSError, ValueError):
        return {}
    return found

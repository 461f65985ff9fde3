"""`python -m jupyter_gpufit.models`: takes models, or their weights out of them, and says what came of it in one line.

In a process of its own: what reads a strange file may take much memory, and may crash.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import ModelRefused
from .shell import take_weights_out
from .taking import take


def main() -> None:
    asked = json.loads(sys.argv[1])
    said: dict[str, Any] = {}
    path = ""
    try:
        if "folders" in asked:
            for path, folder in asked["folders"].items():
                take_weights_out(Path(path), Path(folder))
        else:
            taken = []
            for path in asked["paths"]:
                taken.append(asdict(take(Path(path), asked["rows"], asked["sizes"])))
            said = {"taken": taken}
    except ModelRefused as error:
        said = {"refused": error.why, "path": path}
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main()

"""`python -m jupyter_gpufit.models`: takes one model and says what it found, or why not, as one line of JSON.

In a process of its own: what reads a strange file may take much memory, and may crash.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ..errors import ModelRefused
from .taking import take


def main() -> None:
    asked = json.loads(sys.argv[1])
    try:
        said = take(Path(asked["path"]), asked["rows"], asked["sizes"]).to_json()
    except ModelRefused as error:
        said = json.dumps({"refused": error.why})
    sys.stdout.write(json.dumps(json.loads(said)) + "\n")


if __name__ == "__main__":
    main()

"""Libraries that tests train with: a missing one fails its test in `make test`; elsewhere it is skipped, loudly.

They are not imported here: keras wants its backend to be named before, and a cell's import is a part of the test.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest


def need(*libraries: str) -> None:
    """Fail or skip where one of them is not installed."""
    missing = [library for library in libraries if find_spec(library) is None]
    if not missing:
        return
    said = f'NOT TESTED: {", ".join(missing)} is not installed. pip install -e ".[libraries]"'
    if os.environ.get("WITH_LIBRARIES"):
        pytest.fail(said, pytrace=False)
    pytest.skip(said)

"""What needs ONNX is left out where it is not installed, in one loud line."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

MISSING = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
collect_ignore = ["test_taking.py", "test_export.py"] if MISSING else []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if MISSING:
        said = f"models are NOT TESTED: {', '.join(MISSING)} is not installed. pip install -e '.[onnx]'"
        terminalreporter.write_line(said, red=True)

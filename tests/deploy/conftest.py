"""What needs ONNX Runtime is left out where it is not installed; tests/models says so in one loud line."""

from __future__ import annotations

from tests.models.conftest import MISSING

collect_ignore = ["test_session.py", "test_life.py", "test_serve.py", "test_backend.py"] if MISSING else []

"""What needs ONNX Runtime is left out where it is not installed; tests/models says so in one loud line."""

from __future__ import annotations

from tests.models.conftest import MISSING

NEED_IT = ("session", "instance", "life", "refused", "serve", "backend")
collect_ignore = [f"test_{one}.py" for one in NEED_IT] if MISSING else []

"""Tests that need a GPU: `make gpu` on a machine that has one, with its own Python and torch."""

from __future__ import annotations

import pytest


def _missing() -> str:
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    return "" if torch.cuda.device_count() else "torch sees no GPU"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    why = _missing()
    for item in items:
        if "tests/gpu/" in item.nodeid:
            item.add_marker(pytest.mark.gpu)
            if why:
                item.add_marker(pytest.mark.skip(reason=f"NEEDS A GPU ({why}): run `make gpu` where there is one"))

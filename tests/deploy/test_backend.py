"""ONNX's own backend tests, each as a deployed model: a sample, and with `make soak` all two thousand."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from tests.deploy import backend_data


def test_a_sample_answers_as_plain_onnx_runtime_does(tmp_path: Path) -> None:
    cases = list(backend_data.from_files())[::6]
    assert Counter(backend_data.deployed(case, tmp_path) for case in cases)["same"] > len(cases) / 2


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")  # of the cases' own arithmetic
def test_all_answer_as_plain_onnx_runtime_does(tmp_path: Path) -> None:
    cases = chain(backend_data.generated(), backend_data.from_files())
    found = Counter(backend_data.deployed(case, tmp_path) for case in cases)
    assert found["same"] > 1500, found

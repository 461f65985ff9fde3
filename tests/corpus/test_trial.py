"""A trial says why a cell could not be tried, and does not wait for what will not come."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus.program import Program
from tests.corpus.trial import try_program

pytestmark = pytest.mark.slow


def test_a_cell_that_is_refused_before_there_is_a_job_is_not_waited_for(tmp_path: Path) -> None:
    refused = Program(
        "refused", ("import socket; line = socket.socket()",), "open_as = line.fileno()", ("line.close()",)
    )

    trial = try_program(refused, tmp_path, estimate=False)

    assert "line" in trial.resumed

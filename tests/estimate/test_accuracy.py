"""Estimates beside published measurements: the rows that are quickly traced. `make accuracy` has them all."""

from __future__ import annotations

import pytest

from tests.estimate.published import ROWS, WORST, Row, error, misses, table

pytestmark = pytest.mark.slow(8)

QUICK = [row for row in ROWS if row.quick]


@pytest.mark.slow(14)
@pytest.mark.parametrize("row", QUICK, ids=lambda row: row.name)
def test_a_published_measurement_is_met(row: Row) -> None:
    assert abs(error(row)) <= WORST, f"{error(row):+.1f} %"


@pytest.mark.slow(60)
def test_the_median_is_met_and_nothing_is_too_low() -> None:
    assert misses(QUICK) == [], table(QUICK)

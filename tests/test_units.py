from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpufit.errors import BadQuantity
from jupyter_gpufit.quantities import parse_bytes
from jupyter_gpufit.units import GiB, KiB, device_words, format_bytes, format_duration, format_figure, where_words


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("12GiB", 12 * GiB),
        ("12 g", 12 * GiB),
        ("1.5GiB", 3 * GiB // 2),
        ("12GB", 12 * 10**9),
        ("64kib", 64 * KiB),
        ("100", 100),
        ("7 B", 7),
    ],
)
def test_reads_amounts_as_people_write_them(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "GiB", "twelve", "12 parsecs", "-1GiB", "1e9", "12GiB 3"])
def test_refuses_what_is_no_amount(text: str) -> None:
    with pytest.raises(BadQuantity, match="such as 12GiB"):
        parse_bytes(text)


@given(st.integers(min_value=0, max_value=1 << 60))
def test_a_written_amount_reads_back_within_its_last_digit(count: int) -> None:
    assert abs(parse_bytes(format_bytes(count).replace(" ", "")) - count) <= max(1, count // 20)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.44, "0.4 s"),
        (59, "59 s"),
        (60, "1 min"),
        (185, "3 min 5 s"),
        (599, "9 min 59 s"),
        (1269, "21 min"),
        (4320, "1 h 12 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_writes_durations_in_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_a_figure_has_four_digits() -> None:
    """As words/units.ts writes it."""
    values = (0.0, -0.5, 0.123456, 2e-5, 1e-7, 12.5, 9999.6, 12345.6, 123456.0, 1234567.0, None, float("nan"))
    said = ["0", "-0.5", "0.1235", "2e-05", "1e-07", "12.5", "10,000", "12,346", "123,456", "1.235e+06"]
    assert list(map(format_figure, values)) == [*said, "not finite", "not finite"]


def test_devices_read_as_people_write_them() -> None:
    assert device_words(["0", "1"]) == "GPU 0 and 1"
    assert device_words(["cpu:0"]) == "cpu:0"
    assert [where_words(device) for device in ("1", "0, 1, 2", "cpu:0, cpu:1")] == [
        "GPU 1",
        "GPU 0, 1 and 2",
        "cpu:0 and cpu:1",
    ]

"""Curves as pictures."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from jupyter_gpufit.curves import HEIGHT, MOST, WIDTH, figure, picture, thinned


def places(drawn: str) -> list[tuple[float, float]]:
    found = re.search(r'points="([^"]*)"', drawn)
    assert found is not None
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in found[1].split())]


def test_a_curve_lies_within_its_picture() -> None:
    drawn = picture([(10.0, 3.0), (20.0, 1.0), (30.0, 2.0)], "loss 2", words="loss: 2")
    ElementTree.fromstring(drawn)
    assert [x for x, _ in places(drawn)] == [0, WIDTH / 2, WIDTH]
    top, bottom, middle = (y for _, y in places(drawn))
    assert top < middle < bottom and 0 <= top and bottom <= HEIGHT


def test_holes_and_constants() -> None:
    assert len(places(picture([(0.0, 1.0), (1.0, None), (2.0, math.inf), (3.0, 2.0)], "x", words="x"))) == 2
    assert {y for _, y in places(picture([(0.0, 5.0), (1.0, 5.0)], "x", words="x"))} == {HEIGHT / 2}
    assert places(picture([(4.0, 1.0), (4.0, 2.0)], "x", words="x"))


@pytest.mark.parametrize("points", [[], [(0.0, 1.0)], [(0.0, None), (1.0, 2.0)]])
def test_one_point_is_no_curve(points: list[tuple[float, float | None]]) -> None:
    assert picture(points, "x", words="x") == ""


def test_a_mark_across_belongs_to_the_picture() -> None:
    drawn = picture([(0.0, 1.0), (1.0, 2.0)], "memory", words="memory", line=4.0)
    mark = re.search(r'y1="([\d.]+)"', drawn)
    assert mark is not None and float(mark[1]) < min(y for _, y in places(drawn))


def test_names_are_text() -> None:
    drawn = picture([(0.0, 1.0), (1.0, 2.0)], "<b>", words='"><script>')
    assert "<b>" not in drawn and "<script>" not in drawn
    ElementTree.fromstring(drawn)


def test_a_long_curve_keeps_its_ends() -> None:
    points = [(float(n), float(n)) for n in range(1000)]
    few = thinned(points)
    assert len(few) == MOST and few[0] == points[0] and few[-1] == points[-1]


def test_figures() -> None:
    assert (figure(0.123456), figure(1e-7), figure(None)) == ("0.1235", "1e-07", "not a number")

"""Curves as pictures."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from jupyter_gpufit.jobs.curves import MOST, Point, thinned
from jupyter_gpufit.notebook.pictures import HEIGHT, WIDTH, in_text, picture


def places(drawn: str) -> list[tuple[float, float]]:
    found = re.search(r'points="([^"]*)"', drawn)
    assert found is not None
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in found[1].split())]


def test_a_curve_lies_within_its_picture() -> None:
    drawn = picture([(10.0, 3.0), (20.0, 1.0), (30.0, 2.0)], "loss", "2", words="loss: 2")
    ElementTree.fromstring(drawn)
    assert [x for x, _ in places(drawn)] == [0, WIDTH / 2, WIDTH]
    top, bottom, middle = (y for _, y in places(drawn))
    assert top < middle < bottom and 0 <= top and bottom <= HEIGHT


def test_a_curve_in_text_is_left_where_drawings_are_taken_out() -> None:
    falling = [(float(x), 1.0 / (x + 1)) for x in range(100)]
    text = in_text(falling)
    assert len(text) == 32 and text[0] == "█" and text[-1] == "▁" and sorted(text, reverse=True) == list(text)
    drawn = picture(falling, "loss", "0.01", words="loss: 0.01")
    assert text in "".join(ElementTree.fromstring(drawn).itertext())
    assert in_text([(0.0, 1.0), (1.0, 1.0)]) == "▁▁" and in_text([(0.0, 1.0), (0.0, 2.0)]) == in_text([]) == ""
    assert in_text([(0.0, 1.0), (1.0, None), (2.0, math.inf), (3.0, 2.0)]) == "▁█"


def test_holes_and_constants() -> None:
    assert len(places(picture([(0.0, 1.0), (1.0, None), (2.0, math.inf), (3.0, 2.0)], "x", "1", words="x"))) == 2
    assert {y for _, y in places(picture([(0.0, 5.0), (1.0, 5.0)], "x", "1", words="x"))} == {HEIGHT / 2}
    assert places(picture([(4.0, 1.0), (4.0, 2.0)], "x", "1", words="x"))


@pytest.mark.parametrize("points", [[], [(0.0, 1.0)], [(0.0, None), (1.0, 2.0)]])
def test_one_point_is_no_curve_and_its_value_is_said(points: list[tuple[float, float | None]]) -> None:
    drawn = picture(points, "loss", "2", words="x")
    assert "<svg" not in drawn and "loss" in drawn and ">2" not in drawn and " 2<" in drawn


def test_a_mark_across_belongs_to_the_picture() -> None:
    drawn = picture([(0.0, 1.0), (1.0, 2.0)], "memory", "2", words="memory", line=4.0)
    mark = re.search(r'y1="([\d.]+)"', drawn)
    assert mark is not None and float(mark[1]) < min(y for _, y in places(drawn))


def test_names_are_text() -> None:
    drawn = picture([(0.0, 1.0), (1.0, 2.0)], "<b>", "<i>", words='"><script>')
    assert "<b>" not in drawn and "<i>" not in drawn and "<script>" not in drawn
    ElementTree.fromstring(drawn)


def test_says_from_where_to_where_it_went() -> None:
    assert "0.1 to 2.5" in picture([(0.0, 2.5), (1.0, 0.1), (2.0, 0.3)], "loss", "0.3", words="x")


def test_a_long_curve_keeps_its_ends_and_its_spike() -> None:
    points = [(float(n), 1e6 if n == 4321 else 1.0) for n in range(10_000)]
    few = thinned(points)
    assert MOST / 3 < len(few) <= MOST and few[0] == points[0] and few[-1] == points[-1]
    assert points[4321] in few and few == sorted(few)


def test_an_early_part_with_few_points_is_not_lost_beside_a_late_one_with_many() -> None:
    points = [(float(n * 100), 1.0) for n in range(100)] + [(9900.0 + n / 100, 1.0) for n in range(1, 1000)]
    assert sum(at <= 9900 for at, _ in thinned(points)) >= 95


def test_holes_are_thinned_too() -> None:
    points = [(float(n), None) for n in range(1000)]
    assert len(thinned(points)) <= MOST


def test_no_line_goes_over_a_release() -> None:
    points: list[Point] = [(float(at), float(at)) for at in range(6)]
    drawn = picture(points, "loss", "5", words="loss", cuts=[3.0])
    assert [len(one.split()) for one in re.findall(r'<polyline points="([^"]*)"', drawn)] == [4, 2]

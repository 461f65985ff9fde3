from __future__ import annotations

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpufit.lab.fewest import fewest


def test_as_many_as_it_takes_from_the_first_on() -> None:
    assert fewest([4, 3, 2, 1], lambda some: sum(some) >= 7) == [4, 3]
    assert fewest([1, 2, 3, 4], lambda some: sum(some) >= 7) == [3, 4]
    assert fewest([1, 2], lambda some: sum(some) >= 4) == [] == fewest([], lambda some: True)


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 40))
def test_none_of_them_is_needless(numbers: list[int], wanted: int) -> None:
    found = fewest(numbers, lambda some: sum(some) >= wanted)
    assert bool(found) == (sum(numbers) >= wanted)
    if found:
        assert sum(found) >= wanted > sum(found) - min(found)


def test_few_of_many_are_found_by_few_questions() -> None:
    asked: list[int] = []

    def enough(some: Collection[int]) -> bool:
        asked.append(len(some))
        return {7, 900} <= set(some)

    assert fewest(range(1000), enough) == [7, 900]
    assert len(asked) < 60

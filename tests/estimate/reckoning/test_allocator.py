"""Each sequence's result follows from a documented rule of torch's caching allocator."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpufit.estimate.reckoning.allocator import Replay, replay, smallest_capacity
from jupyter_gpufit.estimate.reckoning.options import DEFAULT, AllocatorOptions, parse_options
from jupyter_gpufit.estimate.reckoning.record import Change
from jupyter_gpufit.units import KiB, MiB

from ..traces import Script, played

EXPANDABLE = AllocatorOptions(expandable_segments=True)


def run(script: Script, options: AllocatorOptions = DEFAULT, capacity: int | None = None) -> Replay:
    return replay(*played(script), options, capacity)


def test_rounds_a_request_to_blocks_of_512_bytes() -> None:
    assert run([("+", "a", 1), ("+", "b", 513)]).allocated == 512 + 1024


def test_asks_the_device_for_nothing_when_nothing_is_asked() -> None:
    assert run([("+", "a", 0), ("-", "a")]) == Replay(0, 0, -1)


@pytest.mark.parametrize(
    ("asked", "segment"),
    [
        (1, 2 * MiB),
        (1 * MiB, 2 * MiB),
        (1 * MiB + 1, 20 * MiB),
        (10 * MiB - 512, 20 * MiB),
        (10 * MiB, 10 * MiB),
        (10 * MiB + 1, 12 * MiB),
    ],
)
def test_takes_segments_by_the_size_of_the_request(asked: int, segment: int) -> None:
    assert run([("+", "a", asked)]).reserved == segment


def test_keeps_small_and_large_requests_apart() -> None:
    large_is_free: Script = [("+", "a", 5 * MiB), ("-", "a"), ("+", "b", 100)]

    assert run(large_is_free).reserved == 20 * MiB + 2 * MiB


def test_shares_a_segment_among_requests_that_fit() -> None:
    assert run([("+", "a", 8 * MiB), ("+", "b", 8 * MiB), ("+", "c", 3 * MiB)]).reserved == 20 * MiB


def test_chooses_the_smallest_block_that_fits() -> None:
    # If "d" took the 40 MiB block, "e" would need a new segment.
    script: Script = [
        ("+", "a", 40 * MiB),
        ("+", "b", 12 * MiB),
        ("-", "a"),
        ("-", "b"),
        ("+", "d", 12 * MiB),
        ("+", "e", 40 * MiB),
    ]
    assert run(script).reserved == 52 * MiB


def test_gives_a_large_block_whole_when_at_most_one_mib_would_be_left() -> None:
    whole = run([("+", "a", 12 * MiB), ("-", "a"), ("+", "b", 11 * MiB)])
    split = run([("+", "a", 13 * MiB), ("-", "a"), ("+", "b", 11 * MiB), ("+", "c", 2 * MiB)])

    assert whole.allocated == 12 * MiB
    assert split.reserved == 14 * MiB, "what was left of the 14 MiB segment serves the last request"


def test_merges_free_neighbours() -> None:
    script: Script = [
        *(("+", name, 5 * MiB) for name in "abcd"),
        *(("-", name) for name in "acb"),
        ("+", "e", 15 * MiB),
    ]
    assert run(script).reserved == 20 * MiB


def test_does_not_merge_over_a_block_in_use() -> None:
    script: Script = [*(("+", name, 5 * MiB) for name in "abcd"), ("-", "a"), ("-", "c"), ("+", "e", 10 * MiB)]

    assert run(script).reserved == 30 * MiB


def test_gives_cached_segments_back_when_the_device_is_full() -> None:
    script: Script = [("+", "a", 30 * MiB), ("-", "a"), ("+", "b", 40 * MiB)]

    assert run(script).reserved == 70 * MiB
    assert run(script, capacity=50 * MiB) == Replay(40 * MiB, 40 * MiB, 2, retries=1)


def test_runs_out_of_memory_when_a_segment_is_still_partly_used() -> None:
    script: Script = [("+", "a", 20 * MiB), ("+", "b", 2 * MiB), ("-", "a"), ("+", "c", 30 * MiB)]
    shared: Script = [("+", "x", 22 * MiB), ("-", "x"), *script]

    assert run(shared, capacity=40 * MiB).fits is False


def test_says_where_most_was_allocated() -> None:
    assert run([("+", "a", 2 * MiB), ("+", "b", 3 * MiB), ("-", "b"), ("+", "c", 1 * MiB)]).peak == 1


def test_needs_less_than_it_would_reserve() -> None:
    sizes, changes = played([("+", "a", 300 * MiB), ("-", "a"), ("+", "b", 400 * MiB)])

    assert replay(sizes, changes).reserved == 700 * MiB
    assert 400 * MiB <= smallest_capacity(sizes, changes) <= 416 * MiB


def test_refuses_oversized_blocks_to_smaller_requests() -> None:
    script: Script = [("+", "a", 200 * MiB), ("-", "a"), ("+", "b", 50 * MiB)]

    assert run(script).reserved == 200 * MiB
    assert run(script, parse_options("max_split_size_mb:128")).reserved == 250 * MiB


def test_gives_an_oversized_block_whole_within_20_mib() -> None:
    near: Script = [("+", "a", 200 * MiB), ("-", "a"), ("+", "b", 190 * MiB)]
    far: Script = [("+", "a", 200 * MiB), ("-", "a"), ("+", "b", 150 * MiB)]
    options = parse_options("max_split_size_mb:128")

    assert run(near, options) == Replay(200 * MiB, 200 * MiB, 0)
    assert run(far, options).reserved == 350 * MiB


def test_gives_back_one_oversized_block_before_all() -> None:
    script: Script = [
        ("+", "a", 200 * MiB),
        ("+", "b", 40 * MiB),
        ("-", "a"),
        ("-", "b"),
        ("+", "c", 150 * MiB),
        ("+", "d", 40 * MiB),
    ]
    found = run(script, parse_options("max_split_size_mb:128"), capacity=300 * MiB)

    assert found.retries == 0
    assert found.fits


def test_rounds_to_divisions_between_powers_of_two() -> None:
    quarters = parse_options("roundup_power2_divisions:4")

    assert quarters.round(1200 * KiB) == 1280 * KiB
    assert quarters.round(2 * MiB) == 2 * MiB
    assert quarters.round(512 * 3 + 1) == 2048, "at most 4 blocks: only to blocks"


def test_rounds_by_size_where_divisions_are_listed() -> None:
    options = parse_options("roundup_power2_divisions:[64:8,256:2,>:1]")

    assert options.round(33 * MiB) == 36 * MiB
    assert options.round(65 * MiB) == 72 * MiB
    assert options.round(300 * MiB) == 300 * MiB


def test_collects_garbage_beyond_the_threshold() -> None:
    # Each is cached when the next is asked for; without collection all are kept.
    script: Script = [
        step for size in (100, 110, 120, 130) for step in (("+", f"{size}", size * MiB), ("-", f"{size}"))
    ]
    collected = run(script, parse_options("garbage_collection_threshold:0.2"), capacity=1000 * MiB)

    assert run(script, capacity=1000 * MiB).reserved == 460 * MiB
    assert collected.reserved == 250 * MiB, "the older of two goes each time"
    assert run(script, parse_options("garbage_collection_threshold:0.2")).reserved == 460 * MiB, "needs a fraction"


def test_expandable_segments_grow_instead_of_fragmenting() -> None:
    script: Script = [("+", "a", 300 * MiB), ("-", "a"), ("+", "b", 400 * MiB)]

    assert run(script, EXPANDABLE).reserved == 400 * MiB


def test_expandable_segments_map_whole_pages() -> None:
    assert run([("+", "a", 21 * MiB)], EXPANDABLE).reserved == 40 * MiB
    assert run([("+", "a", 100)], EXPANDABLE).reserved == 2 * MiB


def test_expandable_segments_unmap_free_pages_when_the_device_is_full() -> None:
    script: Script = [("+", "a", 100 * MiB), ("+", "b", 20 * MiB), ("-", "a"), ("+", "c", 120 * MiB)]

    assert run(script, EXPANDABLE).reserved == 240 * MiB
    assert run(script, EXPANDABLE, capacity=140 * MiB) == Replay(140 * MiB, 140 * MiB, 3, retries=1)


OPTIONS = st.sampled_from(
    [
        DEFAULT,
        EXPANDABLE,
        parse_options("max_split_size_mb:64"),
        parse_options("roundup_power2_divisions:[4:4,>:2],garbage_collection_threshold:0.5"),
    ]
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[Change]]:
    """Births and deaths in any order that a program could have."""
    sizes = draw(st.lists(st.integers(0, 3 * MiB) | st.integers(0, 300 * MiB), max_size=30))
    changes: list[Change] = []
    alive: list[int] = []
    for number in range(len(sizes)):
        changes.append(Change(number, True))
        alive.append(number)
        dying = draw(st.sets(st.sampled_from(alive), max_size=2))
        changes += [Change(other, False) for other in dying]
        alive = [other for other in alive if other not in dying]
    return sizes, changes


def live(sizes: list[int], changes: list[Change]) -> int:
    """The most bytes that were asked for and not yet given back."""
    now = most = 0
    for change in changes:
        now += sizes[change.block] if change.alive else -sizes[change.block]
        most = max(most, now)
    return most


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(histories(), OPTIONS)
def test_reserves_what_it_allocates_and_allocates_what_lives(
    history: tuple[list[int], list[Change]], options: AllocatorOptions
) -> None:
    found = replay(*history, options)

    assert found.reserved >= found.allocated >= live(*history)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(histories(), OPTIONS)
def test_runs_in_the_smallest_capacity(history: tuple[list[int], list[Change]], options: AllocatorOptions) -> None:
    free_run = replay(*history, options)
    capacity = smallest_capacity(*history, options, free_run)

    assert live(*history) <= capacity <= free_run.reserved
    assert replay(*history, options, capacity).fits


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(histories(), OPTIONS)
def test_gives_everything_back_once_everything_is_freed(
    history: tuple[list[int], list[Change]], options: AllocatorOptions
) -> None:
    sizes, changes = history
    alive = {change.block for change in changes if change.alive} - {c.block for c in changes if not c.alive}
    freed = [*changes, *(Change(number, False) for number in sorted(alive))]
    whole = 1 << max(25, replay(sizes, changes, options).reserved.bit_length())  # no divisions round a power of two
    in_pages = -(-whole // (20 * MiB)) * 20 * MiB

    assert replay([*sizes, whole], [*freed, Change(len(sizes), True)], options, in_pages).fits


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(histories(), OPTIONS, st.integers(0, 600))
def test_never_takes_more_than_the_capacity(
    history: tuple[list[int], list[Change]], options: AllocatorOptions, capacity: int
) -> None:
    assert replay(*history, options, capacity * MiB).reserved <= capacity * MiB

"""Which bytes go where."""

from __future__ import annotations

from jupyter_gpufit.graph.memory import PAGE
from jupyter_gpufit.graph.spans import INPUT, LARGE, MEMORY, Recorder

HERE = 1 << 60  # where no file is mapped


def test_overlapping_runs_become_one_region_and_keep_their_distance() -> None:
    recorder = Recorder()
    for address, nbytes in ((HERE + 100, 50), (HERE, 120), (HERE + 140, 20), (HERE + 160, 8)):
        recorder.number(address, nbytes, None)

    layout = recorder.lay_out()

    assert [(region.address - HERE, region.nbytes) for region in layout.regions] == [(0, 160), (160, 8)]
    assert layout.table == [(MEMORY, 100, 50), (MEMORY, 0, 120), (MEMORY, 140, 20), (MEMORY, 192, 8)]


def test_the_same_run_has_one_number_and_is_writable_if_any_view_is() -> None:
    recorder = Recorder()

    assert recorder.number(HERE, 8, "a", writable=False) == recorder.number(HERE, 8, "b", writable=True) == 0
    (region,) = recorder.lay_out().regions
    assert region.writable and region.keepers == ("a", "b")


def test_large_regions_have_pages_of_their_own() -> None:
    recorder = Recorder()
    recorder.number(HERE, 10, None)
    recorder.number(HERE + 1000, LARGE, None)

    assert [offset % PAGE for _, offset, _ in recorder.lay_out().table] == [0, 0]


def test_bytes_that_came_in_are_named_by_their_place_and_not_copied() -> None:
    recorder = Recorder(first=7, known=lambda address: address - HERE if address >= HERE else None)

    assert recorder.number(HERE + 64, 8, None) == 7
    layout = recorder.lay_out()
    assert layout.table == [(INPUT, 64, 8)] and layout.size == 0


def test_bytes_of_a_device_get_a_place_and_are_written_by_whoever_has_them() -> None:
    recorder = Recorder()
    recorder.number(HERE, 8, None)
    recorder.foreign(100, lambda buffer: None)

    layout = recorder.lay_out()

    assert layout.table == [(MEMORY, 0, 8), (MEMORY, 64, 100)] and layout.size == 164
    assert [(one.offset, one.nbytes) for one in layout.foreign] == [(64, 100)] and len(layout.pieces) == 1


def test_nothing_takes_no_room() -> None:
    recorder = Recorder()
    recorder.number(0, 0, None)

    assert recorder.lay_out().table == [(MEMORY, 0, 0)]

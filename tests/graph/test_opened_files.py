"""Files that an earlier cell opened, and what writes to them."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpufit.errors import CannotTravel
from jupyter_gpufit.graph import bring_into, ship

from .crossing import Worker, cross_here, notebook

# The cell's own files are closed by the end of its process, which here is this one: they are collected while we look.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    gc.collect()


def crossed(before: str, cell: str, after: str = "") -> dict[str, Any]:
    namespace = notebook(before)
    found = cross_here(namespace, cell)
    assert not found.returned.left_behind
    exec(after, namespace)
    return namespace


@pytest.mark.parametrize("mode", ["w", "a", "x", "w+"])
def test_a_log_is_written_on_by_the_cell_and_then_by_the_notebook(mode: str, directory: Path) -> None:
    namespace = notebook(f"log = same = open('log.txt', {mode!r}); log.write('setup\\n')")
    log = namespace["log"]

    cross_here(namespace, "log.write('one\\n'); log.flush(); print('two', file=same)")

    assert namespace["log"] is log is namespace["same"] and log.mode == mode
    log.write("after\n")
    log.close()
    assert (directory / "log.txt").read_text() == "setup\none\ntwo\nafter\n"


def test_it_goes_by_another_process_too(worker: Worker, directory: Path) -> None:
    namespace = notebook(
        "class Log:\n    def __init__(self): self.f = open('log.txt', 'w')\nlog = Log(); log.f.write('setup\\n')"
    )

    returned = worker.cross(namespace, "log.f.write('one\\n')").returned

    assert not returned.left_behind
    namespace["log"].f.write("after\n")
    namespace["log"].f.close()
    assert (directory / "log.txt").read_text() == "setup\none\nafter\n"


def test_the_notebooks_own_is_closed_where_the_cell_closed_it(directory: Path) -> None:
    namespace = crossed("log = open('log.txt', 'w')", "log.write('one\\n'); log.close()")

    assert namespace["log"].closed
    assert (directory / "log.txt").read_text() == "one\n"


def test_one_that_the_cell_opened_is_the_notebooks_to_go_on_with(directory: Path) -> None:
    namespace = crossed("", "log = open('log.txt', 'w'); log.write('one\\n')", "log.write('two\\n'); log.close()")

    assert namespace["log"].closed
    assert (directory / "log.txt").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("how", ["'rb+'", "'wb'", "'ab'", "'wb', 0"])
def test_bytes_are_written_on(how: str, directory: Path) -> None:
    (directory / "log").write_bytes(b"")

    crossed(f"log = open('log', {how}); log.write(b'ab')", "log.write(b'cd')", "log.write(b'e'); log.close()")

    assert (directory / "log").read_bytes() == b"abcde"


def test_a_place_in_the_middle_is_kept_and_what_is_behind_it_too(directory: Path) -> None:
    (directory / "log").write_text("0123456789")

    namespace = crossed("log = open('log', 'r+'); log.seek(2)", "log.write('ab'); log.flush(); found = log.read(2)")

    assert namespace["found"] == "45" and namespace["log"].read() == "6789"
    namespace["log"].close()
    assert (directory / "log").read_text() == "01ab456789"


@pytest.mark.parametrize("mode", ["r", "rb"])
def test_lines_are_read_on(mode: str, directory: Path) -> None:
    (directory / "data").write_text("".join(f"{number}\n" for number in range(10)))
    before = f"data = open('data', {mode!r})\nfor line in data:\n    if int(line) == 1: break"

    namespace = crossed(before, "for line in data:\n    if int(line) == 4: break")

    assert int(next(namespace["data"])) == 5
    namespace["data"].close()


def test_how_it_writes_is_kept(directory: Path) -> None:
    before = "log = open('log', 'w', 1, 'utf-16', 'replace'); log.write('ä\\n')"

    crossed(before, "log.write('ö\\n'); how = log.encoding, log.errors, log.line_buffering", "log.close()")

    assert (directory / "log").read_text("utf-16") == "ä\nö\n"


def test_a_table_is_written_on(directory: Path) -> None:
    crossed(
        "import csv\nfile = open('a.csv', 'w', newline=''); rows = csv.writer(file, delimiter=';')\n"
        "named = csv.DictWriter(file, ['a', 'b'], delimiter=';'); named.writeheader()",
        "rows.writerow([1, 2]); named.writerow({'a': 3, 'b': 4})",
        "rows.writerow([5, 6]); file.close()",
    )

    assert (directory / "a.csv").read_text().split() == ["a;b", "1;2", "3;4", "5;6"]


def test_a_restarted_notebook_gets_it_where_the_cell_left_it(directory: Path) -> None:
    namespace = notebook("log = open('log', 'w'); log.write('setup\\n')")
    found = cross_here(namespace, "log.write('one\\n')")
    fresh: dict[str, Any] = {"__name__": "__main__"}
    reply = type(found.reply)(found.reply.graph, found.reply.memory, found.shipment.graph, found.shipment.memory)

    bring_into(fresh, reply)

    fresh["log"].write("after\n")
    fresh["log"].close()
    namespace["log"].close()
    assert (directory / "log").read_text() == "setup\none\nafter\n"


def test_what_swallows_all_is_opened_again_anywhere() -> None:
    namespace = notebook("import os\nquiet = open(os.devnull, 'w')")

    cross_here(namespace, "quiet.write('nobody reads this')\nwritable = quiet.writable()")

    assert namespace["writable"] and not namespace["quiet"].closed
    namespace["quiet"].close()


def test_the_pipes_of_a_process_that_has_ended_are_closed_ones() -> None:
    namespace = notebook(
        "import subprocess\n"
        "cat = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)\n"
        "said, _ = cat.communicate('a')"
    )

    cross_here(namespace, "seen = said, cat.returncode, cat.stdin.closed, cat.stdout.closed")

    assert namespace["seen"] == ("a", 0, True, True)


@pytest.mark.parametrize(
    ("opened", "why"),
    [
        ("os.fdopen(os.pipe()[1], 'w')", "a pipe"),
        ("tempfile.TemporaryFile('w')", "does not exist any more"),
        ("tempfile.NamedTemporaryFile('w')", "a temporary file"),
        ("gzip.open('log.gz', 'wt')", "an open file"),
        ("gone('log')", "does not exist any more"),
        ("locked('log')", "locked"),
    ],
)
def test_what_cannot_be_opened_again_is_named(opened: str, why: str) -> None:
    namespace = notebook(
        "import fcntl, gzip, os, tempfile\n"
        "def gone(path):\n    log = open(path, 'w'); os.remove(path); return log\n"
        "def locked(path):\n    log = open(path, 'w'); fcntl.flock(log, fcntl.LOCK_EX); return log\n"
        f"log = {opened}"
    )

    with pytest.raises(CannotTravel, match=f"log.*{why}"):
        ship(["log"], namespace)
    namespace["log"].close()


def test_a_file_in_the_way_of_a_closed_one_is_left_alone(directory: Path) -> None:
    crossed("log = open('log', 'w'); log.write('a'); log.close()", "closed = log.closed")

    assert os.listdir(directory) == ["log"] and (directory / "log").read_text() == "a"

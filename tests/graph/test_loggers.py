"""Loggers that an earlier cell has set up for itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from .crossing import Worker, notebook

BEFORE = """
import logging
log = logging.getLogger("mine.training")
log.setLevel(logging.INFO)
log.propagate = False
handler = logging.FileHandler("mine.log")
handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
log.addHandler(handler)
log.info("setup")
del handler
"""


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    monkeypatch.chdir(tmp_path)
    log = logging.getLogger("mine.training")
    yield log
    for handler in log.handlers[:]:
        log.removeHandler(handler)
        handler.close()
    log.propagate = True
    log.setLevel(logging.NOTSET)


def test_its_handlers_and_its_level_go_along(worker: Worker, tmp_path: Path, mine: logging.Logger) -> None:
    namespace = notebook(BEFORE)
    handlers = list(mine.handlers)

    returned = worker.cross(namespace, "log.info('one'); log.debug('no'); log.setLevel('DEBUG')").returned

    assert not returned.left_behind and namespace["log"] is mine and mine.handlers == handlers
    mine.debug("after")
    assert (tmp_path / "mine.log").read_text() == "INFO setup\nINFO one\nDEBUG after\n"


def test_a_handler_that_the_cell_adds_is_the_notebooks(worker: Worker, tmp_path: Path, mine: logging.Logger) -> None:
    cell = f"log.addHandler(logging.FileHandler('{tmp_path}/other.log')); log.warning('one')"

    worker.cross(notebook(BEFORE), cell, "log", "logging")

    mine.warning("two")
    assert (tmp_path / "other.log").read_text() == "one\ntwo\n"


def test_a_handler_that_cannot_travel_stays(worker: Worker, tmp_path: Path, mine: logging.Logger) -> None:
    namespace = notebook(BEFORE)
    handlers = list(mine.handlers)
    (tmp_path / "mine.log").unlink()

    returned = worker.cross(namespace, "log.warning('one'); log.setLevel('DEBUG')", "log").returned

    assert not returned.left_behind and mine.handlers == handlers and mine.level == logging.DEBUG
    assert not (tmp_path / "mine.log").exists()


def test_one_that_logging_does_not_know_travels_as_an_object(worker: Worker, tmp_path: Path) -> None:
    namespace = notebook(
        "import logging\nlone = logging.Logger('lone'); lone.addHandler(logging.FileHandler('lone.log'))"
    )
    lone = namespace["lone"]

    with closing(lone.handlers[0]):
        returned = worker.cross(namespace, "lone.warning('one'); lone.setLevel('ERROR')").returned

        assert not returned.left_behind and namespace["lone"] is lone and lone.level == logging.ERROR
        lone.error("two")
    assert (tmp_path / "lone.log").read_text() == "one\ntwo\n"
    assert "lone" not in logging.root.manager.loggerDict


def test_a_modules_logger_is_left_to_it(worker: Worker) -> None:
    log = logging.getLogger("asyncio")
    before = log.level

    worker.cross({"__name__": "__main__", "log": log}, "log.setLevel(17)", "log")

    assert log.level == before

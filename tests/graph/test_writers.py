"""TensorBoard's writers of an earlier cell."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.libraries import need

from .crossing import cross_here, notebook

pytestmark = pytest.mark.slow
BEFORE = """
writer = SummaryWriter("runs")
writer.add_scalar("loss", 2.0, 0)
"""
CELL = """
writer.add_scalar("loss", 1.0, 1)
writer.close()  # tensorboardX's flush leaves out what waits in its queue
made = type(writer)("others")
"""


@pytest.mark.parametrize("library", ["torch.utils.tensorboard", "tensorboardX"])
def test_what_the_cell_writes_stands_beside_what_the_notebook_writes(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("tensorboard")
    need(library)
    monkeypatch.chdir(tmp_path)
    namespace = notebook(f"from {library} import SummaryWriter\n{BEFORE}")
    writer = namespace["writer"]

    returned = cross_here(namespace, CELL).returned

    assert not returned.left_behind and namespace["writer"] is writer
    assert (writer.logdir if library == "tensorboardX" else writer.log_dir) == "runs"
    namespace["made"].add_scalar("notebook", 1.0)
    for one in (writer, namespace["made"]):
        one.close()
    assert _scalars(tmp_path / "runs") == [("loss", 0), ("loss", 1)]
    assert _scalars(tmp_path / "others") == [("notebook", 0)]


@pytest.mark.parametrize("library", ["torch.utils.tensorboard", "tensorboardX"])
def test_one_of_a_class_of_the_users_keeps_what_that_added(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("tensorboard")
    need(library)
    monkeypatch.chdir(tmp_path)
    cell = (
        f"from {library} import SummaryWriter\n"
        "class Mine(SummaryWriter):\n"
        "    def __init__(self, settings, folder):\n"
        "        super().__init__(folder)\n"
        "        self.rate, self.first = settings['rate'], True\n"
        "    def log(self, step):\n"
        "        self.add_scalar('rate', self.rate, step)\n"
        "        self.first = False\n"
        "writer = Mine({'rate': 3.0}, 'runs')\n"
    )
    namespace = notebook(cell)

    cross_here(namespace, "assert writer.first\nwriter.log(1)\nwriter.close()")

    assert not namespace["writer"].first and namespace["writer"].rate == 3.0
    namespace["writer"].close()
    assert _scalars(tmp_path / "runs") == [("rate", 1)]


OWN = """
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
class Writer:  # skrl's
    def __init__(self, folder): self.events = EventFileWriter(folder, 7, 60)
    def add_scalar(self, tag, value, step):
        self.events.add_event(Event(step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)])))
    def close(self): self.events.close()
closed = Writer("closed")
closed.close()
"""


def test_a_librarys_own_writer_on_tensorboards_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("tensorboard")
    monkeypatch.chdir(tmp_path)
    namespace = notebook(OWN + BEFORE.replace("SummaryWriter", "Writer"))
    writer = namespace["writer"]

    returned = cross_here(namespace, CELL + "made.events.flush()\n").returned

    assert not returned.left_behind and namespace["writer"] is writer
    made = namespace["made"].events
    assert (made.get_logdir(), made._async_writer._byte_queue.maxsize) == ("others", 7)
    namespace["made"].add_scalar("notebook", 1.0, 0)
    for one in (writer, namespace["made"]):
        one.close()
    assert _scalars(tmp_path / "runs") == [("loss", 0), ("loss", 1)]
    assert _scalars(tmp_path / "others") == [("notebook", 0)]


def _scalars(directory: Path) -> list[tuple[str, int]]:
    need("tensorboard")
    loader = import_module("tensorboard.backend.event_processing.event_file_loader").EventFileLoader
    assert "tensorflow" not in sys.modules
    events = [event for file in directory.iterdir() for event in loader(str(file)).Load()]
    return sorted((value.tag, event.step) for event in events for value in event.summary.value)

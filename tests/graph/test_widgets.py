"""A widget of an earlier cell is the cell's, too; one that the cell made is the notebook's afterwards."""

from __future__ import annotations

from typing import Any

import comm
import pytest

from jupyter_gpufit.errors import CannotTravel
from jupyter_gpufit.graph import ship
from jupyter_gpufit.worker.comms import Comms

from .crossing import cross_here, notebook

SETUP = """
import ipywidgets as W
slider, label, out, seen = W.IntSlider(value=3), W.Label("begun"), W.Output(), []
slider.observe(lambda change: seen.append(change.new), "value")
box = W.VBox([slider, label])
"""


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a worker's comms say, which begin with `begin_worker`."""
    monkeypatch.setattr(comm, "create_comm", comm.create_comm)
    monkeypatch.setattr(comm, "get_comm_manager", comm.get_comm_manager)
    return []


def test_its_traits_observers_and_contents_go_there_and_back(told: list[Any]) -> None:
    namespace = notebook(SETUP)
    slider, line = namespace["slider"], namespace["slider"].comm
    Comms(told.append, told.append).install()

    crossing = cross_here(namespace, "slider.value = 7; label.value = 'done'; made = W.IntProgress()")

    assert (slider.value, namespace["label"].value, namespace["seen"]) == (7, "done", [7])
    assert namespace["box"].children == (slider, namespace["label"]) and slider.comm is line
    assert crossing.shipment.widgets()[slider.model_id] is slider
    heard = [one for one in told if one.comm == slider.model_id]
    assert [one.what for one in heard][0] == "again" and heard[-1].data["state"]["value"] == 7
    assert not crossing.returned.left_behind and namespace["made"].max == 100.0
    slider.value = 8
    assert namespace["seen"] == [7, 8]


def test_what_an_output_caught_in_the_notebook_is_kept() -> None:
    namespace = notebook(SETUP)
    shipment = ship(["out"], namespace)
    caught = ({"output_type": "stream", "name": "stdout", "text": "heard\n"},)
    there: dict[str, Any] = {"__name__": "__main__"}
    from jupyter_gpufit.graph import receive

    arrival = receive(shipment.graph, shipment.memory, there)
    there["out"].layout.width = "9px"
    there["out"]._trait_values["msg_id"] = "changed"
    namespace["out"]._trait_values["outputs"] = caught  # as it is while the cell runs

    shipment.bring_back(arrival.reply(), namespace)

    assert namespace["out"].outputs == caught and namespace["out"].layout.width == "9px"


def test_a_line_that_is_no_widgets_is_named() -> None:
    namespace = notebook("import comm\nx = comm.create_comm(target_name='mine')")
    with pytest.raises(CannotTravel, match="a line to the notebook's page"):
        ship(["x"], namespace)

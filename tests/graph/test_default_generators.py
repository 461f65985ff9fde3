"""`from random import sample` in an earlier cell draws from the one generator that everybody draws from."""

from __future__ import annotations

from jupyter_gpufit.graph import ship

from .crossing import Worker, notebook


def test_a_method_of_the_default_generator_is_that_of_each_process() -> None:
    namespace = notebook("from random import sample, random, Random\nfrom numpy.random import rand\nown = Random(3)")
    cell = (
        "import random as r, numpy as np\n"
        "same = sample.__self__ is r._inst, random.__self__ is r._inst, rand.__self__ is np.random.mtrand._rand\n"
        "drawn = own.random()"
    )
    shipment = ship(["sample", "random", "rand", "own"], namespace)
    worker = Worker()
    try:
        shipment.bring_back(worker.run(shipment, cell), namespace)
    finally:
        worker.close()

    assert namespace["same"] == (True, True, True)
    assert namespace["drawn"] == namespace["Random"](3).random() and namespace["own"].random() != namespace["drawn"]

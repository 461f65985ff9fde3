"""An object that has its values when it is made or never, as a frozen dataclass in compiled code."""

from __future__ import annotations

import pytest

from tests.libraries import need

from .crossing import Worker, notebook

pytestmark = pytest.mark.slow


def test_plums_dispatchers_go_by_their_name_or_are_made_with_their_values(worker: Worker) -> None:
    need("plum")
    namespace = notebook(
        "from plum import Dispatcher, dispatch\nmine = Dispatcher(warn_redefinition=True)\nheld = [dispatch, mine]\n"
        "@mine\ndef f(x: int): return x + 1\n"
    )
    there, own = namespace["dispatch"], namespace["mine"]

    worker.cross(
        namespace, "import plum\nsame = plum.dispatch is held[0], mine is held[1], mine.warn_redefinition, f(1)"
    )

    assert namespace["same"] == (True, True, True, 2)
    assert namespace["dispatch"] is there and namespace["mine"] is own and namespace["held"] == [there, own]

from __future__ import annotations

import math
import types
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

from jupyter_gpufit.estimate.asking.worth import may_train, may_train_with


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        ("", False),
        ("# %%gpufit train\nx = 1\nfor i in range(3): x += i", None),
        ("x = 1 + y", False),
        ("import json, numpy as np\nprint(np.ones(3))", None),
        ("import torch\n", True),
        ("import mylab\nmylab.train()", True),
        ("from transformers import pipeline", True),
        ("model.to('cuda')", True),
        ("fit(model)", None),
        ("this is no python", False),
    ],
)
def test_what_the_text_says(source: str, answer: bool | None) -> None:
    assert may_train(source) is answer


def of_the_notebook(source: str) -> types.FunctionType:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(source, namespace)
    found = namespace["f"]
    assert isinstance(found, types.FunctionType)
    return found


class OfTheNotebook: ...


OfTheNotebook.__module__ = "__main__"


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (3, False),
        ([1, "two", {"three": np.zeros(4)}], False),
        (OrderedDict(a=1), False),
        (math, False),
        (np, False),
        (of_the_notebook("def f(x): return [x + 1 for y in x]"), False),
        (of_the_notebook("def f(x): return [torch.ones(y) for y in x]"), True),
        (types.ModuleType("torch.nn"), True),
        ([1, {"a": (types.ModuleType("mylab"),)}], True),
        (OfTheNotebook(), True),
        (list(range(100_000)), True),
    ],
    ids=lambda value: str(value).partition(" at 0x")[0][:40],  # no address: it is another one in each process
)
def test_what_a_variable_says(value: object, answer: bool) -> None:
    assert may_train_with({"name": value}) is answer

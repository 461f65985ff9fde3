from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from jupyter_gpufit.cuda.slot import Budget, SlotAnswers, SlotMode, first_calls, standing_in
from jupyter_gpufit.units import GiB


class Heard(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.most = 0  # numbers of a call

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if args and isinstance(args[0], torch.Tensor):
            self.calls[func.__name__] += 1
            self.most = max(self.most, args[0].numel())
        return func(*args, **(kwargs or {}))


def test_each_is_called_once_a_process_on_one_thread_before_a_cell_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_calls, "_done", [])
    budget = Budget("cpu:0", GiB)

    with Heard() as heard, standing_in(SlotMode(budget), SlotAnswers(budget)):
        pass
    with Heard() as again, standing_in(SlotMode(budget), SlotAnswers(budget)):
        pass

    assert heard.calls["tanh"] == heard.calls["exp"] == heard.calls["erf"] == 2  # of each precision
    assert heard.most <= 8, "more would be shared among threads"
    assert not again.calls["tanh"]

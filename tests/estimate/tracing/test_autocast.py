"""The operators that autocast treats on the stand-in, beside those that torch itself registers for CUDA."""

from __future__ import annotations

import pytest
import torch

from jupyter_gpufit.cuda.stand_in.autocast import POLICIES
from tests.estimate.traced import traced


def test_they_are_those_of_cuda() -> None:
    names = [name.removeprefix("aten::") for name in torch._C._dispatch_get_all_op_names() if "aten::" in name]
    of_cuda = {n for n in names if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{n}", "AutocastCUDA")}

    # Builds for CUDA have one more, which a trace answers by itself: see tracing/recurrent.py.
    assert {name for names, _ in POLICIES for name in names.split()} == of_cuda - {"_cudnn_rnn"}


@pytest.mark.slow
def test_what_autocast_and_groups_leave_in_doubt_is_noted() -> None:
    trace = traced(
        """
        import torch
        model = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, groups=4), torch.nn.Upsample(scale_factor=2)).cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            y = model(torch.randn(2, 8, 8, 8, device="cuda"))
            assert y.dtype == torch.float32 and torch.norm(y.bfloat16()).dtype == torch.float32
        """
    )

    assert (trace.status, trace.error) == ("completed", "")
    assert {"weights under autocast", "grouped convolutions"} <= set(trace.notes)

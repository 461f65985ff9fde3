"""What a CPU slot must offer for what a GPU would hold; pure."""

from __future__ import annotations

from dataclasses import replace

from ...units import MiB
from .report import OVERHEAD, Estimate

# A CPU's kernels take more than a GPU's: blocked copies for oneDNN, attention's scores.
SLOT_MARGIN = 0.5
TRACER_OWN = 128 * MiB  # a traced child grows by so much without any host tensors of the cell's


def on_slot(estimate: Estimate) -> Estimate:
    """What a slot must offer: its budget also counts the host's tensors, and CPU kernels take more."""
    if estimate.need is None:
        return estimate
    host = max(0, estimate.host - TRACER_OWN)
    need = round((estimate.peak_allocated + host) * (1 + SLOT_MARGIN)) + estimate.context
    reason = "a CPU slot: host tensors count too, and CPU kernels take more than a GPU's"
    by_kind = {name: size for name, size in estimate.by_kind.items() if name != OVERHEAD}
    reserved = estimate.peak_allocated  # a slot has no allocator that would take more
    reasons = (reason, *estimate.reasons)
    return replace(estimate, need=need, high=need, peak_reserved=reserved, by_kind=by_kind, reasons=reasons)

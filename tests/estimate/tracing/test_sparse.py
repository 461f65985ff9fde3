"""Sparse matrices: what they take is their indices and values, and what is computed of them is known without values."""

from __future__ import annotations

import pytest

from jupyter_gpufit.estimate.tracing.sparse import AS_DENSE
from tests.estimate.cells import IMPORTS
from tests.estimate.traced import traced

pytestmark = pytest.mark.slow

CELL = (
    IMPORTS
    + """
first = torch.arange(3000)
places, values = torch.stack([first % 2000, (first * 7 + first // 2000) % 2000]), torch.randn(3000)
made = torch.sparse_coo_tensor(places, values, (2000, 2000)).coalesce()
a = {matrix}
w = torch.randn(2000, 8, device="cuda", requires_grad=True)
opt = torch.optim.SGD([w], lr=0.1)
for step in range(30):
    opt.zero_grad()
    loss = ({product}).pow(2).sum()
    loss.backward()
    opt.step()
"""
)
MATRICES = [
    "made.to('cuda')",
    "made.cuda().float()",
    "made.to_sparse_csr().to('cuda')",
    "torch.sparse_coo_tensor(places, values, (2000, 2000), device='cuda')",
    "torch.sparse_coo_tensor(places.cuda(), values.cuda(), (2000, 2000)).coalesce()",
]
PRODUCTS = [
    "torch.sparse.mm(a, w)",
    "a @ w",
    "torch.spmm(a.t(), w)",
    "torch.sparse.addmm(w, a, w)",
    "(a * 2 + a).mm(w)",
    "torch.sparse.softmax(a, 1).mm(w)",
    "torch.sparse_coo_tensor(a._indices(), F.dropout(a._values(), 0.5), a.shape) @ w",
]


@pytest.mark.parametrize("matrix", MATRICES)
def test_a_matrix_takes_its_indices_and_values_and_a_product_its_result(matrix: str) -> None:
    trace = traced(CELL.format(matrix=matrix, product="a @ w"))

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    assert AS_DENSE not in trace.notes and trace.flops_per_step == 2 * (2 * 3000 * 8)  # forward, and the weight's
    assert max(block.size for block in trace.blocks if block.op != "cublas") == 4 * 2000 * 8
    assert 4 * 3000 in {block.size for block in trace.blocks}


@pytest.mark.parametrize("product", PRODUCTS)
def test_what_keeps_its_pattern_or_becomes_dense_is_not_taken_as_dense(product: str) -> None:
    trace = traced(CELL.format(matrix=MATRICES[0], product=product.replace("F.", "torch.nn.functional.")))

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    assert AS_DENSE not in trace.notes
    assert max(block.size for block in trace.blocks) < 4 * 2000 * 2000


def test_other_operations_are_of_a_dense_one_which_is_said() -> None:
    trace = traced(CELL.format(matrix=MATRICES[0], product="torch.cumsum(a, 0) @ w"))

    assert (trace.status, trace.error) == ("completed", "") and AS_DENSE in trace.notes
    assert max(block.size for block in trace.blocks) == 4 * 2000 * 2000


def test_shapes_that_do_not_go_together_fail_as_they_would() -> None:
    trace = traced(CELL.format(matrix=MATRICES[0], product="a @ w[:5]"))

    assert "mat1 and mat2 shapes cannot be multiplied (2000x2000 and 5x8)" in trace.error


def test_a_product_of_two_has_no_more_entries_than_there_can_be() -> None:
    trace = traced(CELL.format(matrix=MATRICES[0], product="torch.sparse.mm(a, a) @ w"))

    assert (trace.status, trace.error) == ("completed", "") and AS_DENSE not in trace.notes
    assert max(block.size for block in trace.blocks) == 2 * 8 * 2000 * 2000  # the indices, of all that may be

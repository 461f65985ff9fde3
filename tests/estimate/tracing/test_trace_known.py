"""Values that decide about shapes are known in a trace where they came from the host."""

from __future__ import annotations

import pytest
import torch

from tests.estimate.cells import IMPORTS
from tests.estimate.traced import peak_by_kind, traced

pytestmark = pytest.mark.slow

GRAPHS = """
import torch
net = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    batch = torch.arange(64).repeat_interleave(4).cuda()
    size = int(batch.max()) + 1
    pooled = torch.zeros(size, 8, device="cuda").index_add(0, batch, net(torch.randn(256, 8).cuda()))
    loss = torch.nn.functional.cross_entropy(pooled, torch.zeros(64, dtype=torch.long).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MASK = """
import torch
net = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    x, mask = torch.randn(4096, 1024).cuda(), (torch.arange(4096) < 16).cuda()
    {change}
    rows = x[mask] if step else x[mask.nonzero().squeeze(1)]
    assert len(rows) == {rows}, rows.shape
    net(rows).sum().backward()
    optimizer.step()
"""


def test_a_shape_that_follows_from_numbers_of_the_host() -> None:
    trace = traced(GRAPHS)

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    assert "value guessed for .item()" not in trace.notes


def test_places_into_which_something_was_scattered_are_known_as_before() -> None:
    counted = "torch.zeros(64, device='cuda').scatter_add_(0, batch, torch.ones(256, device='cuda'))"

    trace = traced(GRAPHS.replace("size =", f"{counted}\n    size ="))

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    assert "value guessed for .item()" not in trace.notes


def test_the_rows_that_a_mask_takes() -> None:
    trace = traced(MASK.format(change="", rows=16))

    assert (trace.status, trace.error) == ("completed", "")
    assert peak_by_kind(trace)["activation"] < 4096 * 1024

    taken = traced(
        MASK.format(change="", rows=16).replace(
            "x[mask] if step", "x.masked_select(mask[:, None]).view(-1, 1024) if step"
        )
    )

    assert (taken.status, taken.error) == ("completed", "") and "upper bound: mask" not in taken.notes


COUNTER = """
import torch
net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    at, tour = torch.zeros(1, dtype=torch.int64, device="cuda"), []
    while at.item() < 10:
        tour.append(net(torch.randn(3, 4, device="cuda")))
        at = at + 1
    positions = torch.arange(10, device="cuda")
    assert len(tour) == int(positions.max()) + 1 == 10, len(tour)
    torch.stack(tour).sum().backward()
    optimizer.step()
"""


def test_whole_numbers_that_are_made_on_the_device_of_nothing() -> None:
    trace = traced(COUNTER)

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)


def test_how_often_whole_numbers_occur_is_known_with_them() -> None:
    counts = """
    import torch
    at = torch.tensor([0, 2, 2, 6]).cuda()
    counts = torch.bincount(at)
    weighed = [torch.bincount(at, torch.ones(4, dtype=dtype).cuda()) for dtype in (torch.float32, torch.float16)]
    padded = torch.zeros(len(counts), int(counts.max()), device="cuda")
    assert (padded.shape, [one.dtype for one in weighed]) == ((7, 2), [torch.float32, torch.float64]), padded.shape
    """
    trace = traced(counts)

    assert (trace.status, trace.error) == ("completed", "")
    assert "value guessed for bincount()" not in trace.notes


def test_what_is_written_to_on_the_device_is_known_no_more() -> None:
    trace = traced(MASK.format(change="mask.view(-1)[:8] = torch.rand(8, device='cuda') > 0.5", rows=4096))

    assert (trace.status, trace.error) == ("completed", "")
    assert trace.notes["upper bound: mask"]


CROPPED = """
import torch
net = torch.nn.Linear(3 * 8 * 8, 10).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
images = torch.randn(64, 3, 12, 12, requires_grad=True).cuda()
for step in range(2):
    left, top = torch.randint(0, 5, (2, 64, 1), device="cuda")
    at = torch.arange(12, device="cuda")
    columns, rows = (at >= left) & (at < left + 8), (at >= top) & (at < top + 8)
    masks = (rows[:, :, None] & columns[:, None, :]).unsqueeze(1).expand_as(images)
    crops = torch.masked_select(images, masks).{shaped}
    assert crops.shape == (64, 3, 8, 8), crops.shape
    net(crops.flatten(1)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "shaped", ["view(64, 3, 8, 8)", "reshape((64, 3, 8, 8))", "view(size=(64, 3, 8, 8))", "view(-1, 3, 8, 8)[:64]"]
)
def test_a_shape_that_is_asked_for_tells_how_many_a_mask_takes(shaped: str) -> None:
    """As hlb-CIFAR10 crops its images."""
    trace = traced(CROPPED.format(shaped=shaped))

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    assert trace.notes["upper bound: mask"]


def test_a_shape_that_no_values_make_is_an_error_there_too() -> None:
    trace = traced(CROPPED.format(shaped="view(64, 3, 80, 80)"))
    assert trace.status == "failed" and "invalid for input of size" in trace.error, trace
    known = traced("import torch\nx = torch.zeros(10, device='cuda').view(3, 3)")
    assert known.status == "failed" and "invalid for input of size 10" in known.error, known


METRIC = """
import torch
net = torch.nn.Linear(8, 10).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    y = (torch.arange(256) % 10).cuda()
    out = net(torch.randn(256, 8).cuda())
    torch.nn.functional.cross_entropy(out, y).backward()
    optimizer.step()
    said = out.argmax(1)
    for labels in (y, said, said.view(16, 16).flatten().to(torch.int32), said[y < 5]):
        assert len(torch.unique(labels)) <= 10
    counts = torch.bincount(y * 10 + said, minlength=100).reshape(10, 10)
"""


def test_there_are_no_more_labels_than_classes() -> None:
    """As torchmetrics checks."""
    trace = traced(METRIC)

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)


REPEATED = """
import torch
net = torch.nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
each = torch.tensor([3, 1, 0, 4]).cuda()
for step in range(2):
    x = torch.randn(4, 8).cuda().repeat_interleave(each, dim=0)
    assert len(x) == 8
    out = net(x)
    again = torch.repeat_interleave(out, (out.detach().argmax(1) + 1) * 0 + 1, dim=0)  # by values that nobody knows
    again.sum().backward()
    optimizer.step()
    pairs = torch.arange(12).view(6, 2).cuda() % 4
    rows, at, counts = torch.unique(pairs, dim=0, return_inverse=True, return_counts=True)
    assert (rows.shape, at.shape, counts.shape) == ((2, 2), (6,), (2,))
    assert torch.unique(out.detach(), dim=1).shape == (8, 4)  # by values that nobody knows
    kinds, at, counts = torch.unique_consecutive(pairs[:, 0] // 2, return_inverse=True, return_counts=True)
    assert (kinds.tolist(), at.shape, counts.shape) == ([0, 1, 0, 1, 0, 1], (6,), (6,))
    assert torch.unique_consecutive(pairs // 4, dim=0).shape == (1, 2)
    assert torch.unique_consecutive(out.detach()).shape == (32,)
"""


def test_rows_are_repeated_as_often_as_is_known() -> None:
    trace = traced(REPEATED)

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    assert trace.notes["value guessed for repeat_interleave()"] == 2


GLIMPSES = """
import torch
net = torch.nn.Linear(64, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
images, places = torch.randn(16, 32, 32).cuda(), torch.zeros(16, 2).cuda()
for step in range(2):
    start = (0.5 * (places + 1) * 24).long()
    end = (start + 8).clone()
    taken = [images[i, start[i, 1] : end[i, 1], start[i, 0] : end[i, 0]] for i in range(16)]
    places = torch.tanh(net(torch.stack(taken).flatten(1)))
    assert (end - 9)[0, 0].item() >= 0
    optimizer.zero_grad()
    places.sum().backward()
    optimizer.step()
"""


def test_a_slice_between_numbers_that_nobody_knows_is_as_long_as_they_are_apart() -> None:
    trace = traced(GLIMPSES)

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)


REUSED = """
import torch
net = torch.nn.Linear(8, 10).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
written = [torch.zeros(8).cuda().add_(1) for _ in range(2000)]
del written
for step in range(2):
    out = net(torch.randn(256, 8).cuda())
    out.sum().backward()
    optimizer.step()
    labels = [out.argmax(1) for _ in range(200)]
    assert all(len(torch.unique(label)) <= 10 for label in labels)
"""


def test_what_was_written_is_not_what_stands_at_its_address_later() -> None:
    trace = traced(REUSED)

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)


LABELS = """
import torch
net = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
labels = (torch.arange(64) % 2).float()
for step in range(2):
    y = labels.cuda()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(net(torch.randn(64, 8).cuda()).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    assert set(y.long().cpu().numpy()) == {0, 1} and y.detach().cpu().sum() == 32, "as a metric needs both classes"
"""


def test_labels_that_come_back_to_the_host_are_what_they_were() -> None:
    trace = traced(LABELS)

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)


def test_a_module_that_fx_has_written() -> None:
    """As e3nn's and torchvision's feature extractors."""
    trace = traced(
        """
        import torch
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 4)
            def forward(self, x, scale):
                return torch.broadcast_tensors(self.layer(x), scale)[0]
        written = torch.fx.symbolic_trace(torch.fx.symbolic_trace(Net())).cuda()
        optimizer = torch.optim.SGD(written.parameters(), lr=0.1)
        for step in range(5):
            x, scale = torch.ones(8, 4, device="cuda"), torch.ones(4, device="cuda")
            written(x, scale).sum().backward()
            optimizer.step()
        """
    )

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)


PACKED = """
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
net, out = torch.nn.GRU(8, 8, batch_first=True).cuda(), torch.nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD([*net.parameters(), *out.parameters()], lr=0.1)
for step in range(2):
    x, lengths = torch.randn(3, 9, 8).cuda(), torch.tensor([2, 7, 5]).cuda()
    target = torch.zeros(3, 9, dtype=torch.long).cuda()[:, : torch.max(lengths).item()]
    ordered, order = torch.sort(lengths, descending=True)
    found, _ = net(pack_padded_sequence(x[order], ordered.tolist(), batch_first=True))
    padded, _ = pad_packed_sequence(found, batch_first=True)
    _, back = torch.sort(order)
    loss = torch.nn.functional.cross_entropy(out(padded[back]).flatten(0, 1), target.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_lengths_in_their_order_are_those_of_the_host() -> None:
    trace = traced(PACKED)

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    assert "value guessed for .item()" not in trace.notes


@pytest.mark.parametrize(
    "made",
    [
        "torch.Tensor([loss.detach(), 1.0])",
        "torch.FloatTensor([loss.detach()])",
        "loss.new_tensor([loss.detach()])",
        "torch.LongTensor([loss.detach().long()])",
        "torch.Tensor([[loss.detach(), loss.detach()]])",
    ],
)
def test_numbers_of_the_device_go_into_the_hosts_tensors(made: str) -> None:
    cell = "model = nn.Linear(4, 4).cuda(); opt = torch.optim.SGD(model.parameters(), 0.1); seen = []\n"
    cell += (
        "for step in range(20):\n    loss = model(torch.ones(2, 4).cuda()).mean(); opt.zero_grad(); loss.backward()\n"
    )
    trace = traced(IMPORTS + cell + f"    opt.step(); seen.append({made}.numel())\n    assert {made}.device.type\n")

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)


def test_a_mask_of_bytes_chooses_as_it_does_in_torch() -> None:
    """Old code has them; torch computes by one, and its shapes alone refuse."""
    cell = (
        "import torch\nx = torch.ones(4, 4, device='cuda', requires_grad=True)\nopt = torch.optim.SGD([x], 0.1)\n"
        "for _ in range(3):\n"
        "    mask = (x == 0).prod(-1, keepdim=True, dtype=torch.uint8)\n"
        "    loss = torch.where(mask, torch.zeros(1, device='cuda'), x).sum()\n"
        "    opt.zero_grad(); loss.backward(); opt.step()\n"
    )

    trace = traced(cell)

    assert (trace.status, trace.error) == ("completed", "") and trace.steps == 2


@pytest.mark.skipif(not hasattr(torch.nn.functional, "grouped_mm"), reason="this torch has none")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_experts_of_a_mixture_at_once(dtype: str) -> None:
    """As transformers computes them; torch itself knows the shape for bfloat16 alone."""
    trace = traced(
        "import torch, torch.nn.functional as F\n"
        f"experts = torch.nn.Parameter(torch.randn(4, 64, 256, device='cuda', dtype=torch.{dtype}))\n"
        "opt = torch.optim.SGD([experts], 0.1)\n"
        "ends = torch.tensor([8, 16, 24, 32], dtype=torch.int32, device='cuda')\n"
        "for _ in range(3):\n"
        f"    x = torch.randn(32, 64, device='cuda', dtype=torch.{dtype}, requires_grad=True)\n"
        "    made = F.grouped_mm(x, experts, offs=ends)\n"
        "    assert made.shape == (32, 256)\n"
        "    opt.zero_grad(); made.float().square().mean().backward(); opt.step()\n"
        "    assert x.grad.shape == x.shape and experts.grad.shape == experts.shape\n"
    )

    assert (trace.status, trace.error) == ("completed", "") and trace.steps >= 2

from __future__ import annotations

import inspect
import pickle
import threading
from enum import Enum
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, TensorDataset

from jupyter_gpufit.cuda.slot import Budget, as_slot
from jupyter_gpufit.errors import NotOnASlot
from jupyter_gpufit.surroundings import modes
from jupyter_gpufit.units import GiB

CUDA = torch.device("cuda", 0)


class Named(str, Enum):  # noqa: UP042  # a StrEnum prints its value
    CUDA = "cuda"


@pytest.mark.parametrize("device", ["cuda", "cuda:0", 0, torch.device("cuda"), torch.device("cuda:0"), Named.CUDA])
def test_every_name_of_the_device_means_the_slot(slot: Budget, device: Any) -> None:
    x = torch.ones(2)

    assert torch.zeros(2, device=device).device == CUDA
    assert torch.tensor([1.0], device=device).device == CUDA
    assert torch.as_tensor([1.0], device=device).device == CUDA
    assert x.to(device).device == CUDA
    assert x.to(device, non_blocking=True).device == CUDA
    assert x.to(device, torch.float64).dtype == torch.float64
    assert x.to(dtype=torch.float16, device=device).is_cuda
    assert x.cuda(device).is_cuda
    assert x.new_zeros(3, device=device).is_cuda
    assert torch.rand_like(x, device=device).is_cuda
    assert nn.Linear(2, 2).to(device).weight.device == CUDA
    assert nn.Linear(2, 2).to(x.to(device)).weight.device == nn.Linear(2, 2).to(tensor=x.to(device)).bias.device == CUDA
    assert nn.Linear(2, 2).to(x).weight.device.type == "cpu"
    assert nn.Linear(2, 2, device=device).weight.device == CUDA


def test_devices_by_number_and_by_parts(slot: Budget) -> None:
    assert torch.device(0) == torch.device("cuda", 0) == torch.device(type="cuda", index=0) == CUDA


def test_a_tensor_says_where_a_gpu_would_have_it(slot: Budget) -> None:
    host, moved = torch.ones(2), torch.ones(2).cuda()

    assert (host.device.type, host.is_cuda, host.is_cpu, host.get_device()) == ("cpu", False, True, -1)
    assert (moved.device.type, moved.is_cuda, moved.is_cpu, moved.get_device()) == ("cuda", True, False, 0)
    assert (moved * 2).device == moved[0].device == moved.data.device == torch.zeros_like(moved).device == CUDA
    assert moved.cpu().device.type == moved.to("cpu").device.type == torch.from_numpy(np.ones(2)).device.type == "cpu"
    assert torch.empty(2, device="meta").device.type == "meta"
    assert host.to(moved).device == CUDA
    assert moved.to(host).device.type == "cpu"


def test_a_model_says_where_it_is(slot: Budget) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    assert not next(model.parameters()).is_cuda
    model.cuda()
    assert all(tensor.is_cuda for tensor in model.state_dict().values())
    assert model.half()(torch.ones(3, 2, device="cuda", dtype=torch.float16)).is_cuda
    model.cpu()
    assert next(model.parameters()).device.type == "cpu"


def test_types_of_cuda_name_the_device_too(slot: Budget) -> None:
    x, of_cuda = torch.ones(2), vars(torch.cuda)

    half: Any = x.type("torch.cuda.HalfTensor")
    double: Any = x.type(of_cuda["DoubleTensor"])
    assert (half.dtype, double.dtype) == (torch.float16, torch.float64)
    assert half.is_cuda and double.is_cuda and not x.type(torch.float64).is_cuda
    assert (double.type(), x.type()) == ("torch.cuda.DoubleTensor", "torch.FloatTensor")
    assert not double.type(torch.FloatTensor).is_cuda
    made = of_cuda["FloatTensor"]([1.0, 2.0])
    assert made.tolist() == [1.0, 2.0] and made.is_cuda and of_cuda["FloatTensor"](2, 3).shape == (2, 3)
    assert isinstance(made, of_cuda["FloatTensor"]) and not isinstance(x, of_cuda["FloatTensor"])
    assert pickle.loads(pickle.dumps(of_cuda["FloatTensor"])) is of_cuda["FloatTensor"]


def test_each_device_has_a_default_generator(slot: Budget) -> None:
    for number in range(torch.cuda.device_count()):
        torch.cuda.default_generators[number].manual_seed(3 + number)
    drawn = torch.rand(2, device="cuda")
    torch.cuda.manual_seed(3)

    assert torch.equal(torch.rand(2, device="cuda"), drawn)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_types_of_sparse_matrices_on_cuda_do(slot: Budget) -> None:
    kind: Any = vars(torch.cuda.sparse)["FloatTensor"]
    made = kind(torch.tensor([[0, 1], [1, 0]]), torch.tensor([3, 4]), torch.Size([2, 2]), device="cuda")

    assert made.device == CUDA and made.dtype == torch.float32 and made.to_dense().tolist() == [[0, 3], [4, 0]]
    assert kind(2, 3).shape == kind(torch.Size([2, 3])).shape == (2, 3) and isinstance(made, kind)
    assert not isinstance(made.to_dense(), kind) and pickle.loads(pickle.dumps(kind)) is kind
    assert made.type() == "torch.cuda.sparse.FloatTensor" and not made.cpu().type("torch.sparse.FloatTensor").is_cuda


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_a_default_type_of_cuda_is_a_default_device_too(slot: Budget) -> None:
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
    try:
        assert torch.zeros(2).is_cuda and torch.zeros(2).dtype == torch.float32
        made = [torch.Tensor([1.0, 2.0]), torch.Tensor(2), torch.Tensor(torch.zeros(2)), torch.Tensor(2, 3)]
        assert all(one.is_cuda for one in made) and made[0].tolist() == [1.0, 2.0] and made[3].shape == (2, 3)
        assert not torch.FloatTensor([1.0]).is_cuda and not torch.Tensor([1.0], device="cpu").is_cuda
        assert nn.Parameter(made[0]).is_cuda
        its, real = map(inspect.signature, (torch.Tensor.__new__, torch._C.TensorBase.__new__))
        assert its == real  # or torch's compiler, which compares it, could not be imported
        found = modes.modes()
        torch.set_default_tensor_type(torch.FloatTensor)
        modes.put(found)
        assert torch.Tensor([1.0]).is_cuda and torch.zeros(2).is_cuda  # in the process where the cell runs
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)
    assert not torch.zeros(2).is_cuda and not torch.Tensor([1.0]).is_cuda


def test_a_copy_on_the_host_does_not_follow_the_training(slot: Budget) -> None:
    model = nn.Linear(2, 2).cuda()
    best = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    total, seen = torch.zeros(1, device="cuda"), []
    for _ in range(2):
        total += 1
        seen.append(total.to("cpu"))

    with torch.no_grad():
        model.weight.zero_()

    assert best["weight"].abs().sum() > 0
    assert [float(value) for value in seen] == [1.0, 2.0]


def test_changing_a_tensor_on_the_slot_leaves_the_data_alone(slot: Budget) -> None:
    array = np.ones(4, dtype=np.float32)
    data = torch.from_numpy(array)
    adopted = torch.as_tensor(array, device="cuda"), torch.asarray(data, device="cuda")
    for moved in (data.cuda(), data[1:].to("cuda"), *adopted):
        moved.mul_(5)

    assert array.tolist() == [1, 1, 1, 1]


def test_what_is_there_already_is_not_copied(slot: Budget) -> None:
    leaf = torch.ones(2, device="cuda", requires_grad=True)
    host = torch.ones(2)
    result = leaf * 2

    assert leaf.to("cuda") is leaf and leaf.cuda() is leaf and leaf.to(leaf) is leaf
    assert host.cpu() is host and host.to("cpu") is host
    assert result.to("cuda") is result


def test_what_moves_may_change_its_form(slot: Budget) -> None:
    image = torch.ones(1, 2, 3, 4)

    assert torch.empty(0).to("cuda", torch.int64).dtype == torch.int64
    assert image.cuda(memory_format=torch.channels_last).is_contiguous(memory_format=torch.channels_last)
    assert image.to("cuda", memory_format=torch.channels_last).is_contiguous(memory_format=torch.channels_last)
    assert torch.eye(2).to_sparse().to("cuda", torch.float64).to_dense().tolist() == [[1, 0], [0, 1]]
    assert torch.func.vmap(lambda x: x.to("cuda") * 2)(torch.ones(3, 2)).sum() == 12


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_sparse_matrix_is_where_its_values_are(slot: Budget) -> None:
    places, values = torch.tensor([[0, 1], [1, 0]]), torch.tensor([3.0, 4.0])
    host = torch.sparse_coo_tensor(places, values, (2, 2))
    named = torch.sparse_coo_tensor(places, values, (2, 2), device="cuda")
    rows = torch.sparse_csr_tensor(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), values, device="cuda")
    coordinates = [host.cuda(), host.to("cuda").coalesce(), torch.sparse_coo_tensor(places.cuda(), values.cuda())]

    for one in (rows, named, *coordinates):
        parts = (rows.values(), rows.crow_indices()) if one is rows else (one._values(), one._indices())
        assert {part.device for part in (one, *parts, one.to_dense(), one.t(), one @ one.to_dense())} == {CUDA}
        assert one.cpu().device.type == "cpu"
    assert {part.device.type for part in (host, places, values, host.coalesce(), host @ torch.ones(2, 2))} == {"cpu"}
    named.coalesce().values().mul_(2)
    named._values().mul_(2)
    assert values.tolist() == [3, 4], "what has moved shares no memory with the other side"
    weight = nn.Embedding(5, 2, sparse=True, device="cuda")
    weight(torch.tensor([1, 2], device="cuda")).sum().backward()
    assert weight.weight.grad is not None and weight.weight.grad.device == CUDA


def test_tied_weights_stay_tied(slot: Budget) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight

    model.to("cuda")

    assert model[0].weight is model[1].weight


def test_gradients_flow_to_the_host(slot: Budget) -> None:
    weight = torch.ones(2, requires_grad=True)

    (weight.to("cuda") * 3).sum().backward()

    assert weight.grad is not None and weight.grad.tolist() == [3.0, 3.0]


class OnDevice(torch.autograd.Function):
    """A user's own function, whose backward makes a tensor on the device."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(2, device="cuda")

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0] * torch.full((2,), 7.0, device="cuda")


@pytest.mark.slow
def test_the_backward_pass_knows_the_slot(slot: Budget) -> None:
    def block(x: torch.Tensor) -> torch.Tensor:
        assert x.device == CUDA
        return x * torch.full((2,), 3.0, device="cuda")

    x = torch.ones(2, device="cuda", requires_grad=True)
    (grad,) = torch.autograd.grad(OnDevice.apply(x).sum(), x)  # type: ignore[no-untyped-call]
    checkpoint(block, x, use_reentrant=False).sum().backward()

    assert grad.tolist() == [7.0, 7.0]
    assert x.grad is not None and x.grad.tolist() == [3.0, 3.0]


def test_threads_that_the_cell_starts_are_on_the_slot(slot: Budget) -> None:
    devices = []
    thread = threading.Thread(target=lambda: devices.append(torch.ones(2).cuda().device))
    thread.start()
    thread.join()

    assert devices == [CUDA]


class OnTheDevice(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((2,), float(index), device="cuda")


def collate(items: list[torch.Tensor]) -> torch.Tensor:
    """As torch_geometric and others do, from torch's own example."""
    storage = items[0].untyped_storage()._new_shared(sum(item.nbytes for item in items), device=items[0].device)
    out = items[0].new(storage).resize_(len(items), 2)
    return torch.stack(items, out=out)


@pytest.mark.slow
def test_a_collate_function_of_the_user_in_forked_workers(slot: Budget) -> None:
    loader = DataLoader(OnTheDevice(), batch_size=2, num_workers=1, collate_fn=collate)

    assert [batch.tolist() for batch in loader] == [[[0, 0], [1, 1]], [[2, 2], [3, 3]]]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more workers than a machine of one core should have
def test_data_loaders_with_pinned_memory_and_forked_workers(slot: Budget, workers: int) -> None:
    loader = DataLoader(OnTheDevice(), batch_size=2, num_workers=workers, pin_memory=True)

    assert [batch.cuda(non_blocking=True).tolist() for batch in loader] == [[[0, 0], [1, 1]], [[2, 2], [3, 3]]]


def test_pinned_memory(slot: Budget) -> None:
    assert torch.ones(2).pin_memory().cuda(non_blocking=True).tolist() == [1, 1]
    assert torch.empty(3, pin_memory=True).shape == (3,)


def train(device: str) -> tuple[list[float], dict[str, torch.Tensor]]:
    """A short training with what users write: data loader, dropout, batch norm, clipping, scheduler, evaluation."""
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(48, 3, 8, 8), torch.randint(0, 5, (48,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(288, 5)
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
    losses = []
    for _ in range(2):
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device)
            loss = nn.functional.cross_entropy(model(x) + 0.01 * torch.randn(len(x), 5, device=device), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
    return losses, {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.mark.slow
def test_a_training_gives_the_bits_that_the_cpu_gives() -> None:
    losses, weights = train("cpu")

    with as_slot("cpu:0", 8 * GiB):
        losses_there, weights_there = train("cuda")

    assert losses_there == losses
    assert weights_there.keys() == weights.keys()
    assert all(torch.equal(weights_there[name], weights[name]) for name in weights)


def test_torch_itself_sees_the_cpu(slot: Budget) -> None:
    assert torch._utils._get_available_device_type() != "cuda"


@pytest.mark.parametrize("move", [lambda x: x.cuda(1), lambda x: x.to("cuda:1"), lambda x: x.new_zeros(2, device=1)])
def test_there_is_one_device(slot: Budget, move: Any) -> None:
    with pytest.raises(NotOnASlot, match="The device cuda:1 .* slot cpu:0: invalid device ordinal"):
        move(torch.ones(2))


def test_too_large_for_the_machine_is_out_of_memory(slot: Budget) -> None:
    with pytest.raises(torch.OutOfMemoryError, match=r"slot cpu:0 has 8.0 GiB; .* asked for 3.6 TiB more"):
        torch.empty(10**12)


def test_too_large_for_the_slot_is_out_of_memory(slot: Budget) -> None:
    with pytest.raises(torch.OutOfMemoryError, match=r"asked for 10.0 GiB more"):
        torch.empty(10 * GiB, dtype=torch.uint8, device="cuda")


def test_other_errors_stay_as_they_are(slot: Budget) -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        torch.ones(2, 3, device="cuda") @ torch.ones(2, 3, device="cuda")


def test_a_tensor_is_shown_with_its_device(slot: Budget) -> None:
    shown = [repr(t) for t in (torch.ones(2), torch.ones(2, device="cuda"), torch.ones(2).cuda().double() * 2)]

    assert shown == [
        "tensor([1., 1.])",
        "tensor([1., 1.], device='cuda:0')",
        "tensor([2., 2.], device='cuda:0', dtype=torch.float64)",
    ]
    weight = nn.Linear(2, 2).cuda().weight
    assert "device='cuda:0'" in repr(weight) and "requires_grad=True" in f"{weight}"


class Boxed:
    """Torch's functions take it for a tensor, as they do a TensorDict."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func, kwargs


def test_what_is_no_tensor_and_answers_torchs_functions_itself_is_let_alone(slot: Budget) -> None:
    boxed: Any = Boxed()
    found: Any = torch.empty_like(boxed)
    assert found == (torch.empty_like, {})


@pytest.mark.parametrize("name", ["mm", "bmm", "addmm", "baddbmm"])
def test_a_product_may_be_wider_than_what_is_multiplied(slot: Budget, name: str) -> None:
    """As a GPU has it, and no CPU: TRL's losses ask for it."""
    size = (2, 3, 3) if name.startswith("b") or name == "baddbmm" else (3, 3)
    given = [torch.randn(size).bfloat16().cuda() for _ in range(3 if "add" in name else 2)]

    made = getattr(torch, name)(*given, out_dtype=torch.float32)

    assert made.dtype == torch.float32 and made.is_cuda
    assert torch.equal(made, getattr(torch, name)(*(one.float() for one in given)))

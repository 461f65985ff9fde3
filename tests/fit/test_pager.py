"""A training whose tensors are on the host most of the time comes to the same bits."""

from __future__ import annotations

import copy
import io
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from jupyter_gpufit.cuda.slot.budget import give_back
from jupyter_gpufit.devices import sides
from jupyter_gpufit.fit.rungs import recompute
from jupyter_gpufit.fit.rungs.host import PAGE
from jupyter_gpufit.fit.rungs.pager import Pager, paged
from jupyter_gpufit.fit.units import looks_of
from jupyter_gpufit.units import MiB

from .guard import Guard
from .models import GPT, MODELS, OPTIMIZERS, WIDE, Dense, Encoder, Pictures
from .programs import PROGRAMS
from .runs import Step, _flat, differ, plain


def pager(room: int = 40_000, **options: Any) -> Pager:
    return Pager(room, least=1, **{"states_only": False, **options})


def trained(
    make: Callable[[], nn.Module], paging: Pager | None, step: Step = plain, optimizer: str = "AdamW", steps: int = 3
) -> dict[str, Any]:
    """All that a training leaves."""
    torch.manual_seed(0)
    model = make()
    for tensor in [*model.parameters(), *model.buffers()]:
        sides.note(tensor)  # as on a slot
    chosen = OPTIMIZERS[optimizer](model.parameters())

    def run() -> dict[str, Any]:
        losses = [step(model, chosen).item() for _ in range(steps)]
        state = {f"optimizer {k}": v for k, v in _flat(chosen.state_dict()["state"])}
        grads = {f"grad {name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
        found = {**model.state_dict(), **grads, **state}
        kept = {name: torch.tensor(v.tolist()) if isinstance(v, torch.Tensor) else v for name, v in found.items()}
        return {**kept, "losses": losses, "generator": torch.get_rng_state()}

    if paging is None:
        return run()
    with Guard() as guard, paged(paging):
        found = run()
    assert guard.flagged == [] and guard.seen > 0
    return found


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", MODELS)
def test_each_model_comes_to_the_same_bits_with_all_of_it_or_its_states_on_the_host(name: str) -> None:
    usual = trained(MODELS[name], None, steps=2)
    spilled, states = pager(), pager(room=4_000, states_only=True)

    assert differ(usual, trained(MODELS[name], spilled, steps=2)) == []
    assert differ(usual, trained(MODELS[name], states, steps=2)) == []
    assert states.told().moved > 0 and states.told().taken > 0
    assert spilled.told().moved > states.told().moved or name == "dense"


def test_a_control_that_does_not_bring_what_is_used_is_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    model, forgets = nn.Sequential(*(nn.Linear(WIDE, WIDE) for _ in range(4))), pager(9_000)
    for p in model.parameters():
        sides.note(p)
    used = forgets.residency.used
    monkeypatch.setattr(forgets, "bring", lambda given: None)
    monkeypatch.setattr(forgets.residency, "used", lambda op, given: used(op, [page for page in given if page.here]))
    with Guard() as guard, paged(forgets):
        model(torch.randn(4, WIDE)).square().mean().backward()

    assert guard.flagged == 4 * ["mm"], "of a backward, whose weights had left"


@pytest.mark.slow(1)
@pytest.mark.parametrize("optimizer", [name for name in OPTIMIZERS if name != "AdamW"])
def test_each_optimizer(optimizer: str) -> None:
    usual = trained(Encoder, None, optimizer=optimizer, steps=2)

    assert differ(usual, trained(Encoder, pager(), optimizer=optimizer, steps=2)) == []
    assert differ(usual, trained(Encoder, pager(4_000, states_only=True), optimizer=optimizer, steps=2)) == []


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", MODELS)
def test_on_top_of_recomputing(name: str) -> None:
    make = MODELS[name]
    inner = [path for path, one in make().named_modules() if path and next(one.children(), None) is not None]
    blocks = inner or [path for path, _ in make().named_modules() if path]
    with recompute.around({looks_of(make()): blocks}):
        recomputed = trained(make, pager(), steps=2)

    assert differ(trained(make, None, steps=2), recomputed) == []


def test_the_kernels_for_all_parameters_at_once() -> None:
    """As on a GPU: in parts they come to the same."""
    for make in (lambda p: torch.optim.AdamW(p, foreach=True), lambda p: torch.optim.SGD(p, momentum=0.9, fused=True)):
        OPTIMIZERS["made"] = make
        try:
            usual = trained(Dense, None, optimizer="made")
            assert differ(usual, trained(Dense, pager(2_000), optimizer="made")) == []
            assert differ(usual, trained(Dense, pager(900, states_only=True), optimizer="made")) == []
        finally:
            del OPTIMIZERS["made"]


@pytest.mark.slow(1)
@pytest.mark.parametrize("step", PROGRAMS)
def test_awkward_programs(step: Step) -> None:
    assert differ(trained(Pictures, None, step, steps=2), trained(Pictures, pager(9_000), step, steps=2)) == []


@pytest.mark.slow(1)
def test_what_looks_past_all_operations_finds_what_is_there() -> None:
    """Copies, files and arrays, of what is on the host and of what is not; they part from the training then."""

    def looks(model: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
        loss = plain(model, optimizer)
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.seek(0)
        read = torch.load(file)["model"]
        copied, states = copy.deepcopy(model), copy.deepcopy(optimizer.state_dict()["state"])
        loss = plain(model, optimizer)
        words = dict(model.named_parameters())["words.weight"]
        seen = torch.from_numpy(words.detach().numpy()).double().sum()
        was = sum(one.abs().sum() for one in (*read.values(), *copied.parameters()))
        return loss + was.item() + seen.item() + sum(s["exp_avg"].sum().item() for s in states.values())

    tied = lambda: GPT("head")  # noqa: E731
    assert differ(trained(tied, None, looks, steps=2), trained(tied, pager(), looks, steps=2)) == []


@pytest.mark.slow(1)
def test_what_several_threads_of_the_processor_compute_has_the_same_bits() -> None:
    torch.set_num_threads(2)  # until the test ends

    def wide(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
        loss: torch.Tensor = model(torch.randn(512, 128)).square().mean()  # enough that torch and its libraries part it
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    def deep() -> nn.Module:
        return nn.Sequential(*(nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.LayerNorm(128)) for _ in range(3)))

    usual, spilled = trained(deep, None, wide), pager(700_000)
    assert differ(usual, trained(deep, spilled, wide)) == []
    assert torch.get_num_threads() == 2 and spilled.told().moved > 0


def test_threads_of_the_cell_are_under_it_too() -> None:
    def threaded(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
        losses: list[torch.Tensor] = []
        thread = threading.Thread(target=lambda: losses.append(plain(model, optimizer)))
        thread.start()
        thread.join()
        return losses[0]

    assert differ(trained(Dense, None, threaded), trained(Dense, pager(2_000), threaded)) == []


@pytest.mark.slow(1)
def test_it_keeps_to_its_room_whatever_the_batch_is() -> None:
    """A slot's device bytes are the process's private ones, and the host's are shared: the kernel counts both."""

    def layers(count: int) -> nn.Sequential:
        return nn.Sequential(*(nn.Linear(1024, 1024, bias=False) for _ in range(count)))

    def steps(model: nn.Module, *batches: int) -> Iterator[int]:
        optimizer = torch.optim.AdamW(model.parameters())
        for rows in batches:
            optimizer.zero_grad()
            model(torch.randn(rows, 1024)).square().mean().backward()
            optimizer.step()
            give_back()
            yield private_bytes()

    list(steps(layers(1), 300))  # kernels and imports take memory at first
    model = layers(8)  # 32 MiB, and four times that with gradients and states
    for p in model.parameters():
        sides.note(p)
    began, paging = private_bytes(), Pager(16 * MiB, states_only=False)
    with paged(paging):
        most = max(steps(model, 8, 300))

    assert most - began < 20 * MiB, "as it is it grows by three times its 32 MiB"
    assert paging.told().taken >= 3 * 32 * MiB - 16 * MiB


def private_bytes() -> int:
    resident, shared = Path("/proc/self/statm").read_text().split()[1:3]
    return (int(resident) - int(shared)) * PAGE

"""Gradients and parameters are in parts over the ranks, and a cell sees nothing of that but in its bytes."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn

from jupyter_gpufit.devices import sides
from jupyter_gpufit.errors import PartGone
from jupyter_gpufit.fit.several import shard, shards, split
from jupyter_gpufit.fit.several.calls import around
from jupyter_gpufit.fit.several.shard import LEAST
from jupyter_gpufit.fit.several.split import kept_here
from jupyter_gpufit.fit.sharing import GRADIENTS, PARAMETERS
from jupyter_gpufit.worker.ranks.links import RankGone
from jupyter_gpufit.worker.ranks.shared import SharedGroup
from tests.fit.models import GPT, WORDS, batch, loss_of
from tests.fit.several.cells import uneven_batches
from tests.fit.several.ranks import far
from tests.worker.ranks.crew import crew

Make = Callable[[], nn.Module]
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "AdamW": lambda p: torch.optim.AdamW(p, 1e-3),
    "SGD": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9),
}


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 1023), nn.Tanh(), nn.Linear(1023, 129), nn.Tanh(), nn.Linear(129, WORDS))


MODELS: dict[str, Make] = {"dense": dense, "GPT": GPT, "GPT with a tied head": lambda: GPT("head")}


def cell(make: Make, optimizer: Callable[[Any], torch.optim.Optimizer]) -> dict[str, Any]:
    """Accumulates, clips, validates, and writes what it has come to."""
    torch.manual_seed(0)
    model = make().double()
    chosen, losses = optimizer(model.parameters()), []
    for _ in range(4):
        chosen.zero_grad()
        for _ in range(2):
            words = batch()
            given = words.double() if isinstance(model, nn.Sequential) else words
            loss = loss_of(model(given), words) / 2
            loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        chosen.step()
        held = held_by(model, chosen)
        with torch.no_grad():
            losses += [loss.item(), norm.item(), loss_of(model(given), words).item()]
    grads = {f"grad {name}": p.grad for name, p in model.named_parameters()}
    buffer = io.BytesIO()
    torch.save([losses, model.state_dict(), chosen.state_dict()["state"], grads], buffer)
    buffer.seek(0)
    return {"came to": torch.load(buffer), "held": held}


def held_by(model: nn.Module, optimizer: torch.optim.Optimizer) -> float:
    """Bytes that this rank has of parameters, gradients and states, for each of the parameters'; past what a cell sees.

    What was dropped is not a number, or nothing.
    """
    found: list[torch.Tensor] = []
    for p in model.parameters():
        for t in (p, p.grad):
            assert t is not None
            own = shards.current.of(t) if shards.current is not None else None
            found += [own.mine] if own is not None and not own.here else [t]
    found += [t for state in kept_here(optimizer) for t in state.values() if isinstance(t, torch.Tensor) and t.dim()]
    return sum(t.nbytes for t in found) / sum(p.nbytes for p in model.parameters())


@pytest.mark.slow
@pytest.mark.parametrize(
    "size,parts,optimizer,model",
    [
        (2, PARAMETERS, "AdamW", "dense"),
        (2, PARAMETERS, "SGD", "GPT with a tied head"),
        (4, PARAMETERS, "AdamW", "dense"),
        (2, GRADIENTS, "AdamW", "dense"),
    ],
)
def test_a_cell_comes_to_the_same_with_a_part_of_all_each(size: int, parts: int, optimizer: str, model: str) -> None:
    def ranks(group: SharedGroup) -> Any:
        with around(group, split=parts):
            found = cell(MODELS[model], OPTIMIZERS[optimizer])
            group.meet()
        return found

    alone = cell(MODELS[model], OPTIMIZERS[optimizer])
    for found in crew(size, ranks):
        assert isinstance(found, dict), found
        assert far(found["came to"], alone["came to"]) < 1e-10
        if model == "dense":  # whose parameters are large, but for a hundredth
            whole = 0 if parts == PARAMETERS else 1
            assert found["held"] == pytest.approx(whole + (alone["held"] - whole) / size, rel=0.03)


@pytest.mark.slow
def test_who_has_one_sample_gathers_in_the_order_of_who_has_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "LEAST", 1)
    monkeypatch.setattr(split, "LEAST", 1)

    def ranks(group: SharedGroup) -> Any:
        with around(group, split=PARAMETERS):
            return uneven_batches()

    alone = uneven_batches()
    for found in crew(2, ranks):
        assert isinstance(found, dict), found
        assert far(found, alone) < 1e-5


def trained(steps: int = 2) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = dense().double()
    optimizer = torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9)
    for _ in range(steps):
        train(model, optimizer)
    return model, optimizer


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> float:
    optimizer.zero_grad()
    loss = model(torch.ones(4, 8, dtype=torch.double)).square().mean()
    loss.backward()
    optimizer.step()
    return float(loss.item())


def bytes_of(model: nn.Module) -> list[bytes]:
    """As a checkpoint reads them: parameters, then gradients."""
    found = [*model.parameters(), *(p.grad for p in model.parameters())]
    with torch._C.DisableTorchFunction():  # as ours does, and no cell
        storages = [sides.lies(t.untyped_storage()) for t in found if t is not None]
        return [bytes(torch.empty(0, dtype=torch.uint8).set_(one).tolist()) for one in storages]


@pytest.mark.slow
def test_a_rank_reads_the_others_parts_at_any_time_and_threads_and_children_are_refused() -> None:
    """As a checkpoint does, of which no other rank knows."""

    def ranks(group: SharedGroup) -> Any:
        with around(group, split=PARAMETERS):
            model, _ = trained()
            found = bytes_of(model) if group.rank == 1 else None
            group.meet()
            weight = next(p for p in model.parameters() if p.dim() == 2)
            with ThreadPoolExecutor() as pool:
                refused = pool.submit(weight.sum).exception()
            refused_child = in_a_child(weight.sum)
            seen = weight.detach().numpy()  # whose memory the cell has from now on
            here = [t.clone() for p in model.parameters() for t in (p.detach(), p.grad) if t is not None]
            train(*trained_with(model))
            kept = bool((torch.from_numpy(seen) == weight).all())
            group.meet()
        whole = [bytes(t.view(-1).view(torch.uint8).tolist()) for t in here[::2] + here[1::2]]
        return type(refused).__name__, refused_child, kept, found is None or found == whole

    assert crew(2, ranks) == [("NotInParts", "NotInParts", True, True)] * 2


def trained_with(model: nn.Module) -> tuple[nn.Module, torch.optim.Optimizer]:
    return model, torch.optim.SGD(model.parameters(), 1e-2)


def in_a_child(does: Callable[[], Any]) -> str:
    """The name of the error, in a process that was forked, as a loader's."""
    reading, writing = os.pipe()
    if not os.fork():
        try:
            does()
        except BaseException as error:
            os.write(writing, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        return told.read()


@pytest.mark.slow
def test_who_goes_on_alone_has_all_of_it() -> None:
    """As the first rank does that is interrupted."""

    def ranks(group: SharedGroup) -> Any:
        with around(group, split=PARAMETERS) as leave:
            model, optimizer = trained(3)
            if group.rank:
                group.meet()  # until the first one has ended
            leave()
            group.be_alone()
            losses = [train(model, optimizer) for _ in range(3)]
            return losses, {name: t.clone() for name, t in model.state_dict().items()}

    model, optimizer = trained(3)
    losses = [train(model, optimizer) for _ in range(3)]
    found = crew(2, ranks)
    assert far(found[0][0], losses) < 1e-12
    assert far(found[0][1], model.state_dict()) < 1e-12
    assert isinstance(found[1], RankGone)


@pytest.mark.slow
def test_what_a_lost_rank_had_alone_nobody_takes_for_what_was_trained() -> None:
    def ranks(group: SharedGroup) -> Any:
        said: list[str] = []
        with around(group, split=PARAMETERS, say=said.append) as leave:
            model, _ = trained()
            group.meet()
            if group.rank:
                os._exit(0)
            with pytest.raises(RankGone):
                group.meet()  # until it has
            leave()
            group.be_alone()
            with pytest.raises(PartGone):
                next(iter(model.parameters())).sum()
            with pytest.raises(PartGone, match="on device 2 of the job alone"):
                bytes_of(model)
        large = [p.grad is None for p in model.parameters() if p.numel() >= LEAST]
        return all(large), "gradients of 3 parameters are gone" in said[-1]

    assert crew(2, ranks) == [(True, True), None]

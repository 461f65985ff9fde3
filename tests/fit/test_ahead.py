"""What is used next is known from the last step and fetched before it is needed; no decision hangs on time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from jupyter_gpufit.devices import sides
from jupyter_gpufit.fit.rungs import host, link, residency
from jupyter_gpufit.fit.rungs import pager as pagers
from jupyter_gpufit.fit.rungs.ahead import DIES, NEVER, Courses
from jupyter_gpufit.fit.rungs.pager import Pager, paged
from jupyter_gpufit.fit.rungs.residency import Residency
from jupyter_gpufit.units import MiB
from jupyter_gpufit.worker.main_thread import MainThread

from .models import GPT, batch, loss_of

WIDE = 256  # a layer has 256 KiB


def a_step(courses: Courses, *uses: str, key: object = "adam") -> None:
    for op in uses:
        courses.use(op, (courses.born(op),))
    courses.turn(key)


def test_the_next_use_is_that_of_the_last_step() -> None:
    courses = Courses()
    courses.use("mm", (7,))
    courses.use("relu", (7,))
    courses.died(("mm", 1))
    courses.use("mm", (7, 8))
    courses.turn("adam")
    courses.turn("adam")
    assert courses.expected is None, "of the course after a step nothing is known yet"
    courses.use("mm", (7,))
    courses.use("mm", (7, 8))
    courses.turn("adam")

    expected = courses.expected
    assert expected is not None
    assert [expected.next_place(7, at) for at in (0, 1, 2)] == [0, 1, NEVER]
    assert expected.next_place(8, 0) == 1 and expected.next_place(9, 0) == NEVER


def test_what_is_freed_is_told_from_what_is_kept_and_not_used() -> None:
    courses = Courses()
    courses.turn("adam")
    name = courses.born("relu")
    courses.use("mm", (name,))
    courses.use("mul", (3,))
    courses.died(name)
    courses.turn("adam")

    assert courses.expected is not None
    assert courses.expected.next_place(name, 0) == 0 and courses.expected.next_place(name, 1) == DIES
    assert courses.expected.next_place(3, 2) == NEVER


def test_it_finds_its_place_again_after_another_branch_and_each_of_two_optimizers_has_its_own() -> None:
    courses = Courses()
    courses.turn("generator")
    a_step(courses, "a", "b", "c", "d", key="critic")
    a_step(courses, "x", "y", key="generator")
    for op in ("a", "new", "newer", "c"):
        courses.use(op, (courses.born(op),))

    assert courses.at == 3, "behind c"
    courses.turn("critic")
    assert courses.expected is not None and [use.op for use in courses.expected.uses] == ["x", "y"]


def layers(count: int) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(WIDE, WIDE, bias=False) for _ in range(count)))
    for p in model.parameters():
        sides.note(p)
    return model


def run(pager: Pager | None, steps: int = 4, between: Callable[[int, Any], None] = lambda step, model: None) -> Any:
    def train() -> Any:
        model = layers(12)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        for step in range(steps):
            optimizer.zero_grad()
            model(torch.randn(8 + step, WIDE)).square().mean().backward()
            optimizer.step()
            between(step, model)
        return [torch.tensor(p.tolist()) for p in model.parameters()]

    if pager is None:
        return train()
    with paged(pager):
        return train()


def paging(**more: Any) -> Pager:
    return Pager(2 * MiB, states_only=False, least=1, **more)


@pytest.mark.slow(1)
def test_copies_begin_before_they_are_asked_for_and_the_bits_are_the_same() -> None:
    pager = paging()

    assert all(map(torch.equal, run(None), run(pager)))
    assert pager.told().ahead > 50, pager.told()


@pytest.mark.slow(1)
def test_decisions_do_not_depend_on_how_fast_the_link_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def decisions(speed: float | None) -> list[tuple[int, bool]]:
        found: list[tuple[int, bool]] = []
        monkeypatch.setattr(link, "simulated", speed)
        monkeypatch.setattr(residency, "watchers", [lambda storage, back: found.append((storage.nbytes(), back))])
        run(paging(), steps=3)
        return found

    slow, quick = decisions(300e6), decisions(None)
    assert slow == quick and len(slow) > 100


def test_the_room_is_kept_with_all_that_is_on_its_way() -> None:
    pager, most = paging(), []

    def look(step: int, model: Any) -> None:
        found = pager.residency
        most.append(found._now + found._leaving)
        assert found._now == sum(page.nbytes for page in found._here), "the books are right"
        assert found._leaving == sum(page.nbytes for page, _ in found._going)

    run(pager, steps=6, between=look)
    assert max(most) <= 2 * MiB


@pytest.mark.slow(1)
def test_a_process_that_is_forked_in_the_middle_reads_what_is_on_its_way_and_moves_nothing() -> None:
    """It has no thread that copies."""

    def fork(step: int, model: Any) -> None:
        if step != 2:
            return
        usual = [p.sum().item() for p in model.parameters()]
        read, write = os.pipe()
        if (pid := os.fork()) == 0:
            same = [p.sum().item() for p in model.parameters()] == usual
            os.write(write, b"same" if same else b"others")
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as file:
            assert file.read() == b"same"
        os.waitpid(pid, 0)

    assert all(map(torch.equal, run(None), run(paging(), between=fork)))


@pytest.mark.slow(2)
def test_who_reads_past_all_operations_while_bytes_are_on_their_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a checkpoint does: in the middle of a step, and in another thread even."""

    model, found = nn.Sequential(), list[float]()

    def look() -> None:
        """At one alone: who waits for a copy waits for all before it."""
        there = [*model.parameters(), *(p.grad for p in model.parameters() if p.grad is not None)]
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            lies = sides.lies(torch.Tensor.untyped_storage(there[5 * len(found) % len(there)]))
            found.append(torch.empty(0).set_(lies, 0, (WIDE * WIDE,), (1,)).double().sum().item())

    def read(*_: Any) -> None:
        look()
        beside = threading.Thread(target=look)
        beside.start()
        beside.join()

    def sums(pager: Pager | None) -> list[float]:
        nonlocal model, found
        model, found = layers(12), []
        with paged(pager) if pager else nullcontext():
            optimizer = torch.optim.SGD(model.parameters(), 1e-2)
            for layer in model:
                layer.register_forward_hook(read)
            for _ in range(6):
                model(torch.randn(8, WIDE)).square().mean().backward()
                optimizer.step()
        return found

    usual = sums(None)
    monkeypatch.setattr(link, "simulated", 50e6)
    assert sums(pager := paging()) == usual
    assert pager.told().ahead > 20
    pager.residency.settle()
    assert threading.active_count() < 20


@pytest.mark.slow(1)
def test_no_more_is_there_than_a_trial_run_counts_while_the_link_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what leaves, the memory is there until what takes its place comes."""
    real = counted = 0  # bytes, from where they begin
    over: list[int] = []
    dropped, fetched, makes_room = host.drop, host.fetch, Residency.make_room

    def drop(storage: Any, nbytes: int) -> None:
        nonlocal real
        dropped(storage, nbytes)
        real -= nbytes

    def fetch(storage: Any, copy: Any, nbytes: int) -> None:
        nonlocal real
        real += nbytes
        fetched(storage, copy, nbytes)

    def tell(storage: Any, back: bool) -> None:
        nonlocal counted
        counted += storage.nbytes() if back else -storage.nbytes()

    def make_room(self: Residency, wanted: int, but: Any) -> None:
        over.append(real - counted)
        makes_room(self, wanted, but)

    if pagers.last is not None:
        pagers.last.residency.settle()  # an earlier test's
    monkeypatch.setattr(residency, "drop", drop)
    monkeypatch.setattr(residency, "fetch", fetch)
    monkeypatch.setattr(residency, "watchers", [tell])
    monkeypatch.setattr(Residency, "make_room", make_room)
    monkeypatch.setattr(link, "simulated", 100e6)
    with paged(pager := paging()):
        torch.manual_seed(0)
        wide = [nn.Linear(WIDE, WIDE << at % 2, bias=False) for at in range(12)]
        for layer in wide:
            sides.note(layer.weight)
        optimizer = torch.optim.SGD([layer.weight for layer in wide], 1e-2)
        for _ in range(4):
            torch.stack([layer(torch.randn(8, WIDE)).square().mean() for layer in wide]).sum().backward()
            optimizer.step()
    assert pager.told().ahead > 10 and max(over) <= 0


def test_an_error_in_the_middle_leaves_all_as_it_was() -> None:
    def fails(step: int, model: Any) -> None:
        with pytest.raises(RuntimeError):
            model(torch.randn(3, WIDE + 1))

    assert all(map(torch.equal, run(None, between=fails), run(paging(), between=fails)))


def test_an_interrupt_in_the_middle_of_a_move_strikes_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that is interrupted may well go on: `except KeyboardInterrupt: test(model)`."""
    main, struck = MainThread(), 0

    def cut(storage: torch.UntypedStorage, nbytes: int) -> link.CopyUnderWay:
        nonlocal struck
        struck += 1
        if struck == 1:  # the first that leaves, whose bytes the host has not yet
            main._on_interrupt(2, None)
        return link.CopyUnderWay(storage, nbytes)

    def looked(paging: Pager | None) -> list[float]:
        torch.manual_seed(0)
        model = GPT()
        for p in model.parameters():
            sides.note(p)
        words = batch()
        with torch.no_grad(), nullcontext() if paging is None else paged(paging):
            if paging is not None:
                monkeypatch.setattr(paging, "whole", main.ours_if_here)
                with pytest.raises(KeyboardInterrupt), main.user_code():
                    while True:
                        model(words)
            return [loss_of(model(words), words).item() for _ in range(2)]

    usual = looked(None)
    monkeypatch.setattr(residency, "CopyUnderWay", cut)

    assert looked(Pager(9_000, states_only=False, least=1)) == usual and struck > 1

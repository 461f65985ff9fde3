"""Waiting, claiming and giving back, in one process."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import anyio
import pytest

from jupyter_gpufit.devices.device import Device, Process
from jupyter_gpufit.errors import BadOption, DeviceUnreadable, HostIsFull, NeverFits, NoSuchDevice, StorageError
from jupyter_gpufit.lab import Held, Lab, Request, Waiting, claim, claim_now, queue, stalled, view_lab
from jupyter_gpufit.lab.ends import End
from jupyter_gpufit.lab.foreseen import Foreseen
from jupyter_gpufit.lab.policy import Policy
from jupyter_gpufit.system.users import user_name
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB
from tests.lab.claimants import Job, Machine, jobs, left
from tests.lab.values import request, slots

pytestmark = pytest.mark.anyio

ONE_AT_ONCE = Policy(users=dict.fromkeys((user_name(os.geteuid()), str(os.geteuid())), {"devices": 1}))


async def test_a_free_device_is_claimed_at_once(lab: Lab) -> None:
    async with jobs(lab, Machine(slots(4))) as here:
        job = await here.running(3)
        assert job.granted is not None
        assert ([device.label for device in job.granted.devices], job.granted.bytes) == (["cpu:0"], 3 * GiB)
        assert job.waits == []


async def test_one_that_waits_is_told_when_its_turn_may_come(lab: Lab) -> None:
    async with jobs(lab, Machine(slots(4))) as here:
        job = await here.running(3)
        now = time.time()
        job.granted.expect(End(now + 60, now + 90), now)
        waiting = await here.waiting(3)
        assert (told := waiting.waits[-1].expected) == Foreseen(now + 60, now + 90)
        assert told.clock(now) in str(waiting.waits[-1])
        assert view_lab(lab, here.machine.devices).expected == (told,)
        behind = await here.waiting(3)
        assert str(behind.waits[-1]).endswith("at the earliest: your bert comes first and has not begun")
        job.ending.set()
        await waiting.until_it_started()
        assert not [name for name in os.listdir(lab.path) if name.startswith("e.")]


async def test_nothing_of_it_is_left_behind(lab: Lab) -> None:
    async with jobs(lab, Machine(slots(4))) as here:
        job = await here.running(3)
        waiting = await here.waiting(3)
        assert len(left(lab)) == 2
        job.ending.set()
        (await waiting.until_it_started())
        waiting.ending.set()
    assert left(lab) == set()


async def test_the_next_starts_when_the_holder_ends(lab: Lab) -> None:
    async with jobs(lab, Machine(slots(4))) as here:
        first, second = await here.running(4), await here.waiting(4)
        first.ending.set()
        await second.until_it_started()


async def test_it_says_who_holds_what_and_where_one_stands(lab: Lab) -> None:
    async with jobs(lab, Machine(slots(4))) as here:
        await here.running(4, name="resnet")
        await here.waiting(4)
        third = await here.waiting(None)

        sentence = str(third.waits[-1])
        assert "your resnet has held cpu:0 (4.0 GiB) for " in sentence
        assert sentence.endswith(
            "you are 2nd of 2; the next in line waits for 4.0 GiB;"
            " start not known: your resnet does not say how long it runs"
        )


async def test_cancelling_a_waiter_leaves_no_ticket(lab: Lab) -> None:
    async with jobs(lab, Machine(slots(4))) as here:
        first = await here.running(4)
        async with anyio.create_task_group() as group:
            waiting = Job(lab, here.machine, request(4 * GiB))
            group.start_soon(waiting.run)
            await waiting.until_it_waits_for("held")
            group.cancel_scope.cancel()
        third = await here.waiting(4)
        assert third.waits[-1].position == 1
        first.ending.set()
        await third.until_it_started()


async def test_an_error_in_the_job_gives_the_device_back(lab: Lab) -> None:
    with pytest.raises(ZeroDivisionError):
        async with claim(lab, request(GiB), Machine(slots(4)).look):
            raise ZeroDivisionError
    assert left(lab) == set()


async def test_an_error_in_the_report_leaves_no_ticket(lab: Lab) -> None:
    def fails(_: Waiting) -> None:
        raise ZeroDivisionError

    machine = Machine(slots(4))
    async with claim(lab, request(4 * GiB), machine.look):
        with pytest.raises(ZeroDivisionError):
            async with claim(lab, request(4 * GiB), machine.look, fails):
                pass
        assert len(left(lab)) == 1


@pytest.mark.parametrize(
    ("asked", "error"),
    [(request(5 * GiB), NeverFits), (request(GiB, gpu="cpu:7"), NoSuchDevice), (request(GiB, count=2), BadOption)],
)
async def test_what_can_never_start_does_not_queue(lab: Lab, asked: Request, error: type[Exception]) -> None:
    with pytest.raises(error):
        async with claim(lab, asked, Machine(slots(4)).look):
            pass
    assert left(lab) == set()


async def test_more_than_ones_limit_does_not_queue(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Policy(users={str(os.geteuid()): {"memory": 2 * GiB}, "root": {"memory": 2 * GiB}})
    monkeypatch.setattr(queue, "load_policy", lambda: policy)
    with pytest.raises(BadOption, match="allows you 2.0 GiB at once"):
        async with claim(lab, request(3 * GiB), Machine(slots(4)).look):
            pass


async def test_two_jobs_for_two_devices_do_not_block_each_other(lab: Lab) -> None:
    async with jobs(lab, Machine(slots(4, 4))) as here:
        small = await here.running(1)
        first, second = await here.waiting(None, count=2), await here.waiting(None, count=2)
        small.ending.set()
        assert len((await first.until_it_started()).devices) == 2
        first.ending.set()
        assert len((await second.until_it_started()).devices) == 2


async def test_an_emptied_lab_costs_a_waiter_only_its_place(lab: Lab) -> None:
    async with jobs(lab, Machine(slots(4))) as here:
        running = await here.running(4)
        waiting = await here.waiting(4)
        for name in left(lab):
            (lab.path / name).unlink()
        running.ending.set()
        await waiting.until_it_started()


async def test_a_lab_made_anew_is_found_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "RETRY", 0.01)
    async with jobs(lab, Machine(slots(4))) as here:
        running = await here.running(4)
        waiting = await here.waiting(4)
        lab.path.rename(lab.path.with_name("old"))
        await waiting.until_it_waits_for("trouble")
        running.ending.set()
        lab.path.mkdir()
        (lab.path / "mutex").touch()
        await waiting.until_it_started()


async def test_a_full_file_system_is_said_at_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageError, match="No space left on device"):
        async with claim(lab, request(GiB), Machine(slots(4)).look):
            pass


async def test_a_driver_that_fails_while_we_wait_costs_no_place(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "RETRY", 0.01)
    machine = Machine([fake_device()])
    async with jobs(lab, machine) as here:
        first, second = await here.running(None), await here.waiting(None)
        machine.fails = True
        first.ending.set()
        assert "it hangs" in str(await second.until_it_waits_for("trouble"))
        machine.fails = False
        await second.until_it_started()


async def test_trouble_at_the_first_look_ends_nobody(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "RETRY", 300.0)  # what it hears of first is the other job's end
    async with jobs(lab, Machine([fake_device()])) as here:
        first = await here.running(None)
        monkeypatch.setattr(queue, "whose_turn", broken)
        second = await here.waiting(None, "trouble")  # it does not know its place yet
        monkeypatch.undo()
        first.ending.set()
        await second.until_it_started()


def broken(*_: object, **__: object) -> Policy:
    raise DeviceUnreadable("The NVIDIA driver", "it hangs.")


STRANGER = Process(999_999_999, "eve", 60 * GiB)
BUSY = fake_device(free=20 * GiB, processes=(STRANGER,))


async def test_a_process_outside_the_lab_is_named_and_waited_for(lab: Lab) -> None:
    machine = Machine([BUSY])
    async with jobs(lab, machine) as here:
        job = await here.waiting(40, "strangers")
        assert str(job.waits[-1]) == (
            "eve's process 999999999 holds GPU 0 (60.0 GiB); outside the lab; you are 1st of 1"
        )
        machine.devices = [fake_device()]
        await job.until_it_started()


async def test_memory_of_a_dead_holder_is_waited_for(lab: Lab) -> None:
    """The lock is free, and the driver still shows the bytes: no event tells when they are there."""
    machine = Machine([fake_device()])
    async with jobs(lab, machine) as here:
        first = await here.running(60)
        second = await here.waiting(60)
        machine.devices = [BUSY]
        first.ending.set()
        await second.until_it_waits_for("strangers")
        machine.devices = [fake_device()]
        await second.until_it_started()


async def test_memory_that_went_between_look_and_claim_is_waited_for(lab: Lab) -> None:
    machine, looked = Machine([fake_device()]), []

    async def look() -> Sequence[Device]:
        looked.append(await machine.look())
        machine.devices = [BUSY] if len(looked) == 1 else [fake_device()]
        return looked[-1]

    waits: list[Waiting] = []
    async with claim(lab, request(60 * GiB), look, waits.append):
        pass
    assert [waiting.why for waiting in waits] == ["memory"]
    assert "GPU 0 is yours as soon as its memory is free" in str(waits[0])


async def test_memory_that_never_comes_is_given_up_for_the_queue(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_gpufit.lab import grant

    monkeypatch.setattr(grant, "VANISHING", 0.0)
    machine, looked = Machine([fake_device()]), []

    async def look() -> Sequence[Device]:
        looked.append(1)
        return [fake_device()] if len(looked) == 1 else [BUSY]

    async with jobs(lab, machine) as here:
        machine.look = look  # type: ignore[method-assign]
        job = await here.waiting(60, "strangers")
        assert [waiting.why for waiting in job.waits] == ["memory", "strangers"]
        assert {name[0] for name in left(lab)} == {"q"}


async def test_only_whose_turn_it_may_be_asks_the_driver(lab: Lab) -> None:
    machine = Machine([fake_device()])
    async with jobs(lab, machine) as here:
        first = await here.running(None)
        second = await here.waiting(None)
        others = [await here.waiting(None) for _ in range(5)]
        looks = machine.looks
        first.ending.set()
        await second.until_it_started()
        for other in others:
            await other.until_it_waits_for("held")
        assert machine.looks - looks <= 3  # one for its turn, one for its memory, and one more if they crossed


async def test_a_job_that_could_start_and_does_not_is_passed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_gpufit.lab.published import publish

    monkeypatch.setattr(stalled, "PASSED_AFTER", 0.05)
    stopped = [publish(lab.path, request(4 * GiB, name="stopped")) for _ in range(3)]
    async with jobs(lab, Machine(slots(4))) as here:
        job = await here.running(4)
        assert "your stopped comes first and is about to start" in str(job.waits[0])
    for ticket in stopped:
        ticket.drop()


async def test_a_view_tells_everything_at_once(lab: Lab) -> None:
    async with jobs(lab, Machine(slots(4, 4))) as here:
        await here.running(3, name="holds")
        await here.waiting(None, name="waits", count=2)

        view = view_lab(lab, here.machine.devices)
        assert [claim.request.name for claim in view.claims] == ["holds"]
        assert [ticket.request.name for ticket in view.queue] == ["waits"]
        assert view.queue[0].uid == os.geteuid()
        assert [reason.why for reason in view.reasons if reason] == ["held"]
        assert {uuid: ticket.request.name for uuid, ticket in view.held_back.items()} == {"cpu:1": "waits"}
        assert view.rooms["cpu:0"].free == GiB


async def test_use_is_noted_when_it_ends(lab: Lab) -> None:
    from jupyter_gpufit.lab.usage import UsageReader

    async with jobs(lab, Machine(slots(4))) as here:
        job = await here.running(2)
        job.ending.set()
    [used] = UsageReader(lab.path).read(half_life=1e6, now=2e9).values()
    assert used >= 0
    assert len([name for name in os.listdir(lab.path) if name.startswith("u.")]) == 1


async def test_a_move_claims_a_free_device_beside_its_own_or_is_told_who_has_it(lab: Lab) -> None:
    machine = Machine(slots(4, 4))
    async with jobs(lab, machine) as here:
        leaving = await (await here.running(None, gpu="cpu:0")).until_it_started()
        wanted = request(None, gpu="cpu:1")
        held = await claim_now(lab, wanted, machine.look, leaving)
        assert isinstance(held, Held) and held.granted.devices[0].label == "cpu:1"
        refused = await claim_now(lab, wanted, machine.look, leaving)
        assert isinstance(refused, Waiting) and "has held cpu:1" in str(refused)
        held.give_back()
        assert len(left(lab)) == 1  # no ticket stays behind


async def test_a_move_that_is_cancelled_while_it_waits_for_memory_holds_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(slots(4, 4))
    async with jobs(lab, machine) as here:
        leaving = await (await here.running(None, gpu="cpu:0")).until_it_started()
        with anyio.CancelScope() as moving:

            async def never(*_: object) -> bool:
                moving.cancel()
                await anyio.sleep_forever()
                return True

            monkeypatch.setattr(queue, "memory_is_there", never)
            await claim_now(lab, request(None, gpu="cpu:1"), machine.look, leaving)
        assert len(left(lab)) == 1


async def test_what_a_move_leaves_does_not_count_against_its_users_limit(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "load_policy", lambda: ONE_AT_ONCE)
    machine = Machine(slots(4, 4))
    async with jobs(lab, machine) as here:
        leaving = await (await here.running(None, gpu="cpu:0")).until_it_started()
        held = await claim_now(lab, request(None, gpu="cpu:1"), machine.look, leaving)
        assert isinstance(held, Held)
        held.give_back()


async def test_two_whose_plans_take_of_the_host_wait_for_each_other(lab: Lab) -> None:
    most = Policy().for_plans
    async with jobs(lab, Machine(slots(8, 8))) as here:
        first = await here.running(4, host=most * 6 // 10)
        second = await here.waiting(4, "limit", host=most * 6 // 10)
        await here.running(8)  # on the device that is free

        assert "of the host's memory" in second.waits[-1].remark
        first.ending.set()
        await second.until_it_started()
    with pytest.raises(HostIsFull, match="`host`; gpufit lab policy"):
        async with claim(lab, request(4 * GiB, host=most + 1), Machine(slots(8)).look):
            pass

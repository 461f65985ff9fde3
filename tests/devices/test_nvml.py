"""GPUs, read through a real library that pretends: sound, failing and gone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pynvml
import pytest

from jupyter_gpufit.devices.device import Device
from jupyter_gpufit.devices.nvml import UNKNOWN_USER, Nvml, NvmlCode
from jupyter_gpufit.errors import DeviceUnreadable
from jupyter_gpufit.units import GiB, MiB

from ..fake_nvml import FakeNvml, Gpu, Holder, Instance, build_library, fake_uuid, run
from ..fake_nvml.reader import Reader, Refused

pytest_plugins = ["tests.fake_nvml.fixtures"]

LOST = {"*": NvmlCode.GPU_IS_LOST}
NOBODY = 2**22 + 1  # a pid beyond the kernel's highest
SPLIT = Gpu(instances=(Instance(uuid="MIG-a", gpu_instance=1), Instance(uuid="MIG-b", gpu_instance=2)))


@pytest.fixture(scope="module")
def machine(nvml_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with Reader(FakeNvml(tmp_path_factory.mktemp("machine"), nvml_library)) as reader:
        yield reader


@pytest.fixture
def reader(machine: Reader) -> Reader:
    """A process that reads the devices, as if just started, on a machine with no driver."""
    machine.fake.unload()
    machine.anew()
    machine.fake.calls()
    return machine


# GPUs


def test_reads_what_a_gpu_is_and_has(reader: Reader) -> None:
    held = Holder(pid=os.getpid(), bytes=3 * GiB)
    reader.fake.show(Gpu(), Gpu(name="NVIDIA L4", total=24 * GiB, utilisation=37, power=55_500, processes=(held,)))

    first, second = reader.read()

    assert (first["uuid"], first["label"], first["free"]) == (fake_uuid(0), "0", 80 * GiB - 512 * MiB)
    assert second | {"processes": []} == asdict(
        Device(
            uuid=fake_uuid(1),
            label="1",
            name="NVIDIA L4",
            index=1,
            kind="gpu",
            total=24 * GiB,
            free=21 * GiB - 512 * MiB,
            reserved=512 * MiB,
            utilisation=37,
            temperature=40,
            power=55.5,
            capability=[9, 0],  # type: ignore[arg-type]  # a list in JSON
        )
    ) | {"processes": []}


def test_sees_the_world_change(reader: Reader) -> None:
    reader.fake.show(Gpu())
    (before,) = reader.read()
    reader.fake.show(Gpu(unlisted=GiB))

    (after,) = reader.read()

    assert before["free"] - after["free"] == GiB


def test_names_the_user_of_a_process(reader: Reader) -> None:
    as_root = os.geteuid() == 0
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, user=61001 if as_root else None) as process:
        reader.fake.show(Gpu(processes=(Holder(pid=process.pid, bytes=GiB), Holder(pid=1, bytes=None))))
        theirs, roots = reader.read()[0]["processes"]
        process.communicate()

    assert (roots["pid"], roots["user"], roots["bytes"]) == (1, "root", None)
    assert theirs["command"] == "cat"
    assert theirs["bytes"] == GiB
    if as_root:
        assert theirs["user"] == "uid 61001"


def test_shows_a_process_that_is_unknown_here(reader: Reader) -> None:
    reader.fake.show(Gpu(processes=(Holder(pid=NOBODY, bytes=2 * GiB), Holder(pid=2**32 - 1, bytes=GiB))))

    processes = reader.read()[0]["processes"]

    assert [(process["user"], process["bytes"]) for process in processes] == [
        (UNKNOWN_USER, 2 * GiB),
        (UNKNOWN_USER, GiB),
    ]


def test_counts_a_process_once_that_computes_and_draws(reader: Reader) -> None:
    both = Holder(pid=1, bytes=GiB, uses="compute graphics")
    half_known = (Holder(pid=3, bytes=GiB), Holder(pid=3, bytes=None, uses="graphics"))
    reader.fake.show(Gpu(processes=(both, Holder(pid=2, bytes=GiB, uses="mps"), *half_known)))

    processes = {process["pid"]: process["bytes"] for process in reader.read()[0]["processes"]}

    assert processes == {1: GiB, 2: GiB, 3: GiB}


def test_memory_may_come_back_later_than_the_process_goes(reader: Reader) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        reader.fake.show(Gpu(reserved=0, processes=(Holder(pid=process.pid, bytes=GiB, release=600),)))
        (alive,) = reader.read()
        process.communicate()
    (gone,) = reader.read()
    reader.fake.let_pass(601)
    (free,) = reader.read()

    assert (len(alive["processes"]), alive["free"]) == (1, 79 * GiB)
    assert (len(gone["processes"]), gone["free"]) == (0, 79 * GiB)
    assert (len(free["processes"]), free["free"]) == (0, 80 * GiB)


def test_leaves_out_what_a_gpu_does_not_support(reader: Reader) -> None:
    reader.fake.show(Gpu(utilisation=None, temperature=None, power=None, capability=None))

    (gpu,) = reader.read()

    assert [gpu[name] for name in ("utilisation", "temperature", "power", "capability", "problem")] == [None] * 4 + [""]


@pytest.mark.parametrize("missing", ["nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"])
def test_reads_the_temperature_as_the_driver_offers_it(reader: Reader, missing: str) -> None:
    reader.fake.show(Gpu(temperature=61, errors={missing: 13}))
    other = missing.endswith("V") or hasattr(pynvml, "nvmlDeviceGetTemperatureV")  # an old pynvml knows one only
    assert reader.read()[0]["temperature"] == (61 if other else None)


def test_takes_the_hosts_memory_for_a_chip_without_its_own(reader: Reader) -> None:
    reader.fake.show(Gpu(errors=dict.fromkeys(("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"), 3)))

    (gpu,) = reader.read()

    assert gpu["total"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < gpu["free"] < gpu["total"]


def test_lists_mig_instances_instead_of_their_gpu(reader: Reader) -> None:
    first, second = SPLIT.instances or ()
    reader.fake.show(Gpu(), replace(SPLIT, instances=(replace(first, processes=(Holder(pid=1, bytes=None),)), second)))

    devices = reader.read()

    assert [(d["kind"], d["label"], d["uuid"]) for d in devices] == [
        ("gpu", "0", fake_uuid(0)),
        ("mig", "1:0", "MIG-a"),
        ("mig", "1:1", "MIG-b"),
    ]
    assert [len(device["processes"]) for device in devices] == [0, 1, 0]
    assert devices[1]["total"] == 10 * GiB


def test_a_gpu_that_mig_has_not_divided_cannot_be_used(reader: Reader) -> None:
    reader.fake.show(Gpu(instances=()))

    (gpu,) = reader.read()

    assert (gpu["kind"], gpu["free"]) == ("gpu", 0)
    assert "nvidia-smi mig" in gpu["problem"]


@pytest.mark.parametrize("function", ["nvmlDeviceGetMigMode", "nvmlDeviceGetMigDeviceHandleByIndex"])
def test_a_gpu_whose_mig_is_unreadable_does_not_pass_for_a_whole_one(reader: Reader, function: str) -> None:
    reader.fake.show(replace(SPLIT, errors={function: NvmlCode.UNKNOWN}))

    (gpu,) = reader.read()

    assert (gpu["free"], gpu["problem"]) == (0, "GPU cannot be read: NVML answers 'Unknown Error'.")


# When a GPU fails


@pytest.mark.parametrize("function", ["*", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo"])
@pytest.mark.parametrize("code", [NvmlCode.GPU_IS_LOST, NvmlCode.RESET_REQUIRED, NvmlCode.UNKNOWN])
def test_a_gpu_that_fails_stays_in_the_list(reader: Reader, code: NvmlCode, function: str) -> None:
    reader.fake.show(Gpu(), Gpu(unlisted=GiB))
    healthy = reader.read()
    reader.fake.show(Gpu(errors={function: code, f"{function}_v2": code}), Gpu(unlisted=GiB))

    failed, other = reader.read()

    assert [failed[name] for name in ("uuid", "total", "free", "utilisation")] == [fake_uuid(0), 80 * GiB, 0, None]
    assert failed["problem"].startswith("GPU ")
    assert other == healthy[1]


def test_a_gpu_that_was_lost_comes_back(reader: Reader) -> None:
    reader.fake.show(Gpu())
    healthy = reader.read()
    reader.fake.show(Gpu(errors=LOST))
    assert reader.read()[0]["problem"]
    reader.fake.show(Gpu())

    assert reader.read() == healthy


def test_lets_go_of_nvml_while_a_gpu_needs_a_reset(reader: Reader) -> None:
    reader.fake.show(Gpu(), Gpu(errors={"nvmlDeviceGetUtilizationRates": NvmlCode.RESET_REQUIRED}))

    assert "nvidia-smi --gpu-reset -i 1" in reader.read()[1]["problem"]

    assert reader.fake.calls()[-1] == "nvmlShutdown"


def test_a_gpu_that_was_never_healthy_is_shown_too(reader: Reader) -> None:
    reader.fake.show(Gpu(), Gpu(errors=LOST))

    assert [device["uuid"] for device in reader.read()] == [fake_uuid(0), "GPU-unreadable-1"]


def test_the_instances_of_a_lost_gpu_stay_in_the_list(reader: Reader) -> None:
    reader.fake.show(SPLIT)
    reader.read()
    reader.fake.show(replace(SPLIT, errors=LOST))

    assert [(device["uuid"], bool(device["problem"])) for device in reader.read()] == [("MIG-a", True), ("MIG-b", True)]


@pytest.mark.parametrize("code", [2, 3, 4, 6, 7, 10, 13, 15, 16, 17, 20, 25, 27, 28, 999])
def test_whatever_a_function_answers_the_other_gpu_is_read(reader: Reader, code: int) -> None:
    reader.fake.show(Gpu(), Gpu())
    _, healthy = reader.read()
    functions = {call for call in reader.fake.calls() if call.startswith("nvmlDevice")} - {"nvmlDeviceGetCount_v2"}
    assert len(functions) > 10

    for function in functions:
        reader.anew()
        reader.fake.show(Gpu(errors={function: code}), Gpu())
        odd, other = reader.read()  # free only if it can be trusted
        assert other == healthy, function
        assert odd["problem"] == "" or odd["free"] == 0, function


# When the driver fails


@pytest.mark.parametrize(
    ("function", "code", "advice"),
    [
        ("nvmlInitWithFlags", NvmlCode.DRIVER_NOT_LOADED, "modprobe nvidia"),
        ("nvmlInitWithFlags", NvmlCode.LIB_RM_VERSION_MISMATCH, "Restart Jupyter"),
        ("nvmlInitWithFlags", NvmlCode.NO_PERMISSION, "Ask an administrator"),
        ("nvmlInitWithFlags", NvmlCode.UNKNOWN, "restart the container"),
        ("nvmlDeviceGetCount_v2", 17, "The operating system has blocked the request"),
        ("nvmlDeviceGetHandleByIndex_v2", NvmlCode.DRIVER_NOT_LOADED, "modprobe nvidia"),
        ("nvmlDeviceGetUtilizationRates", NvmlCode.LIB_RM_VERSION_MISMATCH, "Restart Jupyter"),
    ],
)
def test_a_driver_that_fails_is_no_device(reader: Reader, function: str, code: int, advice: str) -> None:
    reader.fake.show(Gpu(), errors={function: code})

    with pytest.raises(Refused, match=f"NoDevice.*{advice}.*GPUFIT_DEVICES=cpu:2x4GiB"):
        reader.read()


def test_a_machine_without_gpus_is_no_device(reader: Reader) -> None:
    reader.fake.show()

    with pytest.raises(Refused, match="NoDevice.*shows no GPU"):
        reader.read()


@pytest.mark.slow
def test_a_machine_without_the_library_is_no_device(tmp_path: Path) -> None:
    tmp_path.joinpath("libnvidia-ml.so.1").touch()  # hides a real one, and cannot be loaded

    with Reader(FakeNvml(tmp_path, tmp_path / "libnvidia-ml.so.1")) as reader, pytest.raises(Refused) as refused:
        reader.read()

    assert "is not installed" in str(refused.value)


def test_starts_nvml_once(reader: Reader) -> None:
    reader.fake.show(Gpu())

    reader.read()
    reader.read()
    reader.driver()

    calls = reader.fake.calls()
    assert (calls.count("nvmlInitWithFlags"), calls.count("nvmlShutdown")) == (1, 0)


def test_starts_nvml_again_when_the_driver_was_reloaded(reader: Reader) -> None:
    reader.fake.show(Gpu())
    reader.read()
    reader.fake.show(Gpu(uuid="GPU-another"), generation=2)

    assert [device["uuid"] for device in reader.read()] == ["GPU-another"]

    assert reader.fake.calls().count("nvmlInitWithFlags") == 2


def test_does_not_name_a_lost_gpu_by_its_index_before_the_driver_was_reloaded(reader: Reader) -> None:
    reader.fake.show(Gpu(uuid="GPU-a"), Gpu(uuid="GPU-b"))
    reader.read()
    reader.fake.show(Gpu(uuid="GPU-b", errors=LOST), generation=2)

    assert [device["uuid"] for device in reader.read()] == ["GPU-unreadable-0"]


def test_finds_the_driver_gone_and_back(reader: Reader) -> None:
    reader.fake.show(Gpu())
    healthy = reader.read()
    reader.fake.unload()
    with pytest.raises(Refused, match="not loaded"):
        reader.read()
    reader.fake.show(Gpu(), generation=2)

    assert reader.read() == healthy


def test_gives_nvml_back_when_asked(reader: Reader) -> None:
    reader.fake.show(Gpu())
    reader.read()

    reader.close_nvml()
    reader.close_nvml()

    assert reader.fake.calls().count("nvmlShutdown") == 1
    assert reader.read()


def test_tells_the_drivers_version(reader: Reader) -> None:
    reader.fake.show(Gpu(), driver="550.54.15", cuda=12040)

    assert reader.driver() == {"version": "550.54.15", "cuda": "12.4"}


def test_does_not_wait_forever_behind_a_call_that_hangs() -> None:
    nvml = Nvml(patience=0)

    with nvml._lock, pytest.raises(DeviceUnreadable, match="dmesg"):
        nvml.read()


@pytest.mark.slow
@pytest.mark.parametrize("driver", [470, 535])
def test_reads_the_same_through_an_older_driver(reader: Reader, tmp_path: Path, driver: int) -> None:
    world = Gpu(reserved=0, processes=tuple(Holder(pid=pid, bytes=pid * GiB) for pid in (1, 2, 3)))
    reader.fake.show(world)
    older = FakeNvml(tmp_path, build_library(tmp_path, driver=driver))
    older.show(world)

    with Reader(older) as older_reader:
        assert older_reader.read() == reader.read()


# The world outside


@pytest.mark.slow
@pytest.mark.parametrize("driver", [470, 535, 580])
def test_another_program_sees_the_same(tmp_path: Path, driver: int) -> None:
    fake = FakeNvml(tmp_path, build_library(tmp_path, driver=driver))
    (instance, *_) = SPLIT.instances or ()
    fake.show(
        Gpu(processes=(Holder(pid=1, bytes=3 * GiB), Holder(pid=os.getpid(), bytes=None)), utilisation=97),
        Gpu(name="NVIDIA L4", total=24 * GiB, unlisted=GiB, temperature=None),
        replace(SPLIT, instances=(replace(instance, processes=(Holder(pid=1, bytes=GiB),)),)),
    )
    theirs = run(
        fake,
        """
        import json
        from nvitop import NA, Device

        known = lambda value: None if value is NA else value
        leaves = [leaf for device in Device.all() for leaf in device.to_leaf_devices()]
        print(json.dumps([{
            "uuid": leaf.uuid(), "name": leaf.name(), "total": leaf.memory_total(), "free": leaf.memory_free(),
            "utilisation": known(leaf.gpu_utilization()), "temperature": known(leaf.temperature()),
            "processes": [[p.pid, p.username(), known(p.gpu_memory())] for p in leaf.processes().values()],
        } for leaf in leaves]))
        """,
    )
    with Reader(fake) as reader:
        ours = reader.read()

    for device in ours:
        device["processes"] = [[process["pid"], process["user"], process["bytes"]] for process in device["processes"]]
    assert [{name: device[name] for name in theirs[0]} for device in ours] == theirs

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from jupyter_gpufit.devices import here as devices_module
from jupyter_gpufit.devices.device import find_device
from jupyter_gpufit.devices.here import read_devices
from jupyter_gpufit.devices.slots import default_slot_size, has_nvidia_gpu, parse_slots
from jupyter_gpufit.errors import BadSetting, NoDevice, NoSuchDevice
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB

from ..fake_nvml import FakeNvml, Gpu, run

# CPU slots


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("cpu:2x4GiB", [4, 4]),
        ("cpu:4GiB", [4]),
        (" CPU:1x8gib , cpu:2x4GiB", [8, 4, 4]),
        ("gpu", []),
        ("", []),
    ],
)
def test_reads_slots_from_the_setting(text: str, sizes: list[int]) -> None:
    slots = parse_slots(text)

    assert [slot.total for slot in slots] == [slot.free for slot in slots] == [size * GiB for size in sizes]
    assert [slot.uuid for slot in slots] == [f"cpu:{i}" for i in range(len(sizes))]


@pytest.mark.parametrize(
    "text", ["cpu", "cpu:", "tpu:2x4GiB", "cpu:2x", "cpu:0x4GiB", "cpu:2x0", "cpu:-1x4GiB", "cpu:4GiB,", "cpu:65x1GiB"]
)
def test_refuses_other_settings_and_says_what_is_allowed(text: str) -> None:
    with pytest.raises(BadSetting, match="devices in GPUFIT_DEVICES.*cpu:2x4GiB"):
        read_devices(Settings(devices=text))


def test_a_slot_is_a_device_with_a_json_form() -> None:
    (slot,) = read_devices(Settings(devices="cpu:1x4GiB"))

    record = json.loads(json.dumps(asdict(slot)))

    assert (record["uuid"], record["kind"], record["total"], record["problem"]) == ("cpu:0", "slot", 4 * GiB, "")


# Finding a device

GPUS = (
    fake_device("GPU-12ab", label="0"),
    fake_device("GPU-12cd", label="1", index=1),
    fake_device("MIG-77", label="2:0", index=2, kind="mig"),
    fake_device("MIG-88", label="2:1", index=2, kind="mig"),
)


@pytest.mark.parametrize(
    ("wanted", "uuid"),
    [("0", "GPU-12ab"), ("1", "GPU-12cd"), ("GPU-12ab", "GPU-12ab"), ("gpu-12C", "GPU-12cd"), (" 2:1 ", "MIG-88")],
)
def test_finds_a_device_by_any_of_its_names(wanted: str, uuid: str) -> None:
    assert find_device(GPUS, wanted).uuid == uuid


@pytest.mark.parametrize("wanted", ["7", "GPU-", "GPU-12", "2", "12ab", "cpu:0", ""])
def test_refuses_a_name_that_fits_none_or_several(wanted: str) -> None:
    with pytest.raises(NoSuchDevice, match=r"0 \(.*GPU-12ab\), .*2:1"):
        find_device(GPUS, wanted)


@pytest.mark.parametrize("wanted", ["", "GPU-"])
def test_does_not_take_the_only_device_for_any_name(wanted: str) -> None:
    with pytest.raises(NoSuchDevice):
        find_device(GPUS[:1], wanted)


def test_finds_a_slot_by_name_and_by_number() -> None:
    slots = parse_slots("cpu:2x4GiB")

    assert find_device(slots, "cpu:1") is find_device(slots, "1") is slots[1]


@pytest.mark.slow
def test_the_loop_goes_on_while_the_driver_thinks(fake_nvml: FakeNvml) -> None:
    fake_nvml.show(Gpu(), delays={"nvmlDeviceGetCount_v2": 30})
    ended = run(
        fake_nvml,
        """
        import json, os, sys, anyio
        from jupyter_gpufit.devices.here import read_devices_async
        from jupyter_gpufit.settings import Settings

        async def main():
            with anyio.move_on_after(0.05) as scope:
                await read_devices_async(Settings())
            sys.stdout.write(json.dumps(scope.cancelled_caught))
            sys.stdout.flush()
            os._exit(0)  # the thread is still with the driver

        anyio.run(main)
        """,
    )

    assert ended is True


@pytest.mark.slow
def test_loads_nothing_heavy_until_a_gpu_is_read(fake_nvml: FakeNvml) -> None:
    loaded = run(
        fake_nvml,
        """
        import json, sys
        from jupyter_gpufit.devices.here import read_devices
        from jupyter_gpufit.settings import Settings

        read_devices(Settings(devices="cpu:2x4GiB"))
        import jupyter_gpufit.devices.nvml
        print(json.dumps([name for name in ("torch", "pynvml", "psutil", "anyio", "IPython") if name in sys.modules]))
        """,
    )

    assert loaded == []
    assert fake_nvml.calls() == []


def test_where_there_is_no_gpu_and_nothing_is_chosen_there_is_a_slot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def none() -> None:
        raise NoDevice("the driver is not installed.")

    monkeypatch.setattr("jupyter_gpufit.devices.nvml.read_gpus", none)
    monkeypatch.setattr(devices_module, "has_nvidia_gpu", lambda: False)
    (slot,) = read_devices(Settings())

    assert (slot.kind, slot.label) == ("slot", "cpu:0") and 0 < slot.total <= default_slot_size()
    with pytest.raises(NoDevice):  # by that word, no slot comes instead
        read_devices(Settings(devices="gpu"))
    monkeypatch.setattr(devices_module, "has_nvidia_gpu", lambda: True)
    with pytest.raises(NoDevice, match="the driver is not installed"):  # a driver that is broken must be heard of
        read_devices(Settings())


def test_a_gpu_is_told_from_what_else_is_on_the_bus(tmp_path: Path) -> None:
    for number, (vendor, sort) in enumerate([("0x8086", "0x030000"), ("0x10de", "0x020000")]):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}/vendor").write_text(f"{vendor}\n")
        (tmp_path / f"{number}/class").write_text(f"{sort}\n")
    assert not has_nvidia_gpu(tmp_path)
    (tmp_path / "1/class").write_text("0x030200\n")
    assert has_nvidia_gpu(tmp_path) and not has_nvidia_gpu(tmp_path / "none")

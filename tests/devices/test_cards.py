from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpufit.devices.cards import (
    CARDS,
    CONTEXT,
    cards_file,
    context_of,
    doubt_about,
    find_card,
    remember_context,
    sheet_of,
)
from jupyter_gpufit.devices.device import Device
from jupyter_gpufit.errors import NoSuchCard
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.units import GiB, MiB


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"),
        ("nvidia a100-sxm4-40gb", "NVIDIA A100-SXM4-40GB"),
        ("A100 SXM4 80GB", "NVIDIA A100-SXM4-80GB"),
        ("H200", "NVIDIA H200"),
        ("rtx 4090", "NVIDIA GeForce RTX 4090"),
        ("T4", "Tesla T4"),
        ("L40", "NVIDIA L40"),
    ],
)
def test_finds_a_card_by_its_name_or_by_words_of_it(wanted: str, name: str) -> None:
    assert find_card(wanted).card.name == name


def test_names_the_cards_that_could_be_meant() -> None:
    with pytest.raises(NoSuchCard, match="A100-SXM4-40GB, NVIDIA A100-SXM4-80GB") as caught:
        find_card("A100")

    assert "H100" not in str(caught.value)


@pytest.mark.parametrize("wanted", ["", "Voodoo 2"])
def test_names_all_cards_when_none_is_meant(wanted: str) -> None:
    with pytest.raises(NoSuchCard, match="NVIDIA H200"):
        find_card(wanted)


def test_each_card_computes_faster_in_half_precision_and_has_memory() -> None:
    for sheet in CARDS.values():
        assert sheet.rates["float16"] > sheet.rates["float32"] > 1e12
        assert ("bfloat16" in sheet.rates) == (sheet.card.capability >= (8, 0))
        assert 8 * GiB < sheet.card.total < 256 * GiB


def test_what_was_not_held_against_a_data_sheet_is_said() -> None:
    assert doubt_about("NVIDIA A100-SXM4-40GB") == doubt_about("my own card") == ""
    assert "not held against its data sheet" in doubt_about("NVIDIA A30")
    assert sum(bool(sheet.source) for sheet in CARDS.values()) >= 18


def gpu(name: str, total: int = 40 * GiB) -> Device:
    return Device(uuid="GPU-1", label="0", name=name, index=0, kind="gpu", total=total, free=total, capability=(8, 9))


def test_takes_the_memory_of_the_device_that_is_here() -> None:
    assert sheet_of(gpu("NVIDIA L4", 22 * GiB)).card.total == 22 * GiB
    assert sheet_of(gpu("NVIDIA L4")).card.sms == 58


def test_gives_a_mig_instance_its_share_of_the_card() -> None:
    sheet = sheet_of(gpu("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 10 * GiB))

    assert sheet.card.capability == (9, 0)
    assert sheet.card.sms == 19
    assert sheet.rates["bfloat16"] == pytest.approx(989.4e12 / 7)


def test_uses_what_nvml_says_of_an_unknown_card() -> None:
    sheet = sheet_of(gpu("NVIDIA Z900"))

    assert (sheet.card.capability, sheet.card.total, dict(sheet.rates)) == ((8, 9), 40 * GiB, {})


def test_remembers_the_largest_context_that_was_measured(tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path / "data"))
    before = context_of(settings, "gpu", "NVIDIA L4")

    for found in (400 * MiB, 700 * MiB, 600 * MiB):
        remember_context(settings, "NVIDIA L4", found)

    assert before.bytes == CONTEXT < before.at_most
    after = context_of(settings, "gpu", "NVIDIA L4")
    assert after.bytes == after.at_most == 700 * MiB
    assert context_of(settings, "gpu", "NVIDIA A40").bytes == CONTEXT


@pytest.mark.parametrize(
    "text", ["", "{", '{"format": 99, "context": {}}', '{"format": 1}', '{"format": 1, "context": 3}']
)
def test_measures_anew_when_the_file_cannot_be_read(tmp_path: Path, text: str) -> None:
    settings = Settings(data=str(tmp_path))
    cards_file(settings).write_text(text)

    assert context_of(settings, "gpu", "NVIDIA L4").bytes == CONTEXT

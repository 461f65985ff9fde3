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


@pytest.mark.parametrize(
    ("wanted", "name", "mebibytes", "capability"),
    [
        ("rtx3060 12GB", "NVIDIA GeForce RTX 3060", 12288, (8, 6)),
        ("GeForce RTX 3060 Laptop GPU", "NVIDIA GeForce RTX 3060 Laptop GPU", 6144, (8, 6)),
        ("rtx 4060 mobile", "NVIDIA GeForce RTX 4060 Laptop GPU", 8188, (8, 9)),
        ("3080-12gb", "NVIDIA GeForce RTX 3080", 12288, (8, 6)),
        ("4070tisuper", "NVIDIA GeForce RTX 4070 Ti SUPER", 16376, (8, 9)),
        ("gtx1080ti", "NVIDIA GeForce GTX 1080 Ti", 11264, (6, 1)),
        ("titan xp", "NVIDIA TITAN Xp", 12288, (6, 1)),
        ("quadro rtx 6000", "Quadro RTX 6000", 24576, (7, 5)),
        ("6000 Ada", "NVIDIA RTX 6000 Ada Generation", 49140, (8, 9)),
        ("V100 32GB", "Tesla V100-SXM2-32GB", 32510, (7, 0)),
        ("12GiB", "a card of 12.0 GiB", 12288, (8, 6)),
        ("12 GB sm_75", "a card of 12.0 GiB", 12288, (7, 5)),
        ("16g, 12.0", "a card of 16.0 GiB", 16384, (12, 0)),
    ],
)
def test_finds_the_cards_of_desks_and_any_card_by_its_size(
    wanted: str, name: str, mebibytes: int, capability: tuple[int, int]
) -> None:
    card = find_card(wanted).card

    assert (card.name, card.total, card.capability) == (name, mebibytes * MiB, capability)


def test_takes_the_smaller_of_two_sizes_and_says_so() -> None:
    sheet = find_card("3060")

    assert sheet.card.total == 8 * GiB
    assert "sold with 12.0 GiB, too; the smaller was taken" in sheet.remark
    assert find_card(sheet.remark.split('"')[1]).card.total == 12 * GiB
    assert not find_card("3060 8GB").remark


def test_says_the_capability_that_it_assumed() -> None:
    assert "compute capability 8.6 is assumed" in find_card("12GiB").remark
    assert not find_card("12GiB 7.5").remark


def test_a_size_that_a_card_never_had_is_not_passed_over() -> None:
    with pytest.raises(NoSuchCard, match="3060 Ti"):
        find_card("3060 Ti 12GB")


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

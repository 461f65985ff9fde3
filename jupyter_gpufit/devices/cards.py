"""The cards we know: memory, kernels' conditions and peak rates, as data; and what was measured on those we met.

A figure that depends on the driver and on torch (the context) is only a published value here; the first run on a real
device replaces it by a measured one, which is remembered in cards.json in the data directory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import NoSuchCard
from ..settings import Settings
from ..system.directories import data_dir
from ..system.files import write_whole
from ..system.foreign import parsed_record
from ..units import GiB, MiB, format_bytes
from .card import Card
from .card_table import LISTED
from .device import Device

FORMAT = 1  # of cards.json
DEFAULT = "NVIDIA A100-SXM4-40GB"  # when there is no device here and none was named
SLOT_CAPABILITY = (7, 0)  # what a CPU slot answers

# Bytes of a process on the card beside torch's allocator: the CUDA context and the kernels loaded so far. Since CUDA
# 11.7 kernels are loaded when first used: "around 400 MB" (pytorch#109888, #107667), 426 MiB on an RTX 6000 Ada for the
# bare context (torch 2.10, CUDA 13.0; unsloth-zoo#1053). cuBLAS and cuDNN come on top as they are used. Before 11.7 it
# was 1343 MiB on a V100 (transformers, "Model training anatomy"). No source tells one architecture from another.
CONTEXT = 512 * MiB
CONTEXT_AT_MOST = 1024 * MiB  # what remains possible until it was measured here

# What a CPU slot's process grows by beside the cell's tensors: torch's optimizer imports its compiler, and oneDNN and
# the threads' arenas take their share. Measured: 78 and 97 MiB in two trainings with AdamW (torch 2.13).
SLOT_CONTEXT = 128 * MiB


@dataclass(frozen=True)
class Sheet:
    """A card's data sheet."""

    card: Card
    rates: Mapping[str, float]  # FLOP/s at most, dense, by what the arithmetic is done in
    source: str = ""  # of the rates; empty: they were not held against the data sheet
    remark: str = ""  # what of it was chosen for the reader, who did not say


@dataclass(frozen=True)
class Context:
    """Bytes of a process on a card beside torch's allocator."""

    bytes: int
    at_most: int
    source: str  # where the figure comes from, for the reader


def _sheet(
    name: str,
    mebibytes: int,
    capability: tuple[int, int],
    sms: int,
    fp32: float,
    half: float,
    tf32: float = 0,
    *,
    source: str = "",
) -> Sheet:
    rates = {"float32": fp32 * 1e12, "float16": half * 1e12}
    if capability >= (8, 0):
        rates |= {"tf32": tf32 * 1e12, "bfloat16": half * 1e12}
    return Sheet(Card(name, mebibytes * MiB, capability, sms), rates, source)


# Names and MiB as nvidia-smi prints them ("0MiB / 23028MiB"), each found in published output of the card; not found:
# A30, L40, Quadro RTX 8000. Compute capabilities: NVIDIA's list, developer.nvidia.com/cuda-gpus. TFLOP/s: dense, half
# precision with float32 accumulation. Where data sheets give a rate with sparsity, or with half-precision
# accumulation on a GeForce, it is halved.
_VOLTA = "V100 data sheet (us-1165301-r5), as cited in Lightning Fabric's throughput.py"
_AMPERE = "A100 data sheet (us-nvidia-1758950-r4), as cited in Lightning Fabric's throughput.py"
_HOPPER = "NVIDIA Tensor Core GPU data sheet, as cited in Lightning Fabric's throughput.py"
_LISTED = "table of data sheet figures, github.com/winston-zhang-orz/gpu-specs"
#        name                                  MiB      capability SMs  fp32   half    tf32
_SHEETS = (
    _sheet("Tesla V100-SXM2-16GB", 16160, (7, 0), 80, 15.7, 125.0, source=_VOLTA),
    _sheet("Tesla V100-SXM2-32GB", 32510, (7, 0), 80, 15.7, 125.0, source=_VOLTA),
    _sheet("Tesla V100-PCIE-16GB", 16160, (7, 0), 80, 14.0, 112.0, source=_VOLTA),
    _sheet("Tesla V100-PCIE-32GB", 32510, (7, 0), 80, 14.0, 112.0, source=_VOLTA),
    _sheet("Tesla T4", 15360, (7, 5), 40, 8.1, 65.0, source="T4 data sheet (951643), as cited in Lightning Fabric"),
    _sheet("NVIDIA GeForce RTX 2080 Ti", 11264, (7, 5), 68, 13.4, 53.8),
    _sheet("Quadro RTX 8000", 49152, (7, 5), 72, 16.3, 130.5),
    _sheet("NVIDIA A100-SXM4-40GB", 40960, (8, 0), 108, 19.5, 312.0, 156.0, source=_AMPERE),
    _sheet("NVIDIA A100-SXM4-80GB", 81920, (8, 0), 108, 19.5, 312.0, 156.0, source=_AMPERE),
    _sheet("NVIDIA A100-PCIE-40GB", 40960, (8, 0), 108, 19.5, 312.0, 156.0, source=_AMPERE),
    _sheet("NVIDIA A100 80GB PCIe", 81920, (8, 0), 108, 19.5, 312.0, 156.0, source=_AMPERE),
    _sheet("NVIDIA A30", 24576, (8, 0), 56, 10.3, 165.0, 82.0),
    _sheet("NVIDIA A10", 23028, (8, 6), 72, 31.2, 125.0, 62.5, source=_LISTED),
    _sheet(
        "NVIDIA A40", 46068, (8, 6), 84, 37.4, 149.7, 74.8, source="A40 data sheet, as a dealer prints it (ecer.com)"
    ),
    _sheet("NVIDIA RTX A5000", 24564, (8, 6), 64, 27.8, 111.1, 55.6),
    _sheet("NVIDIA RTX A6000", 49140, (8, 6), 84, 38.7, 154.8, 77.4),
    _sheet("NVIDIA GeForce RTX 3080", 10240, (8, 6), 68, 29.8, 59.5, 29.8),
    _sheet("NVIDIA GeForce RTX 3090", 24576, (8, 6), 82, 35.6, 71.0, 35.6),
    _sheet("NVIDIA L4", 23034, (8, 9), 58, 30.3, 121.0, 60.0, source=_LISTED),
    _sheet("NVIDIA L40", 46068, (8, 9), 142, 90.5, 181.0, 90.5),
    _sheet("NVIDIA L40S", 46068, (8, 9), 142, 91.6, 362.0, 183.0, source=_LISTED),
    _sheet("NVIDIA RTX 6000 Ada Generation", 49140, (8, 9), 142, 91.1, 364.2, 182.1),
    _sheet(
        "NVIDIA GeForce RTX 4090", 24564, (8, 9), 128, 82.6, 165.2, 82.6, source="waredb.com, from clocks and cores"
    ),
    _sheet("NVIDIA H100 80GB HBM3", 81559, (9, 0), 132, 67.0, 989.4, 494.7, source=_HOPPER),
    _sheet("NVIDIA H100 PCIe", 81559, (9, 0), 114, 51.0, 756.0, 378.0, source=_HOPPER),
    _sheet("NVIDIA H100 NVL", 95830, (9, 0), 132, 60.0, 835.0, 417.5),
    _sheet(
        "NVIDIA H200", 143771, (9, 0), 132, 67.0, 989.4, 494.7, source="itkb.uw.cz, dense figures of the SXM variant"
    ),
    _sheet("NVIDIA GH200 480GB", 97871, (9, 0), 132, 67.0, 989.4, 494.7),
    _sheet("NVIDIA GeForce RTX 5090", 32607, (12, 0), 170, 104.8, 209.5, 104.8),
    _sheet("NVIDIA B200", 183359, (10, 0), 148, 75.0, 2250.0, 1125.0, source="HGX B200 table, zdszero.github.io"),
)
CARDS: Mapping[str, Sheet] = {sheet.card.name: sheet for sheet in _SHEETS}


# And those without rates; in several sizes where a name has them.
_SIZED = tuple(
    Sheet(Card(listed.name, mebibytes * MiB, listed.capability, listed.sms), {})
    for listed in LISTED
    for mebibytes in listed.mebibytes
)
_ALL = (*(sheet for sheet in _SHEETS if sheet.card.name not in {listed.name for listed in LISTED}), *_SIZED)

_NOISE = frozenset("nvidia geforce tesla quadro graphics gpu card generation edition vram with of memory ram".split())
_MOBILE = frozenset({"laptop", "maxq"})
_PLUGS = frozenset("sxm sxm2 sxm4 sxm5 pcie nvl hbm3".split())
_TYPICAL = (8, 6)  # the capability of a card of which only the size is known: most desks' RTX 30
_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*(gib|gb|g|mib|mb)\b")
_CAPABILITY = re.compile(r"(?:\bsm_?(?=\d\d)|(?<![\w.])(?=\d+\.))(\d{1,2}?)\.?(\d)(?![\w.])")  # sm_86, 8.6


def find_card(wanted: str) -> Sheet:
    """The card of this name or nearest to these words, or one of a size ("12GiB", "12 GiB 7.5"); raise NoSuchCard."""
    text = wanted.strip().lower()
    if exact := [sheet for sheet in _ALL if sheet.card.name.lower() == text]:
        return _of_size(exact, None)
    if (bare := _bare(text)) is not None:
        return bare
    size = _size_in(text)
    near = _nearest(text) or _nearest(_SIZE.sub(" ", text))
    if len({sheet.card.name for sheet in near}) > 1 and size is not None:
        near = [sheet for sheet in near if _about(sheet.card.total, size)] or near
    fits = size is None or any(_about(sheet.card.total, size) for sheet in near)
    # Cards that differ in their plug alone take the same memory.
    alike = len({(sheet.card.total, sheet.card.capability) for sheet in near}) == 1
    in_sizes = len({_words(sheet.card.name) - _sizes(sheet.card.name) for sheet in near}) == 1
    if not near or not fits or not (alike or in_sizes):
        raise NoSuchCard(wanted, tuple(dict.fromkeys(sheet.card.name for sheet in near)) or tuple(CARDS))
    return near[0] if alike else _of_size(near, size)


def _nearest(text: str) -> list[Sheet]:
    """Those whose names have all the words, and the fewest besides."""
    words = _words(text)
    meant = [sheet for sheet in _ALL if _means(words, sheet.card.name)]
    # By their plugs and sizes (A100-SXM4-40GB, A100-PCIE-40GB) none is nearer than another.
    besides = [len(_words(sheet.card.name) - words - _PLUGS - _sizes(sheet.card.name)) for sheet in meant]
    return [sheet for sheet, count in zip(meant, besides, strict=True) if count == min(besides)]


def _means(words: frozenset[str], name: str) -> bool:
    named = _words(name)
    return bool(words) and words <= named and bool(words & _MOBILE) == bool(named & _MOBILE)


def _of_size(sheets: Sequence[Sheet], size: int | None) -> Sheet:
    """The one of this size; where none is given the smallest, and a remark that there are others."""
    fitting = [sheet for sheet in sheets if size is not None and _about(sheet.card.total, size)]
    smallest = min(fitting or sheets, key=lambda sheet: sheet.card.total)
    others = sorted({sheet.card.total for sheet in sheets} - {smallest.card.total})
    if size is not None or not others:
        return smallest
    said = " and ".join(format_bytes(total) for total in others)
    name = smallest.card.name
    remark = f'The {name} is sold with {said}, too; the smaller was taken. --on "{name} {round(others[-1] / GiB)}GB"'
    return replace(smallest, remark=f"{remark} means the other.")


def _bare(text: str) -> Sheet | None:
    """A card of which the size is said, and perhaps the capability."""
    size = _size_in(text)
    rest = _SIZE.sub(" ", text)
    said = _CAPABILITY.search(rest)
    rest = _CAPABILITY.sub(" ", rest)
    if size is None or _words(re.sub(r"[^a-z0-9]+", " ", rest)) - {"a", "sm", "cc", "compute", "capability", "any"}:
        return None
    major, minor = (int(said[1]), int(said[2])) if said else _TYPICAL
    name = f"a card of {format_bytes(size)}"
    typical = f'The compute capability {major}.{minor} is assumed; --on "{round(size / GiB)}GiB 7.5" names another.'
    return Sheet(Card(name, size, (major, minor), 1), {}, remark="" if said else typical)


def _size_in(text: str) -> int | None:
    found = _SIZE.search(text)
    if found is None:
        return None
    return int(float(found[1]) * (MiB if found[2].startswith("m") else GiB))  # a seller's 12 GB are 12 GiB


def _sizes(name: str) -> frozenset[str]:
    return frozenset(word for word in _words(name) if re.fullmatch(r"\d+gb", word))


def _about(total: int, size: int) -> bool:
    return abs(total - size) <= 0.07 * size


def _words(name: str) -> frozenset[str]:
    """In small letters; "rtx3060ti" is three."""
    text = re.sub(r"max-?q", "maxq", re.sub(r"\b(mobile|notebook)\b", "laptop", name.lower()))
    text = re.sub(r"(rtx|gtx|titan)(?=[\da-z])(?!\b)", r"\1 ", text)
    text = re.sub(r"(?<=\d{4})(ti|super)", r" \1 ", text)
    text = re.sub(r"\b(ti)(super)\b", r"\1 \2", text)
    return frozenset(re.split(r"[^a-z0-9]+", text)) - _NOISE - {""}


def doubt_about(name: str) -> str:
    """What a reader must know of the figures of a card in the table; mostly nothing."""
    sheet = CARDS.get(name)
    if sheet is None or sheet.source:
        return ""
    return f"the peak rates of the {name} were not held against its data sheet"


def sheet_of(device: Device) -> Sheet:
    """What is known of a device that is here; of an unknown card, what NVML says of it."""
    whole = device.name.partition(" MIG ")[0]
    try:
        known = find_card(whole)
    except NoSuchCard:
        capability = device.capability or SLOT_CAPABILITY
        return Sheet(Card(device.name, device.total, capability, 1, is_cpu=device.kind == "slot"), {})
    share = _share_of_mig(device.name)
    card = replace(known.card, name=device.name, total=device.total, sms=max(1, round(known.card.sms * share)))
    return Sheet(card, {kind: rate * share for kind, rate in known.rates.items()}, known.source)


def _share_of_mig(name: str) -> float:
    """Of a MIG instance "1g.10gb", one seventh of the card computes."""
    slices = re.search(r"MIG (\d)g\.", name)
    return int(slices[1]) / 7 if slices else 1.0


# What was measured -------------------------------------------------------------------------------------------------


def context_of(settings: Settings, device_kind: str, name: str) -> Context:
    """The bytes to add for this card's context."""
    if device_kind == "slot":
        return Context(SLOT_CONTEXT, SLOT_CONTEXT, "imports and threads of a process on a slot, as measured")
    if measured := _remembered(cards_file(settings)).get(name):
        return Context(measured, measured, "as measured on this card")
    return Context(CONTEXT, CONTEXT_AT_MOST, "published values; not yet measured on this card")


def remember_context(settings: Settings, name: str, found: int) -> None:
    """Keep a measured context; the largest seen holds, since kernels are loaded as cells use them."""
    path = cards_file(settings)
    known = _remembered(path)
    if found > known.get(name, 0):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, json.dumps({"format": FORMAT, "context": {**known, name: found}}, indent=1))


def cards_file(settings: Settings) -> Path:
    return data_dir(settings) / "cards.json"


def _remembered(path: Path) -> Mapping[str, int]:
    """What stands in the file; nothing when it is missing, damaged or of a later version: then it is measured anew."""
    try:
        record = parsed_record(path.read_text())
        if record["format"] > FORMAT:
            return {}
        return {str(name): int(found) for name, found in record["context"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}

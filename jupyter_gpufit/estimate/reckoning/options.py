"""The options of torch's caching allocator, as PYTORCH_ALLOC_CONF (or PYTORCH_CUDA_ALLOC_CONF) writes them; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...errors import BadSetting
from ...units import MiB

BLOCK = 512  # bytes; every block is a multiple
SMALL_SEGMENT = 2 * MiB
LARGE_SEGMENT = 20 * MiB
NO_LIMIT = 1 << 63
INTERVALS = 16  # of sizes for roundup_power2_divisions: 1 MiB, 2 MiB, ... 32 GiB and all above
VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")  # the first wins; the second is the old name

# What has no effect on how much memory is reserved.
WITHOUT_EFFECT = frozenset(
    "release_lock_on_cudamalloc release_lock_on_hipmalloc pinned_use_cuda_host_register pinned_use_hip_host_register"
    " pinned_num_register_threads pinned_use_background_threads pinned_reserve_segment_size_mb"
    " graph_capture_record_stream_reuse".split()
)


@dataclass(frozen=True)
class AllocatorOptions:
    """What of them changes how much memory is reserved."""

    max_split_size: int = NO_LIMIT  # bytes; larger blocks are not split
    max_non_split_rounding: int = LARGE_SEGMENT  # bytes by which such a block may be too large
    roundup_divisions: tuple[int, ...] = (0,) * INTERVALS  # between two powers of two; 0: round to 512 bytes
    garbage_collection_threshold: float = 0.0  # of the capacity; 0: never
    expandable_segments: bool = False
    unknown: tuple[str, ...] = ()  # options that this model has never heard of

    def round(self, size: int) -> int:
        """The bytes of a block for a request."""
        if size < BLOCK:
            return BLOCK
        divisions = self.roundup_divisions[min(max(size.bit_length() - 21, 0), INTERVALS - 1)]
        if divisions > 1 and size > BLOCK * divisions:
            return _to_division(size, divisions)
        return (size + BLOCK - 1) // BLOCK * BLOCK


DEFAULT = AllocatorOptions()


def _to_division(size: int, divisions: int) -> int:
    """Up to the next of so many equal steps between two powers of two."""
    floor = 1 << (size.bit_length() - 1)
    step = floor // divisions
    return -(-size // step) * step if step else floor * 2


def options_of(env: Mapping[str, str]) -> AllocatorOptions:
    """The options that hold in this environment."""
    for variable in VARIABLES:
        if text := env.get(variable):
            return parse_options(text, variable)
    return DEFAULT


def parse_options(text: str, source: str = VARIABLES[0]) -> AllocatorOptions:
    """Read "max_split_size_mb:128,expandable_segments:True"; raise BadSetting for what torch would refuse."""
    options = DEFAULT
    for name, value in _pairs(text.replace(" ", ""), source):
        try:
            options = _with(options, name, value)
        except ValueError as error:
            raise BadSetting(name, source, f"{value!r} {error}.") from error
    return options


def _pairs(text: str, source: str) -> list[tuple[str, str]]:
    """Cut at the commas that stand in no brackets."""
    parts = [part for part in re.split(r",(?![^\[]*\])", text) if part]
    for part in parts:
        if ":" not in part:
            raise BadSetting(part, source, "a colon and a value are missing.")
    return [(part.partition(":")[0], part.partition(":")[2]) for part in parts]


def _with(options: AllocatorOptions, name: str, value: str) -> AllocatorOptions:
    match name:
        case "max_split_size_mb":
            return replace(options, max_split_size=_megabytes(value))
        case "max_non_split_rounding_mb":
            return replace(options, max_non_split_rounding=_megabytes(value))
        case "roundup_power2_divisions":
            return replace(options, roundup_divisions=_divisions(value))
        case "garbage_collection_threshold":
            return replace(options, garbage_collection_threshold=_share(value))
        case "expandable_segments":
            return replace(options, expandable_segments=_true_or_false(value))
        case "backend" if value == "native":
            return options
        case _ if name in WITHOUT_EFFECT:
            return options
    return replace(options, unknown=(*options.unknown, f"{name}:{value}"))


def _megabytes(value: str) -> int:
    if not value.isdigit() or int(value) * MiB < LARGE_SEGMENT:
        raise ValueError(f"is not a number of MiB from {LARGE_SEGMENT // MiB}")
    return min(int(value) * MiB, NO_LIMIT)


def _share(value: str) -> float:
    try:
        share = float(value)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise ValueError("is not a number between 0 and 1")
    return share


def _true_or_false(value: str) -> bool:
    if value not in ("True", "False"):
        raise ValueError("is neither True nor False")
    return value == "True"


def _divisions(value: str) -> tuple[int, ...]:
    """One number for all sizes, or [256:1,512:2,>:8]: each from its size in MiB up to the next."""
    if not value.startswith("["):
        return (_power_of_two(value),) * INTERVALS
    found = [0] * INTERVALS
    last = first = -1
    for pair in value.strip("[]").split(","):
        bound, _, count = pair.partition(":")
        divisions = _power_of_two(count)
        if bound == ">":
            start = max(last, 0)
            found[start:] = [divisions] * (INTERVALS - start)
            continue
        last = min(_power_of_two(bound).bit_length() - 1, INTERVALS - 1)
        if first < 0:  # the first also holds for everything below
            first, found[:last] = last, [divisions] * last
        found[last] = divisions
    return tuple(found)


def _power_of_two(text: str) -> int:
    if not text.isdigit() or int(text).bit_count() > 1:
        raise ValueError("has a number that is no power of two")
    return int(text)

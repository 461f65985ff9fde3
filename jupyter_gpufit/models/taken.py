"""What is known of a model that was taken; the job keeps it as JSON beside the model's files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..system.foreign import known, parsed_record
from .signature import Signature

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class TakenModel:
    """One model."""

    signature: Signature
    opset: int  # of ONNX's own operators
    producer: str
    files: tuple[str, ...]  # beside it, with its weights: paths from its directory
    file: int  # bytes of the model itself
    weights: int  # bytes, wherever they are
    rows: int  # that are run at once, at most; for which the next two hold
    activations: int | None  # bytes alive at once; None: `open` dimensions may be of any size
    unknown: tuple[str, ...] = ()  # operators whose results' sizes cannot be foreseen
    open: tuple[str, ...] = ()  # dimensions whose size nobody said

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> TakenModel:
        found = known(cls, record)
        found["signature"] = Signature.from_record(found["signature"])
        return cls(**found | {key: tuple(found[key]) for key in ("files", "unknown", "open")})


def models_to_json(models: Mapping[str, TakenModel]) -> str:
    """Those of one job, by their names."""
    return json.dumps({"format": FORMAT, "models": {name: asdict(one) for name, one in models.items()}}, indent=1)


def models_from_json(text: str) -> dict[str, TakenModel]:
    record = parsed_record(text)
    if record["format"] > FORMAT:
        raise ValueError(f"it has format {record['format']}")
    return {name: TakenModel.from_record(one) for name, one in record["models"].items()}

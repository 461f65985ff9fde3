"""A module of a notebook with the weights of a .safetensors file; the module itself stays what it is."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from ..errors import BadOption, ExportFailed

NAMED = 3  # tensors, at most, of those that do not fit


def weighted(module: object, path: Path, name: str) -> Any:
    """A copy of the module, with these weights; raises ExportFailed where not each of them finds its place."""
    from safetensors import SafetensorError
    from safetensors.torch import load_model

    if not hasattr(module, "load_state_dict"):
        raise ExportFailed(name, f"it is a {type(module).__name__}, not a torch.nn.Module.")
    if not path.is_file():
        raise BadOption(f"There is no file {str(path)!r} with weights.")
    copied: Any = copy.deepcopy(module)
    try:
        missing, unexpected = load_model(copied, path, strict=False)  # it knows of weights that are tied
    except SafetensorError as error:
        raise ExportFailed(name, f"{path.name} is not a .safetensors file, or damaged: {error}.") from error
    except RuntimeError as error:  # of load_state_dict: shapes
        why = str(error).strip().splitlines()[-1].strip().rstrip(".")
        raise ExportFailed(name, f"the weights of {path.name} are not its own: {why}.") from error
    for tensors, what in ((missing, f"has no weights for {{}} in {path.name}"), (unexpected, "has no place for {}")):
        if tensors:
            some, more = sorted(tensors)[:NAMED], len(tensors) - NAMED
            words = ", ".join(some) + (f" and {more} more" if more > 0 else "")
            raise ExportFailed(name, f"it {what.format(words)}. It must be made as it was when they were saved.")
    return copied

"""Whether an error is one of too little memory on the device, in whatever it is wrapped."""

from __future__ import annotations

import sys

NAME = "OutOfMemoryError"
_INTERPRETER = "TorchScript interpreter"  # says of all errors that they are a RuntimeError, with their text below
_SAID = (NAME, "out of memory")


def ran_out(error: BaseException | None) -> bool:
    """Also one that was raised from such an error, as a trainer does; not one that came up while that was handled."""
    torch = sys.modules.get("torch")
    seen: set[int] = set()
    while torch is not None and error is not None and id(error) not in seen:
        if isinstance(error, torch.OutOfMemoryError) or _is_interpreters(error):
            return True
        seen.add(id(error))
        error = error.__cause__
    return False


def words_of(error: BaseException) -> str:
    """Its kind and its first line; what ran out of memory begins so, whatever it is."""
    name, text = type(error).__name__, str(error).strip().splitlines()
    kind = f"{NAME} ({name})" if name != NAME and ran_out(error) else name
    return f"{kind}: {text[0]}" if text else kind


def _is_interpreters(error: BaseException) -> bool:
    text = str(error) if isinstance(error, RuntimeError) else ""
    return _INTERPRETER in text and any(one in text for one in _SAID)

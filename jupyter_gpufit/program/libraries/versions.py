"""What has been proven of libraries' functions: killed in their midst, each went on to the bit, in a version named.

This is a record and no gate: any function whose text is at hand can be left, and the record says how far that is known.
`proven.json` has it, by module, function and digest; `make known` adds to it. A digest is of a function's tree without
docstrings and comments, or, in entries of old, of its text; so one entry holds for all versions that share it. Named
are those in which it was found, as a rule the first and the last.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

RECORD = Path(__file__).with_name("proven.json")
Known: TypeAlias = dict[str, str]  # digest: versions that have it
Grade: TypeAlias = Literal["tested", "same code as tested", "by construction"]
GRADES: tuple[Grade, ...] = ("tested", "same code as tested", "by construction")

# Generators that are made deep inside other code, in almost every training loop.
IN_PLACE = {
    "torch.utils.data.sampler": (
        "RandomSampler.__iter__",
        "SubsetRandomSampler.__iter__",
        "WeightedRandomSampler.__iter__",
        "BatchSampler.__iter__",
    ),
    "tqdm.std": ("tqdm.__iter__",),
    "accelerate.data_loader": ("DataLoaderShard.__iter__", "SeedableRandomSampler.__iter__"),
}


@functools.cache
def record() -> dict[str, dict[str, Known]]:
    found: dict[str, dict[str, Known]] = json.loads(RECORD.read_text())
    return found


def digests_of(text: str) -> tuple[str, str]:
    """Of a function's text, as deep as it stands in its file: without docstrings and comments, and to the letter."""
    tree = ast.parse(f"if True:\n{text}" if text[:1].isspace() else text)
    for one in ast.walk(tree):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if ast.get_docstring(one, clean=False) is not None:
                one.body = one.body[1:] or [ast.Pass()]
    node = next(one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    return _digest(ast.dump(node)), _digest(text)


def grade_of(module: str, qualname: str, digests: Iterable[str], version: str) -> Grade:
    known = record().get(module, {}).get(qualname, {})
    found = [known[one] for one in digests if one in known]
    if not found:
        return "by construction"
    return "tested" if any(is_named(version, one) for one in found) else "same code as tested"


def weakest(grades: Iterable[Grade]) -> Grade:
    return max(grades, key=GRADES.index)


def is_named(version: str, versions: str) -> bool:
    """Whether "2.4.0, 2.5.1 to 2.6.6" names it."""
    for one in versions.split(", "):
        first, _, last = one.rpartition(" to ")
        first, last = (each.rpartition(" ")[2] for each in (first or last, last))  # some name the package, too
        if _key(first) <= _key(version) <= _key(last):
            return True
    return False


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(one) for one in re.findall(r"\d+", version)[:3])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]

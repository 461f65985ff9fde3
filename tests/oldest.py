"""The oldest versions that pyproject.toml admits, as constraints for pip: `make test OLDEST=yes LIBRARIES=no`.

Of what the product needs and of what people's notebooks have, and not of the tools that test it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("demo", "hub", "onnx", "dev")
TOOLS = re.compile(
    "hatch|hypothesis|jupyter.builder|jupyter_gpufit|mypy|nvitop|playwright|pytest|ruff|schemathesis|triton|types|.*-stubs"
)


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in EXTRAS for one in project["optional-dependencies"][extra])]
    # matplotlib 3.8 calls what pyparsing 3.3 warns of, and a warning is an error in tests.
    lines = ["pyparsing<3.3"]
    lines += sorted({oldest(one) for one in wanted if not TOOLS.match(one)})
    Path(sys.argv[1]).write_text("\n".join([(ROOT / "constraints.txt").read_text(), *lines, ""]))


def oldest(requirement: str) -> str:
    """`name==1.2.*` of `name>=1.2`, with all its mends; the name alone where it has no bound."""
    name, _, bound = requirement.partition(";")[0].partition(">=")
    if not bound:
        return ""
    parts = bound.partition(",")[0].strip().split(".")
    return f"{name.partition('[')[0].strip()}=={'.'.join([*parts, '0'][:2])}.*"


if __name__ == "__main__":
    main()

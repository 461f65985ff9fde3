"""A job: one cell's run, the states it goes through, and where its files lie."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field
from typing import Literal

from ..system.foreign import known, parsed_record

FORMAT = 1  # of job.json and state.json; readers ignore unknown keys and refuse a higher format


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user asked of the run, beside the cell itself."""

    gpu: str = ""  # an index, UUID or slot name; empty: wherever it fits
    memory: int | None = None  # bytes to claim; None: the whole device
    exclusive: bool = False
    gpus: tuple[int, int] = (1, 1)  # how many devices, at least and at most
    fit: str = ""  # one of settings.FITS; empty: as the settings say


JobKind = Literal["training", "model"]


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """What a job runs that is no cell: a model or several, whose files lie in the job's own directory."""

    files: dict[str, str]  # of each model, by its name; of several, the folder with its shell and weights
    origin: str  # what the user named: a path, a module's name
    rows: int  # that are run at once, at most
    waiting: int  # calls that are kept waiting, at most
    key: str  # of its bytes: what one run of it took, the next one takes
    sizes: dict[str, int] = field(default_factory=dict)  # of dimensions, by their names
    deadline: float | None = None  # seconds that a call has; None: as long as it takes

    @property
    def several(self) -> bool:
        return len(self.files) > 1


@dataclass(frozen=True, kw_only=True)
class Job:
    """One cell's run, or a model that is deployed. Immutable; what changes is in the journal."""

    id: str
    name: str
    source: str  # the cell's text below the magic line, as the user wrote it
    magic_line: str = ""  # the cell's first line
    options: Options = field(default_factory=Options)
    created: float  # seconds since 1970
    cwd: str
    notebook: str = ""
    kernel_id: str = ""
    cell: str = ""  # its id in the notebook, where the front end told it, and it shows the output
    version: str = ""  # of jupyter_gpufit in the kernel
    versions: dict[str, str] = field(default_factory=dict)  # of Python and torch there
    model: Deployed | None = None  # else it is a cell's

    @property
    def kind(self) -> JobKind:
        return "training" if self.model is None else "model"

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Job:
        record = parsed_record(text)
        assert record["format"] <= FORMAT, f"job.json has format {record['format']}"
        options = known(Options, record["options"])
        if "gpus" in options:
            options["gpus"] = tuple(options["gpus"])
        found = known(cls, record) | {"options": Options(**options)}
        if found.get("model") is not None:
            found["model"] = Deployed(**known(Deployed, found["model"]))
        return cls(**found)


def new_job_id() -> str:
    """Six letters and digits: short enough to type, and a clash among one user's jobs is unlikely (and refused)."""
    return "".join(secrets.choice("abcdefghjkmnpqrstuvwxyz23456789") for _ in range(6))

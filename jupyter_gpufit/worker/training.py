"""One job's training, as all that keep it, move it and wake it read and write it: a value and no steps.

The machine performs the steps (machine.py); who saves, suspends, outgrows or answers takes this and not the machine.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..devices.cards import context_of
from ..devices.device import Device
from ..devices.here import read_devices_async
from ..estimate.asking.fit import Fit
from ..estimate.reckoning.pace import Pace
from ..fit.sharing import words_of
from ..graph import Arrival, GraphMemory, Reply
from ..graph import midway as carried
from ..jobs.events import Note
from ..jobs.handover import Handover
from ..jobs.paths import JobPaths
from ..lab import Granted, Request
from ..program import Program, hidden
from ..settings import Settings
from ..surroundings import midway, modes
from ..surroundings import travel as surroundings
from ..train import Finished
from ..units import device_words
from .lifecycle import Event, Life
from .on_device import Meter
from .output import Output
from .shell import WorkerShell
from .steps import StepCounter


@dataclass(kw_only=True)
class Training:
    """What is known of it, from the variables it was given to how it ended."""

    # What it is
    name: str  # of the job
    settings: Settings
    paths: JobPaths
    process_env: Mapping[str, str]  # with which this process's image was started
    output: Output
    shell: WorkerShell
    steps: StepCounter
    program: Program = field(init=False)

    # Where its life stands, and what has something happen to it; raises NotNow and LeavesAlready for what was asked
    life: Life
    take: Callable[[Event], None]

    # As what it goes on: another, where a suspended one is woken
    epoch: int
    handover: Handover

    # What it was given, and gives back
    memory: GraphMemory = field(init=False)  # the variables' tensor bytes
    arrival: Arrival | None = None
    modes: modes.Modes = field(default_factory=dict)  # as they arrived: what the cell changes goes back
    came: surroundings.Came = field(default_factory=lambda: surroundings.Came({}, {}))  # likewise
    reply: Reply | None = None

    # Where it is
    devices: Sequence[Device] = ()  # those it may run on, when last looked at
    request: Request | None = None  # by which its claim was asked for
    held: Granted | None = None  # where it runs, or ran last
    meter: Meter | None = None
    silent: bool = False  # its calls of CUDA wait: nobody may ask the meter

    # How far it is
    pace: Pace = field(default_factory=Pace)
    last: Mapping[str, float] = field(default_factory=dict)  # its loops' numbers, once the cell has ended
    left: float | None = None  # seconds, as its loops say; None: they do not
    saving_took: float = 0.0  # seconds, the last time
    whole: str = ""  # the model, of which each of several devices computes whole batches: then one does as well
    gives: bool = False  # devices above its least to who waits for them
    ended: Finished | None = None  # how the cell did; its variables are packed

    def __post_init__(self) -> None:
        self.memory = GraphMemory(self.handover.memory)
        self.program = Program(self.shell.user_ns)
        self.program.scratch = str(self.paths.root)
        self.program.on_note = self.note
        self.shell.program = self.program
        carried.remade = self.program.library.remade
        midway.begin(lambda: self.program)

    @property
    def namespace(self) -> dict[str, Any]:
        """The cell's variables, and what is not the cell's: see `is_ours`."""
        namespace: dict[str, Any] = self.shell.user_ns
        return namespace

    def is_ours(self, name: str) -> bool:
        shells = self.shell.user_ns_hidden
        # By identity: `from IPython import display` gives a name of the shell's another meaning.
        return hidden(name) or (name in shells and shells[name] is self.shell.user_ns.get(name, shells[name]))

    @property
    def fit(self) -> Fit:
        """Under which plan it runs."""
        return Fit.from_record(self.handover.fit) if self.handover.fit else Fit()

    def fit_on(self, devices: Sequence[Device]) -> Fit | None:
        """Another, where it goes on there, on one device; None: as it is now."""
        needed = self.request.needed if self.request is not None else None
        return None if self.handover.outgrew >= self.fit.plain else self.fit.on(devices, needed)

    @property
    def granted(self) -> Granted:
        """What it runs on, or ran on last; to be asked once it has begun to run."""
        assert self.held is not None
        return self.held

    def way(self, labels: str) -> str:
        """How it runs on these devices, in words; empty: as it is."""
        devices = labels.split(", ")
        how = f"data parallel with its {words_of(self.fit.split)}" if self.fit.split else "data parallel"
        several = f"{how} over {device_words(devices)}" if len(devices) > 1 else ""
        return ", ".join(filter(None, (several, self.fit.said)))

    def context(self) -> int:
        """Bytes of its device that the meter does not count."""
        device = self.granted.devices[0]
        # A slot's figure is of the whole process, a GPU's of torch's memory alone.
        return 0 if device.kind == "slot" else context_of(self.settings, device.kind, device.name).bytes

    async def look(self) -> Sequence[Device]:
        self.devices = await read_devices_async(self.settings)
        return self.devices

    def note(self, text: str, *, once: bool = False) -> None:
        """Say it in the notebook; `once` on each machine."""
        self.output.put(Note(text, once=once))

    def defect(self, error: Exception) -> None:
        """A mistake of ours that ends nothing: for the log."""
        traceback.print_exception(error, file=self.output.log)

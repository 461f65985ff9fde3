"""The life of a training on one page: what may happen to it in which phase, and what is done about it then; pure.

    begun - estimating - queued - starting - entering - running = saving     ending - done, failed, stopped
                           |                    |          |
                           |                 arriving      +- releasing - leaving - released, or resting - begun
                           |                    |          +- moving, changing - crossing
              outgrown, requeued                +-----------------------+  the next image of the process

`after` is asked before anything is done: the table below is what the worker does. Its end (`Over`) may come in every
phase. Not here: which wishes become one checkpoint (saving.py); and *lost*, which nobody says of himself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from ..jobs.events import StateChange, Why
from ..jobs.state import State
from ..train import Finished, Moved, Outcome, Outgrown, Released, Requeued

Phase = Literal[
    "begun",  # this process has the job
    "estimating",
    "queued",
    "starting",  # it holds a device
    "arriving",  # likewise: the next image of one that moved
    "entering",  # it opens the cell's variables there, or brings a suspended training back
    "running",
    "saving",  # from the wish until it is durable; it goes on
    "releasing",  # the same, to leave its device
    "moving",  # the same, to go on elsewhere: it holds two devices
    "changing",  # the same, by itself, to go on on more devices or fewer; a release and a turn come first
    "leaving",  # saved, and stands still
    "crossing",  # the same, and holds the device on which the next image goes on
    "outgrown",  # its cell ran out of memory, and is to begin again with more
    "requeued",  # its turn is over, or one of its ranks: it stands still, and is to wait for another
    "ending",  # its cell has ended, and the device is given back
    "resting",  # released, and suspended
    "released",
    "done",
    "failed",
    "stopped",
]
PHASES: tuple[Phase, ...] = get_args(Phase)
OVER: frozenset[Phase] = frozenset({"released", "done", "failed", "stopped"})
RUNS: frozenset[Phase] = frozenset({"running", "saving", "releasing", "moving", "changing"})  # it can be saved
DEVICES: Mapping[Phase, int] = {  # so many does it hold; in every other phase none
    **dict.fromkeys(("starting", "arriving", "entering", "running", "saving", "releasing", "leaving"), 1),
    **dict.fromkeys(("outgrown", "requeued", "ending"), 1),
    **dict.fromkeys(("moving", "changing", "crossing"), 2),
}
_TOLD: Mapping[Phase, State] = {  # as everybody reads it, where the phase is no state
    **{"begun": "starting", "arriving": "moving", "entering": "running", "releasing": "saving"},
    **{"changing": "saving", "leaving": "saving", "crossing": "moving", "requeued": "saving"},
    **{"outgrown": "running", "ending": "running"},
    "resting": "released",
}


def told(phase: Phase) -> State:
    """The job's state, which all fronts read."""
    return _TOLD.get(phase, phase)  # type: ignore[arg-type] # every other phase is a state


# What happens -------------------------------------------------------------------------------------------------------

Verb = Literal["checkpoint", "release", "move", "change", "turn", "interrupt", "resume", "dismiss"]


@dataclass(frozen=True)
class Reached:
    """A step of `train`: estimating, queued, starting, running."""

    change: StateChange


@dataclass(frozen=True)
class CellRuns:
    """It can be saved from here on."""


@dataclass(frozen=True)
class Asked:
    """A front asks for something; or the policy does, that it give its turn to others; or the job itself: a change."""

    verb: Verb
    to: str = ""  # of a move: what is held there already; of a turn and a change: why
    place: Released | None = None  # of a release: as what it leaves if its cell does not run yet


@dataclass(frozen=True)
class Delayed:
    """A wish waits for its safe point."""

    words: str


@dataclass(frozen=True)
class Warned:
    """Its turn will end, and why; empty: it will not after all."""

    words: str


@dataclass(frozen=True)
class Settled:
    """A wish is durable, or came to nothing."""

    why: Why
    durable: bool


@dataclass(frozen=True)
class CellLeft:
    """The main thread is done with the cell, or stands still in it, saved; None: it could not even be entered."""

    outcome: Outcome | None


@dataclass(frozen=True)
class Over:
    """What this process can do for the job is done."""

    outcome: Finished | Released
    suspended: bool = False  # and stays


Event: TypeAlias = Reached | CellRuns | Asked | Delayed | Warned | Settled | CellLeft | Over

# What is to be done -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tell:
    """Let everybody read it."""

    change: StateChange


@dataclass(frozen=True)
class Interrupt:
    """Have the main thread raise it in the cell, or as soon as there is one."""


@dataclass(frozen=True)
class Close:
    """The last word."""

    state: State
    reason: str
    suspended: bool


Effect: TypeAlias = Tell | Interrupt | Close


@dataclass(frozen=True)
class Life:
    """Where a training stands."""

    phase: Phase = "begun"
    device: str = ""  # where it runs, or ran last
    resumes: bool = False
    given_up: Finished | Released | None = None  # as what it ends, before its cell runs

    @property
    def runs(self) -> bool:
        return self.phase in RUNS

    @property
    def has_ended(self) -> bool:
        """Nothing more happens to it, unless it rests and is woken."""
        return self.phase in OVER or self.phase == "resting"


_QUEUES: Mapping[str, Phase] = {"queued": "queued", "starting": "starting"}
_CELL_ENDS: Mapping[str, Phase] = {"finished": "ending", "outgrown": "outgrown", "requeued": "requeued"}
_SAVES: Mapping[str, Phase] = {"checkpoint": "saving", "release": "releasing", "move": "moving", "turn": "releasing"}


def _as_it_was(phase: Phase, *happens: str) -> Mapping[str, Phase]:
    return dict.fromkeys(happens, phase)


# By what happens, the phase that follows. What does not stand here changes nothing: asked for, it is refused.
TABLE: Mapping[Phase, Mapping[str, Phase]] = {
    "begun": {"estimating": "estimating", **_as_it_was("begun", "release", "interrupt")},
    "estimating": {**_QUEUES, **_as_it_was("estimating", "estimating", "release", "interrupt")},
    "queued": {**_QUEUES, **_as_it_was("queued", "release", "interrupt")},
    "starting": {"running": "entering", **_as_it_was("starting", "release", "interrupt")},
    "arriving": {"running": "entering", **_as_it_was("arriving", "interrupt")},
    "entering": {"cell runs": "running", "finished": "ending", **_as_it_was("entering", "interrupt")},
    "running": {
        **{**_SAVES, **_CELL_ENDS, "change": "changing", "waits": "saving"},
        **_as_it_was("running", "warned", "interrupt"),
    },
    "saving": {**_SAVES, **_CELL_ENDS, "goes on": "running", **_as_it_was("saving", "waits", "interrupt")},
    "releasing": {
        **{"stays": "running", "released": "leaving", **_CELL_ENDS},
        **_as_it_was("releasing", "checkpoint", "release", "waits", "interrupt"),
    },
    "moving": {
        **{"stays": "running", "moved": "crossing", **_CELL_ENDS},
        **_as_it_was("moving", "checkpoint", "waits", "interrupt"),
    },
    "changing": {
        **{"stays": "running", "moved": "crossing", "release": "releasing", "turn": "releasing", **_CELL_ENDS},
        **_as_it_was("changing", "checkpoint", "waits", "interrupt"),
    },
    "leaving": _as_it_was("leaving", "release", "interrupt"),
    "crossing": _as_it_was("crossing", "interrupt"),
    "outgrown": {**_QUEUES, **_as_it_was("outgrown", "interrupt")},
    "requeued": {**_QUEUES, **_as_it_was("requeued", "interrupt")},
    "ending": {},
    "resting": {"resume": "begun", "dismiss": "released"},
    **dict.fromkeys(OVER, {}),
}
_IN_A_MOMENT: Mapping[Phase, str] = {
    "entering": "it is just beginning to run. Ask again in a moment.",
    "changing": "it is about to continue on other devices by itself. Ask again in a moment.",
    "outgrown": "it is about to begin again with more memory. Ask again in a moment.",
    "requeued": "it is about to wait for its next turn. Ask again in a moment.",
}


@dataclass(frozen=True)
class RefusedWish:
    """Why what is asked for cannot be: the training goes on as it was."""

    why: str
    leaves: bool  # its device, by what was asked before or by its end


def refusal(life: Life, verb: Verb) -> RefusedWish | None:
    """None: it can be, and `after` makes it so."""
    if verb in TABLE[life.phase]:
        return None
    why = _IN_A_MOMENT.get(life.phase, f"it is {told(life.phase)}.")
    return RefusedWish(why, life.phase in ("releasing", "moving", "leaving", "crossing", "ending"))


def after(life: Life, event: Event) -> tuple[Life, tuple[Effect, ...]]:
    """The life that follows, and what is to be done."""
    if isinstance(event, Over):
        return _over(life, event)
    phase = TABLE[life.phase].get(_happening(event))
    if phase is None:
        return life, ()
    following = replace(life, phase=phase)
    match event:
        case Reached(change):
            return replace(following, device=change.device), (Tell(change),)
        case Delayed(words):
            return following, (_tell(told(phase), words, life.device),)
        case Warned(words):
            return following, (_tell("running", words, life.device),)
        case Settled():
            return following, (_tell("running", "", life.device),)
        case CellLeft(Moved()) if life.phase == "changing":
            return following, (_tell("moving", "", life.device),)  # a front that meets nobody now waits for the next
        case Asked("interrupt"):
            return _interrupted(life)
        case Asked("resume"):
            return replace(following, resumes=True), ()
        case Asked():
            return _wished(life, following, event)
    return following, ()


def _happening(event: Event) -> str:
    match event:
        case Reached(change):
            return change.state
        case CellRuns():
            return "cell runs"
        case Asked(verb):
            return verb
        case Delayed():
            return "waits"
        case Warned():
            return "warned"
        case Settled(why, durable) if why in ("release", "move", "turn"):
            return "" if durable else "stays"
        case Settled():
            return "goes on"
        case CellLeft(Released()):
            return "released"
        case CellLeft(Moved()):
            return "moved"
        case CellLeft(Outgrown()):
            return "outgrown"
        case CellLeft(Requeued()):
            return "requeued"
    return "finished"


def _tell(state: State, reason: str, device: str) -> Tell:
    return Tell(StateChange(state, reason, device))


def _interrupted(life: Life) -> tuple[Life, tuple[Effect, ...]]:
    if life.phase not in _UNTOUCHED:
        # One that leaves stands still: it strikes where the training goes on, and nothing is lost by either.
        return life, (Interrupt(),)
    began = "went on" if life.resumes else "began"
    return replace(life, given_up=Finished("stopped", f"stopped before it {began}")), ()


_UNTOUCHED: frozenset[Phase] = frozenset({"begun", "estimating", "queued", "starting", "outgrown"})  # no cell to stop


def _wished(life: Life, following: Life, asked: Asked) -> tuple[Life, tuple[Effect, ...]]:
    if life.phase in _UNTOUCHED:
        return replace(following, given_up=asked.place), ()
    match asked.verb:
        case "checkpoint" if following.phase == "saving":
            return following, (_tell("saving", "at its next safe point", life.device),)
        case "release" if following.phase == "releasing":
            return following, (_tell("saving", "at its next safe point, to be released", life.device),)
        case "turn" | "change" if following.phase in ("releasing", "changing"):
            return following, (_tell("saving", asked.to, life.device),)
        case "move":
            return following, (_tell("moving", f"to {asked.to}, from its next safe point", life.device),)
    return following, ()  # it is on its way out: what is saved for that is what was asked for


def _over(life: Life, over: Over) -> tuple[Life, tuple[Effect, ...]]:
    if life.has_ended:
        return life, ()
    outcome = over.outcome
    if isinstance(outcome, Finished):
        return replace(life, phase=outcome.state, given_up=None), (Close(outcome.state, outcome.reason, False),)
    phase: Phase = "resting" if over.suspended else "released"
    return replace(life, phase=phase, given_up=None), (Close("released", outcome.reason, over.suspended),)

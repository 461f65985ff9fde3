"""What an examination finds, and what to do about it: shared by `gpufit lab check` and `gpufit doctor`.

A check asks the world for facts and then judges them. The judging is pure; an asking that fails is a finding as well.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, Literal, TypeVar

from ..errors import GpufitError

T = TypeVar("T")

Level = Literal["ok", "note", "bad"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. A note costs something or may be meant so; what is bad breaks a promise."""

    level: Level
    what: str
    mend: str = ""  # what to do next


def ok(what: str) -> Finding:
    return Finding("ok", what)


def note(what: str, mend: str) -> Finding:
    return Finding("note", what, mend)


def bad(what: str, mend: str) -> Finding:
    return Finding("bad", what, mend)


@dataclass(frozen=True)
class Check(Generic[T]):
    """A question to the world, and what its answer means."""

    about: str  # completes "... could not be examined"
    ask: Callable[[], T]
    judge: Callable[[T], Iterable[Finding]]

    def findings(self) -> list[Finding]:
        """Never raises: an examination must say the rest, too."""
        try:
            return list(self.judge(self.ask()))
        except GpufitError as error:
            return [bad(f"{self.about} could not be examined: {error}", "Do what it says, then look again.")]
        except Exception as error:
            why = f"{self.about} could not be examined ({type(error).__name__}: {error})."
            return [note(why, "If it cannot be explained by this machine, please report it with this text.")]


def one_by_one(checks: Iterable[Check[Any]]) -> list[Finding]:
    """The findings of all checks, in their order."""
    return [finding for check in checks for finding in check.findings()]


def at_once(checks: Sequence[Check[Any]], patience: float) -> list[Finding]:
    """The same with each check in a thread of its own: what hangs (a driver, a network's disk) hides nothing else."""
    found: dict[int, list[Finding]] = {}

    def run(place: int, check: Check[Any]) -> None:
        found[place] = check.findings()

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(checks)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + patience
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [finding for place, check in enumerate(checks) for finding in found.get(place, _late(check, patience))]


def _late(check: Check[Any], patience: float) -> list[Finding]:
    why = f"{check.about} could not be examined within {patience:g} s."
    return [note(why, "Look again with a longer --wait; if it never answers, a disk or driver hangs (`sudo dmesg`).")]


def healthy(findings: Sequence[Finding]) -> bool:
    """Is there nothing bad?"""
    return all(finding.level != "bad" for finding in findings)


def as_json(findings: Sequence[Finding]) -> str:
    return json.dumps({"ok": healthy(findings), "findings": [asdict(finding) for finding in findings]}, indent=1)


def as_text(findings: Sequence[Finding]) -> str:
    """One line per finding, with its mend below; what needs attention stands last, where the eye is."""
    ordered = sorted(findings, key=lambda finding: ("ok", "note", "bad").index(finding.level))
    lines = []
    for finding in ordered:
        lines.append(f"{finding.level:<5} {finding.what}")
        if finding.mend:
            lines.append(f"      → {finding.mend}")
    return "\n".join([*lines, "", _summary(findings)])


def _summary(findings: Sequence[Finding]) -> str:
    notes, bads = (sum(finding.level == level for finding in findings) for level in ("note", "bad"))
    if bads:
        return f"{bads} bad, {notes} to note, {len(findings) - bads - notes} ok."
    return f"Nothing bad; {notes} to note, {len(findings) - notes} ok."

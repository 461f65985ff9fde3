"""The server's answers on what a job's numbers did, of paper."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, Route

from .stage import API, GIB, NOW

POINTS = 200
LAST = POINTS - 1
FACTS = {
    "source": "for epoch in range(2):\n    for texts, labels in train:\n        ...",
    "magic_line": "%%gpufit train --name bert-run",
    "cwd": "/home/lin",
    "claimed": 40 * GIB,
    "foreseen": 36 * GIB,
    "versions": [{"name": "Python", "version": "3.12.1"}, {"name": "torch", "version": "2.6.0"}],
    "checkpoints": [
        {
            "name": f"0000000{step}",
            "step": step,
            "time": NOW - 48 - 600 * i,
            "bytes": 4 * GIB,
            "where": "line 4 of the cell",
            "device": "1",
            "automatic": i == 1,
            "exact": True,
            "resumed": i == 0,
        }
        for i, step in enumerate((3000, 2400))
    ],
    "broken": [],
}


@dataclass
class Drawn:
    """What the page is told of every job's curves, and what it picks."""

    shown: list[str] = field(default_factory=lambda: ["loss"])
    names: list[str] = field(default_factory=lambda: ["loss", "accuracy", "lr"])
    length: int = 0  # of each run, in points: as many are said as are asked for; none: `POINTS`
    older: bool = False
    breaks: list[dict[str, float]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)  # for which job
    points: list[int] = field(default_factory=list)  # as many were asked for
    spans: list[str] = field(default_factory=list)
    stretches: list[tuple[int, int]] = field(default_factory=list)  # steps that were looked at closely
    refusal: str = ""
    facts: dict[str, Any] = field(default_factory=lambda: dict(FACTS))

    def open(self, page: Page) -> Drawn:
        page.route(f"{API}jobs/*/curves*", self._answer)
        page.route(f"{API}jobs/*/facts*", lambda route: route.fulfill(json=self.facts))
        return self

    def close(self, page: Page) -> None:
        page.unroute(f"{API}jobs/*/curves*")
        page.unroute(f"{API}jobs/*/facts*")

    def _answer(self, route: Route) -> None:
        names: list[str] = []
        if route.request.method == "POST":
            if self.refusal:
                route.fulfill(status=409, json={"message": self.refusal})
                return
            picked = json.loads(route.request.post_data or "")["names"]
            self.shown = [name for name in self.names if name in picked]
        else:
            self.asked.append(route.request.url.split("/jobs/")[1].split("/")[0])
            query = parse_qs(urlsplit(route.request.url).query)
            self.spans += query.get("span", [])
            self.stretches += [(int(query["start"][0]), int(query["stop"][0]))] if "stop" in query else []
            names = query.get("name", [])
            self.points += [int(one) for one in query.get("points", ())]
        other = "/id-of-words/" in route.request.url
        began, every = (NOW - 91_400, 27) if other else (NOW - 7440, 37)
        route.fulfill(json=self._said(names, 1.12 if other else 1.0, began, every))

    def _said(self, names: list[str], times: float, began: float, every: float) -> dict[str, Any]:
        places = range(min(self.length, self.points[-1]) if self.length and self.points else POINTS)
        shown = names or self.shown
        curves = [{"name": name, "points": [[16 * at, times * _value(name, at)] for at in places]} for name in shown]
        memory = [[began + every * at, (30.4 + 1.6 * (_wave(at / 9) - _wave(LAST / 9))) * GIB] for at in places]
        clock = [[16 * at, began + every * at] for at in places]
        return {
            "names": self.names,
            "curves": curves,
            "memory": memory,
            "clock": clock,
            "busy": [[at, 88 + 8 * _wave(i / 5)] for i, (at, _) in enumerate(memory)],
            "power": [[at, 388 + 30 * _wave(i / 5)] for i, (at, _) in enumerate(memory)],
            "breaks": self.breaks,
            "laps": [[1060 * i, i + 1] for i in range(3)],
            "older": self.older,
        }


def _value(name: str, at: int) -> float:
    """Ends at what the job's card says."""
    wave = _wave(at) - _wave(LAST)
    match name:
        case "lr":
            return 2e-5 * (1 - at / 320)
        case "loss":
            return 0.43118 + 2.5 / (1 + at / 6) - 2.5 / (1 + LAST / 6) + 0.06 * wave
    return 0.9 - 0.7 / (1 + at / 9) + 0.02 * wave


def _wave(at: float) -> float:
    return math.sin(at) * math.cos(7 * at)

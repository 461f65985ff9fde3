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


@dataclass
class Drawn:
    """What the page is told of every job's curves, and what it picks."""

    shown: list[str] = field(default_factory=lambda: ["loss"])
    names: list[str] = field(default_factory=lambda: ["loss", "accuracy", "lr"])
    older: bool = False
    breaks: list[dict[str, float]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)  # for which job
    spans: list[str] = field(default_factory=list)
    refusal: str = ""

    def open(self, page: Page) -> Drawn:
        page.route(f"{API}jobs/*/curves*", self._answer)
        return self

    def close(self, page: Page) -> None:
        page.unroute(f"{API}jobs/*/curves*")

    def _answer(self, route: Route) -> None:
        if route.request.method == "POST":
            if self.refusal:
                route.fulfill(status=409, json={"message": self.refusal})
                return
            picked = json.loads(route.request.post_data or "")["names"]
            self.shown = [name for name in self.names if name in picked]
        else:
            self.asked.append(route.request.url.split("/jobs/")[1].split("/")[0])
            self.spans += parse_qs(urlsplit(route.request.url).query)["span"]
        route.fulfill(json=self._said())

    def _said(self) -> dict[str, Any]:
        places = range(POINTS)
        curves = [{"name": name, "points": [[16 * at, _value(name, at)] for at in places]} for name in self.shown]
        memory = [[NOW - 7440 + 37 * at, (30.4 + 1.6 * (_wave(at / 9) - _wave(LAST / 9))) * GIB] for at in places]
        return {"names": self.names, "curves": curves, "memory": memory, "breaks": self.breaks, "older": self.older}


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

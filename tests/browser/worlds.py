"""A lab on a working day, as the server extension would tell it: for the pictures."""

from __future__ import annotations

import math
from typing import Any

from .stage import CAN, GIB, NOW, ROOM, a_claim, a_gpu, a_job, a_part, a_progress, a_ticket


def a_lab() -> dict[str, Any]:
    """Four GPUs: one shared with somebody, one taken by a stranger, one held as a whole, one almost idle."""
    return {"devices": _devices(), "claims": _claims(), "queue": _queue(), "jobs": _jobs(), "time": NOW}


def _devices() -> list[dict[str, Any]]:
    kept = a_part("reserve", 8)
    return [
        a_gpu(
            0,
            utilisation=97,
            temperature=71,
            parts=[a_part("claim", 72, "ada"), kept, a_part("free", 0)],
            history=_history(94, 4),
        ),
        a_gpu(
            1,
            utilisation=88,
            temperature=64,
            parts=[a_part("mine", 36, "lin"), a_part("claim", 14, "bob"), kept, a_part("free", 22)],
            history=_history(80, 15),
        ),
        a_gpu(
            2,
            utilisation=41,
            temperature=55,
            parts=[a_part("foreign", 23, "carol"), kept, a_part("free", 49)],
            room=ROOM | {"held_for": "ada's llama-sweep"},
            history=_history(45, 35),
        ),
        a_gpu(3, temperature=34, history=_history(2, 2)),
    ]


def _history(middle: int, swing: int) -> list[list[float]]:
    return [
        [
            NOW - 59 + i,
            min(100, max(0, round(middle + swing * math.sin(i / 3) * math.cos(i / 7)))),
            int((40 + 5 * math.sin(i / 9)) * GIB),
        ]
        for i in range(60)
    ]


def _claims() -> list[dict[str, Any]]:
    return [
        a_claim("ada", "vit-large", "0", alone=True, bytes=80 * GIB, label="vision/pretrain.ipynb"),
        a_claim("lin", "bert-run", "1", mine=True, job="id-of-bert-run", bytes=36 * GIB, label="finetune.ipynb"),
        a_claim("bob", "gnn", "1", bytes=14 * GIB, since=NOW - 1260, label="graphs/molecules.ipynb"),
    ]


def _queue() -> list[dict[str, Any]]:
    held = "ada's vit-large holds GPU 0 (all of it) for 2 h 4 min"
    return [
        a_ticket(1, "ada", "llama-sweep", wants="2 whole devices", reason=held, label="sweep.ipynb"),
        a_ticket(
            2,
            "lin",
            "distil",
            mine=True,
            job="id-of-distil",
            wants="60.0 GiB",
            why="turn",
            reason="there is room, but ada's llama-sweep came first and may need it",
        ),
    ]


def _jobs() -> list[dict[str, Any]]:
    nothing_saved = "It has not begun."
    waiting = {"checkpoint": nothing_saved, "release": nothing_saved, "resume": "It waits.", "stop": "", "move": []}
    ended = {"checkpoint": "It has ended.", "release": "It has ended.", "stop": "It has ended.", "move": []}
    targets = [
        {"device": "0", "ok": False, "reason": "ada's vit-large holds all of it"},
        {"device": "2", "ok": False, "reason": "kept for ada's llama-sweep"},
        {"device": "3", "ok": True, "reason": "72.0 GiB free"},
    ]
    return [
        a_job("words", state="done", since=NOW - 86_000, notebook="/home/lin/words.ipynb", can=ended | {"resume": ""}),
        a_job(
            "bert-large",
            state="failed",
            since=NOW - 9400,
            notebook="/home/lin/finetune.ipynb",
            reason="OutOfMemoryError: it tried to take 1.2 GiB more than its claim of 24.0 GiB",
            checkpoint={"step": 900, "time": NOW - 9600, "bytes": 3 * GIB},
            can=ended | {"resume": ""},
        ),
        a_job(
            "bert-run",
            device="1",
            since=NOW - 7440,
            notebook="/home/lin/finetune.ipynb",
            step=3100,
            progress=a_progress(3100, per_second=2.1, total=5000, left=905),
            loss={"name": "loss", "value": 0.43118},
            mfu=0.413,
            memory={"used": int(30.4 * GIB), "peak": int(32.8 * GIB), "estimate": 36 * GIB},
            checkpoint={"step": 3000, "time": NOW - 48, "bytes": 4 * GIB},
            can=CAN | {"move": targets},
        ),
        a_job("distil", state="queued", since=NOW - 185, notebook="/home/lin/distil.ipynb", can=waiting),
    ]

"""A lab on a working day, as the server extension would tell it: for the pictures."""

from __future__ import annotations

import math
from typing import Any

from .stage import CAN, GIB, NOW, ROOM, a_claim, a_gpu, a_job, a_part, a_process, a_progress, a_ticket

HOST = {"total": 503 * GIB, "free": 371 * GIB, "busy": 23.4, "processors": 64}


def a_lab(home: str = "/home/lin") -> dict[str, Any]:
    """Four GPUs: one shared with somebody, one taken by a stranger, one held as a whole, one almost idle."""
    return {
        "devices": _devices(),
        "claims": _claims(),
        "queue": _queue(),
        "jobs": _jobs(home),
        "time": NOW,
        "host": HOST,
    }


def _devices() -> list[dict[str, Any]]:
    kept = a_part("reserve", 8)
    carol = a_process(48213, "carol", 23, "python serve.py --model llama-8b --port 8000")
    return [
        a_gpu(
            0,
            utilisation=97,
            temperature=71,
            power=412.3,
            parts=[a_part("claim", 72, "ada", 61), kept, a_part("free", 0)],
            history=_history(94, 4),
        ),
        a_gpu(
            1,
            utilisation=88,
            temperature=64,
            power=388.0,
            parts=[a_part("mine", 36, "lin", 30.4), a_part("claim", 14, "bob", 9), kept, a_part("free", 22)],
            history=_history(80, 15),
        ),
        a_gpu(
            2,
            utilisation=0,
            temperature=39,
            power=71.5,
            idle_since=NOW - 1260,
            parts=[a_part("foreign", 23, "carol"), kept, a_part("free", 49)],
            room=ROOM | {"held_for": "ada's llama-sweep", "strangers": [carol]},
            history=_history(0, 0),
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
    held = "ada's vit-large has held GPU 0 (all of it) for 2 h 4 min"
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


def _jobs(home: str) -> list[dict[str, Any]]:
    nothing_saved = "It has not begun."
    waiting = {"checkpoint": nothing_saved, "release": nothing_saved, "resume": "It waits.", "stop": "", "move": []}
    ended = {"checkpoint": "It has ended.", "release": "It has ended.", "stop": "It has ended.", "move": []}
    targets = [
        {"device": "0", "ok": False, "reason": "ada's vit-large holds all of it"},
        {"device": "2", "ok": False, "reason": "kept for ada's llama-sweep"},
        {"device": "3", "ok": True, "reason": "72.0 GiB free"},
    ]
    return [
        a_job(
            "words",
            state="done",
            **_over(86_000, 5400, 12_000),
            notebook=f"{home}/words.ipynb",
            can=ended | {"resume": ""},
        ),
        a_job(
            "bert-large",
            state="failed",
            **_over(9400, 2500, 940),
            notebook=f"{home}/finetune.ipynb",
            reason="OutOfMemoryError: it tried to take 1.2 GiB more than its claim of 24.0 GiB",
            checkpoint={"step": 900, "time": NOW - 9600, "bytes": 3 * GIB, "exact": True},
            can=ended | {"resume": ""},
        ),
        a_job(
            "bert-run",
            device="1",
            since=NOW - 1440,
            began=NOW - 7440,
            ran=5400.0,
            notebook=f"{home}/finetune.ipynb",
            step=3100,
            progress=a_progress(3100, per_second=2.1, total=5000, left=905),
            loss={"name": "loss", "value": 0.43118},
            mfu=0.413,
            memory={"used": int(30.4 * GIB), "peak": int(32.8 * GIB), "estimate": 36 * GIB},
            checkpoint={"step": 3000, "time": NOW - 48, "bytes": 4 * GIB, "exact": True},
            can=CAN | {"move": targets},
        ),
        a_job("distil", state="queued", since=NOW - 185, began=None, notebook=f"{home}/distil.ipynb", can=waiting),
    ]


def _over(ago: int, ran: float, steps: int) -> dict[str, Any]:
    began = NOW - ago - ran
    memory = {"used": 0, "peak": int(24.6 * GIB), "estimate": 25 * GIB}
    return {
        "since": NOW - ago,
        "created": began,
        "began": began,
        "ran": ran,
        "step": steps,
        "memory": memory,
        "progress": a_progress(steps),
    }


def a_notebook() -> dict[str, Any]:
    """The notebook of bert-run, as it is while its cell runs."""
    cells = [
        _cell("markdown", "# Fine-tuning\nBERT on our own texts: two epochs, then a look at what it got wrong."),
        _cell("code", "%load_ext jupyter_gpufit", count=1),
        _cell("code", "from data import loaders\nfrom model import Classifier\n\n" + _MAKES, count=2),
        _cell("code", "%%gpufit train --name bert-run\n" + _TRAINS, "".join(_lines())),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


_MAKES = """model = Classifier("bert-large", classes=12)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
train, valid = loaders(batch=32)"""

_TRAINS = """for epoch in range(2):
    for step, (texts, labels) in enumerate(train):
        loss = model(texts, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            print(f"step {step}: loss {loss:.4f}")"""


def _lines(first: int = 2200, last: int = 3100) -> list[str]:
    return [f"step {step}: loss {0.43 + 260 / step - 260 / 3100:.4f}\n" for step in range(first, last + 1, 100)]


def _cell(kind: str, source: str, shown: str = "", count: int | None = None) -> dict[str, Any]:
    cell: dict[str, Any] = {"id": f"cell-{len(source)}", "cell_type": kind, "source": source, "metadata": {}}
    if kind == "code":
        outputs = [{"output_type": "stream", "name": "stdout", "text": shown}] if shown else []
        cell |= {"execution_count": count, "outputs": outputs}
    return cell


def a_log() -> list[dict[str, Any]]:
    """The journal of bert-run."""
    state = {"kind": "state", "state": "queued", "reason": "", "device": "", "epoch": 1}
    bar = "\rvalidation: 100%|██████████| 240/240 [00:31<00:00, 7.62it/s]\n"
    return [
        {"kind": "note", "text": "estimated 33.1 GiB (31.4–36.0) on NVIDIA H100 80GB HBM3", "once": False},
        state | {"reason": "ada's vit-large has held GPU 1 (all of it) for 38 min"},
        state | {"state": "running", "device": "1"},
        *({"kind": "text", "name": "stdout", "text": line} for line in _lines(100, 1500)),
        {"kind": "text", "name": "stderr", "text": bar},
        *({"kind": "text", "name": "stdout", "text": line} for line in _lines(1600, 3000)),
        {"kind": "saved", "number": 3, "step": 3000, "where": "", "name": "", "bytes": 4 * GIB, "pause": 0.2},
        *({"kind": "text", "name": "stdout", "text": line} for line in _lines(3100, 3100)),
    ]

"""What a holder says of its claim: heard of the holder alone, and gone with it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpufit.lab import Lab
from jupyter_gpufit.lab.ledger import LedgerReader
from jupyter_gpufit.lab.published import Published, publish
from jupyter_gpufit.lab.record import Claim, Hold
from jupyter_gpufit.lab.standing import Standing, StandingFile, forget_old_standings, read_standings
from tests.lab.values import request


@pytest.fixture
def held(lab: Lab) -> Iterator[Published]:
    file = publish(lab.path, request(), Hold(devices=("cpu:0",), bytes=1, alone=False))
    yield file
    file.drop()


def claims(lab: Lab) -> tuple[Claim, ...]:
    return LedgerReader(lab.path).read().claims


def test_the_last_word_counts_and_is_taken_back(lab: Lab, held: Published) -> None:
    word = StandingFile(lab.path)
    word.tell(held.id, Standing())
    word.tell(held.id, Standing(leaves=1000.5, idle=900.0))
    assert read_standings(lab.path, claims(lab)) == {held.id: Standing(leaves=1000.5, idle=900.0)}
    word.drop()
    assert read_standings(lab.path, claims(lab)) == {} and not list(lab.path.glob("s.*"))


def test_a_killed_holders_word_is_removed_by_the_next(lab: Lab, held: Published) -> None:
    StandingFile(lab.path).tell(held.id, Standing())
    forget_old_standings(lab.path)
    assert len(list(lab.path.glob("s.*"))) == 1
    held.drop()
    forget_old_standings(lab.path)
    assert not list(lab.path.glob("s.*"))


JUNK = (b"{", b"[]", b"\xff", b'{"claim": 3}', b"{}" * 2000)


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: other users. Run as root, in a container.")
def test_nobody_speaks_for_somebody_else(lab: Lab, held: Published) -> None:
    nonce = held.id.rpartition(".")[2]
    true = {"format": 1, "claim": held.id, "yields": False, "leaves": 1.0, "idle": 1.0}
    for number, (uid, text) in enumerate(
        [
            (61001, json.dumps(true).encode()),
            *((0, junk) for junk in JUNK),
            (0, json.dumps(true | {"idle": -1}).encode()),
        ]
    ):
        _leave(lab.path / f"s.0.{nonce}.{number:08x}", text, uid)
    _leave(lab.path / f"s.61001.{nonce}.00000000", json.dumps(true).encode(), 61001)
    os.mkfifo(lab.path / f"s.0.{nonce}.000000ff")
    assert read_standings(lab.path, claims(lab)) == {}


def _leave(path: Path, text: bytes, uid: int) -> None:
    path.write_bytes(text)
    os.chown(path, uid, 0)

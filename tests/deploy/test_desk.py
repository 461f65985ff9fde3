"""What nobody foresaw, at the desk: it costs one caller, or is said, and nobody waits for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpufit.calls.protocol import CallReply, encode
from jupyter_gpufit.deploy import desk
from tests.deploy.test_ahead import DONE, ask, at_a_desk


def test_a_defect_in_hearing_a_caller_costs_that_caller_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def defect(*given: object) -> object:
        monkeypatch.undo()
        raise RuntimeError("nobody foresaw it")

    monkeypatch.setattr(desk, "checked", defect)
    with at_a_desk(tmp_path, room=200) as (instance, [first, second, _]):
        ask(first, 0)
        assert first._socket.recv(1) == b""
        ask(second, 0)
        assert instance.run()["model"] == 0
        instance.channel.send(encode(DONE))
        assert CallReply.decode(second._socket.recv(1 << 16)) == CallReply()
    assert "nobody foresaw it" in capfd.readouterr().err


def test_a_defect_in_hearing_the_instance_is_told_to_all_who_wait(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with at_a_desk(tmp_path, room=200) as (instance, [first, second, _]):
        ask(first, 0)
        instance.run()
        instance.channel.send(encode({"done": 1}))
        assert "ended unexpectedly" in CallReply.decode(first._socket.recv(1 << 16)).failed
        ask(second, 0)
        assert CallReply.decode(second._socket.recv(1 << 16)).left
    assert "KeyError" in capfd.readouterr().err

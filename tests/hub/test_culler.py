"""The question of jupyterhub-idle-culler, answered by a lab in which other users hold and wait."""

from __future__ import annotations

import inspect
import pwd
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.hub.culler import cull_arbiter, user_of
from jupyter_gpufit.lab import Lab, Request, published
from jupyter_gpufit.lab.record import Hold
from jupyter_gpufit.lab.standing import Standing, StandingFile
from tests.lab.players import Part, Player, Stage, start

OTHER = pwd.getpwnam("daemon")  # an account that every Debian has
IDLE, LIMIT = timedelta(hours=2), 3600


def server(name: str = OTHER.pw_name) -> dict[str, object]:
    return {"name": "", "full_name": f"{name}/", "url": f"/user/{name}/"}


def culled(name: str = OTHER.pw_name, inactive: timedelta | None = IDLE) -> bool:
    return cull_arbiter(inactive=inactive, inactive_limit=LIMIT, server=server(name))


def keeps(lab: Path, hold: Hold | None) -> Part:
    def part(stage: Stage) -> None:
        kept = published.publish(lab, Request(job_id="abcdef", name="bert", needed=1), hold)
        stage.say("there")
        anyio.run(stage.order)
        StandingFile(lab).tell(kept.id, Standing(idle=1.0))
        stage.say("idle")
        anyio.run(stage.order)

    return part


@pytest.mark.parametrize("hold", [None, Hold(devices=("GPU-a",), bytes=1, alone=False)], ids=["waits", "holds"])
def test_a_server_stays_while_its_user_waits_or_holds(named_lab: Lab, players: list[Player], hold: Hold | None) -> None:
    assert culled()
    player = start(players, keeps(named_lab.path, hold), uid=OTHER.pw_uid)
    player.hear("there")

    assert not culled()
    assert culled("root"), "somebody else's jobs keep no server"
    player.go_on()
    player.hear("idle")
    assert culled() == (hold is not None), "by its own word it computes nothing"
    player.kill()
    assert culled()


def test_a_server_in_use_stays(named_lab: Lab) -> None:
    assert not culled(inactive=timedelta(minutes=1))
    assert not culled(inactive=None)


def test_a_user_of_another_machine_has_no_job_here(named_lab: Lab) -> None:
    assert culled("nobody-of-this-name")


def test_a_lab_that_cannot_be_read_ends_no_training(named_lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    named_lab.path.chmod(0o777)  # no lab that binds anybody

    assert not culled()
    assert "daemon is not stopped" in caplog.text


def test_whose_a_server_is() -> None:
    assert user_of({"full_name": "ada/big", "url": "/user/ada/big/"}) == "ada"
    assert user_of({"url": "/hub-base/user/a%40b/"}) == "a@b"
    assert user_of({"url": "https://ada.lab.example/user/ada/big/"}) == "ada"


def test_the_culler_asks_as_we_answer() -> None:
    culler = pytest.importorskip("jupyterhub_idle_culler", reason="NOT TESTED: jupyterhub-idle-culler is not installed")

    theirs = inspect.signature(culler.default_cull_arbiter).parameters
    ours = inspect.signature(cull_arbiter).parameters
    assert [name for name, one in theirs.items() if one.kind is one.KEYWORD_ONLY] == [
        name for name, one in ours.items() if one.kind is one.KEYWORD_ONLY
    ]

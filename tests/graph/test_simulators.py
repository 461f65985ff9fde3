"""Simulations in compiled code stand in another process where they stood here, and here again where they came to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jupyter_gpufit.graph import Reply, made_later, receive, ship
from jupyter_gpufit.surroundings.travel import watch
from jupyter_gpufit.system import simulators

from .crossing import defined, notebook

pytestmark = pytest.mark.slow
for needed in ("Box2D", "gymnasium", "pygame"):
    pytest.importorskip(needed, reason=f"NOT TESTED: {needed} is not installed (make .venv/libraries)")

LANDER = """
import gymnasium as gym
env = gym.make("LunarLander-v3")
env.action_space.seed(0)
def play(env, turns):
    seen = []
    for _ in range(turns):
        seen.append(env.step(env.action_space.sample())[:4])
        if seen[-1][2]: seen.append(env.reset()[0])
    return repr(seen)
"""


@pytest.fixture(autouse=True)
def seen() -> Iterator[None]:
    watch.begin({"gymnasium"})
    yield
    watch.end()


def crossed(before: str, cell: str, after: str) -> tuple[str, ...]:
    """Run the cell where the variables arrive, and then the rest here; what is said of it."""
    here = notebook(before)
    shipment = ship(defined(here), here)
    there: dict[str, object] = {"__name__": "__main__"}
    arrival = receive(shipment.graph, shipment.memory, there)
    remarks = made_later.make_all()
    exec(compile(cell, "<cell>", "exec"), there)
    reply = arrival.reply()
    returned = shipment.bring_back(Reply(reply.graph, reply.memory), here)
    exec(compile(after, "<after>", "exec"), here)
    return *shipment.remarks, *remarks, *returned.remarks


@pytest.mark.parametrize("begun", ["", "env.reset(seed=3)", "env.reset(seed=3); play(env, 90)"])
def test_a_simulation_goes_on_and_comes_back_to_the_bit(begun: str) -> None:
    first = ("" if begun else "env.reset(seed=5); ") + "first = play(env, 50)"
    alone = notebook(f"{LANDER}{begun}\n{first}\nafter = play(env, 150)")

    said = crossed(
        f"{LANDER}{begun}\nwrapped = env.unwrapped",
        first,
        f"assert [first, play(env, 150)] == {[alone['first'], alone['after']]} and wrapped is env.unwrapped",
    )

    assert said == ()


def test_a_class_of_the_notebooks_own_keeps_what_it_has_noted() -> None:
    own = """
from gymnasium.envs.box2d import LunarLander
class Own(LunarLander):
    def __init__(self, weight):
        super().__init__(continuous=True); self.weight = weight; self.noted = []
    def step(self, action):
        found = super().step(action); self.noted.append(float(found[1])); return found
env = Own(3); env.reset(seed=1); env.step([0.5, 0.1])
"""
    alone = notebook(own + "env.step([0.1, 0.9])")

    crossed(own, "env.step([0.1, 0.9])", f"assert env.noted == {alone['env'].noted} and env.weight == 3")


def test_one_that_was_made_unseen_is_to_be_reset_which_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    made = notebook(LANDER + "env.reset(seed=1)")
    monkeypatch.setattr(simulators, "_episodes", {})

    shipment = ship(["env"], made)

    assert "Reset it before its next step." in shipment.remarks[0]


def test_what_it_was_rendered_on_travels() -> None:
    crossed(
        "import gymnasium as gym\n"
        "env = gym.make('CartPole-v1', render_mode='rgb_array'); env.reset(seed=1); was = env.render()",
        "screen = env.unwrapped.screen; screen.fill((1, 2, 3)); then = env.render()",
        "assert (env.render() == then).all() and env.unwrapped.screen.get_at((0, 0))[:3] != (1, 2, 3)",
    )

"""A function can be left midway by whatever name it is called."""

from __future__ import annotations

import pytest

from ..crossing import at_points

STEP = """
def step(n, scale=1):
    for i in range(n):
        say(i * scale)
    return n
"""
WAYS = {
    "an argument": "def fit(step_fn, n):\n    return step_fn(n)\nfit(step, 2)",
    "an argument by its keyword": "def fit(n, *, fn):\n    return fn(n)\nfit(2, fn=step)",
    "one of several arguments": "def fit(n, *fns):\n    return fns[1](n)\nfit(2, print, step)",
    "a default": "def fit(n, fn=step):\n    return fn(n)\nfit(2)",
    "an argument's argument": "def outer(f):\n    return inner(f)\ndef inner(g):\n    return g(2)\nouter(step)",
    "an attribute": "class T:\n    def __init__(self, fn):\n        self.fn = fn\nt = T(step)\nt.fn(2)",
    "an entry": "fns = {'a': step}\nfns['a'](2)",
    "an item of a list": "fns = []\nfns.append(step)\nfns[0](2)",
    "what a function returns": "def make():\n    return step\nmade = make()\nmade(2)",
    "what is called at once": "def make():\n    return step\nmake()(2)",
    "a closure": "def make(k):\n    def inner(n):\n        return step(n, k)\n    return inner\nf = make(3)\nf(2)",
    "a partial of an argument": "from functools import partial\ndef fit(f):\n    g = partial(f, 2)\n    return g()\n"
    "fit(step)",
    "an object that is called": "class T:\n    def __call__(self, n):\n        return step(n)\nt = T()\nt(2)",
    "a bound method": "class T:\n    def run(self, n):\n        return step(n)\ndef fit(f):\n    return f(2)\n"
    "fit(T().run)",
    "what is decorated": "def deco(f):\n    def inner(*args):\n        return f(*args)\n    return inner\n"
    "@deco\ndef g(n):\n    return step(n)\ng(2)",
    "a decorator with arguments": "def deco(k):\n    def wrap(f):\n        def inner(*args):\n"
    "            return f(*args)\n        return inner\n    return wrap\n@deco(3)\ndef g(n):\n    return step(n)\ng(2)",
    "a choice": "fit = step if log == [] else print\nfit(2)",
}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_left_as(way: str) -> None:
    assert at_points(STEP + WAYS[way] + "\n") == 3


@pytest.mark.slow
def test_each_of_a_list_is_left() -> None:
    assert at_points(STEP + "for name, fn in [('a', step), ('b', step)]:\n    fn(1)\n") == 3 + 2 * 2
    assert at_points(STEP + "fns = {'a': step}\nfor name, fn in fns.items():\n    fn(1)\n") == 2 + 2

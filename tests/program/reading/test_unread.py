"""Whether a variable's value is read behind a place: `# here` is the loop, or the call, that the cell stands at."""

from __future__ import annotations

import ast
import gc

import pytest

from jupyter_gpufit.program.reading.unread import is_read, is_used_later

from ..crossing import World

LOOP = "for e in epochs:\n    for b in loader:  # here\n        step(b)\n"

UNREAD = {
    "bound anew in each epoch": f"{LOOP}    x = model(v)\n    log(x.item())\n",
    "its value alone is wanted": f"{LOOP}log(x.detach(), float(x), x.shape)\n",
    "never again": LOOP,
    "bound before it is read": "for b in loader:  # here\n    x = teacher(b)\n    loss(x).backward()\n",
    "the loop binds it": "for x in xs:  # here\n    log(x)\n",
    "deleted": f"{LOOP}    del x\n",
    "on both branches": f"{LOOP}    if e:\n        x = 1\n    else:\n        x, y = f()\n    log(x)\n",
    "endless": "while True:  # here\n    x = f()\n    if done(x): break\n",
    "under a manager of torch": f"{LOOP}    with torch.no_grad():\n        x = f()\n    log(x)\n",
    "an error's block that leaves": "try:\n    for b in bs:  # here\n        f(b)\nexcept E:\n    raise\nx = 1\nlog(x)",
    "the call's statement binds it": "for e in epochs:\n    x = train(e)  # here\n    log(x)\n",
    "continued": "for b in bs:  # here\n    if b: continue\n    x = f()\n    log(x)\n",
    "in a case": "match m:\n    case 1:\n        for b in bs:  # here\n            x = f()\n            log(x)\n",
}
READ = {
    "behind the loop": f"{LOOP}log(x)\n",
    "by backward": f"{LOOP}x.backward()\n",
    "before it is bound": f"{LOOP}    x = cell(b, x)\n",
    "added to": f"{LOOP}    x += 1\n",
    "on one branch only": f"{LOOP}    if e:\n        x = 1\n    log(x)\n",
    "if the loop has no more": "for b in bs:  # here\n    x = f()\nlog(x)\n",
    "in the else of the loop": "for b in bs:  # here\n    x = f()\nelse:\n    log(x)\n",
    "in front of a break": "for b in bs:  # here\n    if b: break\n    x = f()\nlog(x)\n",
    "in the next iteration": "while True:  # here\n    if f(): x = 1\n    log(x)\n",
    "in the test": "while x.sum() > 0:  # here\n    x = f()\n",
    "where an error is handled": "try:\n    for b in bs:  # here\n        x = f()\nexcept E:\n    log(x)\n",
    "in a finally": "try:\n    for b in bs:  # here\n        x = f()\nfinally:\n    log(x)\n",
    "behind a manager that may keep an error": "with suppress(E):\n    for b in bs:  # here\n        x = f()\nlog(x)\n",
    "in a manager that may keep an error": f"{LOOP}    with suppress(E):\n        x = f()\n    log(x)\n",
    "in a guard": f"{LOOP}    match e:\n        case 1 if x: pass\n",
    "in a comprehension": f"{LOOP}    y = [x for _ in e]\n    x = 1\n",
    "in the call's own statement": "y = f(x, g())  # here\n",
    "by a loop around": "for e in es:\n    for b in loader:  # here\n        pass\n    x, y = f(), x\n",
    "as a part": f"{LOOP}    x[0] = 1\n    x = 2\n",
    "on a line of two calls": "f(); x = g()  # here\n",
}


def answer(text: str) -> bool:
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "# here" in one)
    calling = not text.splitlines()[line - 1].lstrip().startswith(("for", "while"))
    return is_read(ast.parse(text).body, line, "x", calling=calling)


@pytest.mark.parametrize("how", UNREAD)
def test_nobody_reads_it(how: str) -> None:
    assert not answer(UNREAD[how])


@pytest.mark.parametrize("how", READ)
def test_it_is_read(how: str) -> None:
    assert answer(READ[how])


@pytest.mark.parametrize(
    "text",
    ["def f(): return x", "g = lambda: x", "h = (x for _ in y)", "class A:\n    a = x", "eval('x')", "log(locals())"],
)
def test_other_code_may_read_it(text: str) -> None:
    assert is_used_later([ast.parse(text)], "x")


def test_other_code_has_nothing_to_do_with_it() -> None:
    assert not is_used_later([ast.parse("def f(y): return y\nx = f(x)\nlog([x for _ in y])")], "x")


MADE = "class Thing: pass\nx = Thing()\n"


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ("for i in range(2):\n    x = Thing()", True),
        ("for i in range(2):\n    say(x)\n    x = Thing()", False),
        ("held = [x]\nfor i in range(2):\n    x = Thing()", False),
        ("y = x\nfor i in range(2):\n    x = y = Thing()", True),
        ("y = x\nfor i in range(2):\n    x = Thing()\n    say(y)", False),
        ("def f():\n    return x\nfor i in range(2):\n    x = Thing()", False),
        ("def f():\n    x = Thing()\n    for i in range(2):\n        x = Thing()\nf()", True),
        ("def f(y):\n    for i in range(2):\n        pass\n    return y\nx = f(x)", False),
        (
            "def f():\n    x = Thing()\n    def g():\n        return x\n    for i in range(2):\n        x = 1\nf()",
            False,
        ),
        ("import weakref\nr = weakref.ref(x)\nfor i in range(2):\n    x = Thing()", False),
    ],
)
def test_nothing_but_variables_has_an_object(text: str, unread: bool) -> None:
    assert is_unread_in(World(), text) == unread


def test_what_was_there_before_the_job_may_have_it_too() -> None:
    """A worker freezes what it has by then, and Python names no holder that is frozen."""
    world, library = World(), list[object]()
    world.namespace["keep"] = library.append
    gc.freeze()

    assert not is_unread_in(world, "keep(x)\nfor i in range(2):\n    x = Thing()")


def is_unread_in(world: World, text: str) -> bool:
    """At its first safe point."""
    found: list[bool] = []

    def ask() -> None:
        here = world.program.records()[-1]
        if "x" in here.cells:
            found.append(world.program.is_unread(here.cells["x"].cell_contents))
        else:
            variables = here.locals or world.namespace
            found.append(world.program.is_unread(variables.get("x", variables.get("y"))))

    world._run(MADE + text, ask)

    return found[0]

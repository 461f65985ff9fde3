"""Functions and closures: what is called, in what order, and what it shares with others."""

from __future__ import annotations

from .registry import EPOCH, probe

probe(
    "functions in functions, with keywords and defaults",
    """
def inner(xs, *, scale=2, **more):
    total = 0
    for x in xs:
        total += x * scale
        say((x, sorted(more)))
    return total

def outer(n, *rest, name="a"):
    results = []
    for i in range(n):
        results.append(inner([i, i + 1], scale=i, extra=name))
    return results, rest

found = []
for e in range(2):
    a, (b, *c) = outer(2, 7, 8, name=str(e)), [1, 2, 3]
    found.append(a)
found
""",
)

probe(
    "closures share nonlocal state with the running function",
    """
def train(n):
    best, history = None, []
    def keep(x):
        nonlocal best
        best = x if best is None else max(best, x)
        history.append(best)
    def batches():
        for b in range(n):
            yield b + (best or 0)
    callbacks = [keep, lambda x: say(("seen", x, best))]
    for b in batches():
        for callback in callbacks:
            callback(b)
        best -= 1
    return best, history

train(5)
""",
)

probe(
    "cells that are parameters, deleted, or empty yet",
    """
def f(a, b=2, *, c=3):
    def show():
        return a, b, c
    del b
    for i in range(3):
        a += i
        if i == 1:
            b = 7
            late = i
        def peek():
            return late
        try:
            say((show(), peek()))
        except NameError as error:
            say(type(error).__name__)
    return show

f(1)()
""",
)

probe(
    "a deleted parameter, an unbound local, and annotations",
    """
def f(a, b):
    del a
    count: int = 0
    shared: list = []
    later: int
    for i in range(3):
        count += i
        if i == 2:
            x = i
        try:
            say(x)
        except UnboundLocalError:
            say("unbound")
        try:
            a
        except UnboundLocalError:
            say("deleted")
    def g():
        return shared
    shared.append(count)
    return g()

f(1, 2)
""",
)

probe(
    "partial and recursion",
    """
from functools import partial

def depth(n, top):
    total = 0
    for i in range(n):
        total += depth(n - 1, top) + i
        say((n, i, top))
    return total

train = partial(depth, top="t")
train(3)
""",
)

probe(
    "a name is read before the call that changes it",
    """
box, d, k = [0], {"a": 1}, 1

class O:
    a = 1
o = O()

def f(n):
    global k
    for i in range(n):
        k += 10
        box[0] += 1
        d["a"] += 100
        o.a += 100
    return n

for e in range(2):
    k += f(2)
    o.a += f(1)
    d["a"] += f(1)
    box[0] += f(3)
    say((k, o.a, d["a"], box[0]))
    say(k + f(2) + k)
    say((k, f(1), k, [*box, f(1), *box]))
""",
)

probe(
    "chained comparisons and short circuits",
    """
def f(n=2):
    for i in range(n):
        say(("f", n))
    return n

for x in [1, 5, 3]:
    say(x < 3 < f())
    say(f(1) < x < f(4) < 10)
    say(x > 2 and f(x) or f(0) or "none")
    say(f(1) if x > 3 else f(3) + 1)
    say(not f(0) and (x < 2 or f()))
    if f(x) > 3 and x:
        say("big")
    elif f(2) == 2:
        for q in range(f(1) + 1):
            say(q)
    else:
        say("never")
""",
)

probe(
    "arguments in order of evaluation",
    """
def f(n, *more, **named):
    for i in range(n):
        say(("f", n, more, sorted(named)))
    return n

def it(name):
    say(name)
    return [name]

def show(*args, **kwargs):
    return args, kwargs

for e in range(2):
    say(show(*it("a"), f(1), *it("b"), f(2), x=f(1), **{"y": it("c")}, z=f(0)))
    say({it("k")[0]: f(1), **{"m": it("v")}, "n": f(2)})
    say(f"{it('p')}:{f(2):>{f(3)}}|{f(1)!r:<4}|{e}")
    say([1, 2, 3, 4][f(1):f(3)])
    say((y := f(1)) + f(y + 1) + y)
    say(max(f(1), f(2)) - -f(1) * e)
    say([f(2) for _ in range(2)])
    t = [0, 0, 0]
    t[f(1)], t[0] = f(2), f(1)
    say(t)
    assert f(1), "message"
    z: int = f(2)
""",
)

probe(
    "global, nonlocal and locals",
    """
total = 0

def f(n):
    global total
    for i in range(n):
        total += i
        say(sorted(locals()))
        say(sorted(dir()))
        say(sorted(vars()))
    return sorted(locals().items())

def g():
    x = 1
    def h(n):
        nonlocal x
        for i in range(n):
            x += i
            say(x)
        return x
    for k in range(2):
        h(k + 1)
    return x

say(f(2))
g()
""",
)

probe(
    "functions defined behind the point, decorators and lambdas",
    """
for i in range(2):
    say(i)

def wrap(fn):
    def inner(*args):
        say("wrapped")
        return fn(*args)
    return inner

@wrap
def f(n):
    for i in range(n):
        say(i)
    return n

def gen(n):
    '''The text of it.'''
    for i in range(n):
        yield lambda: i

for k in range(2):
    f(k + 1)
    for g in gen(2):
        say(g())
gen.__doc__
""",
)

probe(
    "the last expression is one of the calls",
    """
def f(n):
    for i in range(n):
        say(i)
    return [n]

for i in range(2):
    pass
f(2) + f(3)
""",
)

probe(
    "a lambda that trains, where it is called and by whoever it is given to",
    EPOCH
    + """
class Study:
    def optimize(self, objective, trials):
        self.values = []
        for trial in range(trials):
            self.values.append(objective(trial))

scale = 3
twice = lambda n, *, by=2: epoch(n) * by
def outer():
    seen = 5
    inner = lambda n: epoch(n, seen) + scale
    seen = 6
    return [inner(n) for n in (1, 2)], (lambda: epoch(2) and seen)()

study = Study()
study.optimize(lambda trial: epoch(trial, scale), 3)
both = (lambda n: epoch(n), lambda n: n)
(study.values, twice(2), twice(2, by=1), outer(), both[0](1), [twice(n) for n in (1, 2)])
""",
)

"""Cells of which every safe point is tried. Their names say what would go wrong."""

from __future__ import annotations

PROBES: dict[str, str] = {}


def probe(name: str, text: str) -> None:
    PROBES[name] = text


probe(
    "nested loops with continue, break and else",
    """
out = []
for i in range(4):
    for j in range(4):
        if j == i:
            continue
        if i * j > 5:
            break
        out.append((i, j))
    else:
        say(("no break", i))
n = 0
while n < 7:
    n += 2
    for k, (a, b) in enumerate(zip([1, 2], "xy")):
        if n == 6:
            break
        out.append((n, k, a, b))
    else:
        continue
    say("left")
    break
else:
    say("never")
(out, n)
""",
)
probe(
    "the else of a for has loops of its own",
    """
for i in range(2):
    say(i)
else:
    for j in range(3):
        say(("else", j))
        for k in [5, 6]:
            say(k)
else_done = True
""",
)
probe(
    "the else of a while has loops of its own",
    """
n = 3
while n:
    n -= 1
else:
    for j in range(3):
        say(("else", j))
    while n < 2:
        n += 1
""",
)
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
    "an exception leaves an entered callee",
    """
def f(n):
    for i in range(n):
        say(i)
        if i == 2:
            raise ValueError(i)
    return n

after = []
for n in [2, 5, 1]:
    try:
        after.append(f(n))
        after.append("went on")
    except ValueError as error:
        after.append(str(error))
    else:
        after.append("well")
    finally:
        after.append("finally")
    after.append(n)
after
""",
)
probe(
    "an exception that nobody catches",
    """
def f(n):
    for i in range(n):
        say(1 // (2 - i))

for n in range(4):
    say(("n", n))
    f(n)
""",
)
probe(
    "yield from in a generator has a position of its own",
    """
def leaves(n):
    for i in range(n):
        got = yield (n, i)
        if got:
            say(("got", got))
    return n * 10

def tree():
    first = yield "start"
    x = yield from leaves(3)
    say(("x", x, first))
    y = yield from [x, x + 1]
    yield from leaves(y or 2)

for item in tree():
    say(item)
""",
)
probe(
    "what is sent and thrown into a generator arrives",
    """
def average():
    total = count = 0
    value = None
    while True:
        try:
            value = yield (total / count if count else None)
        except KeyError as error:
            say(("caught", str(error)))
            total = count = 0
            continue
        total += value
        count += 1

def through():
    result = yield from average()

g = through()
next(g)
for i in range(6):
    say(g.send(i))
    if i == 3:
        say(g.throw(KeyError("reset")))
g.close()
""",
)
probe(
    "generators over generators, one begun, one not, one ended",
    """
def numbers(n):
    i = 0
    while i < n:
        yield i
        i += 1
    return "end"

def squares(xs, k=2):
    for x in xs:
        yield x ** k

begun, waiting, ended = numbers(20), squares(numbers(4), k=3), numbers(0)
list(ended)
say(next(begun))
for a, b in zip(squares(begun), range(5)):
    say((a, b, next(begun)))
    if a > 30:
        say(next(waiting))
say(list(waiting))
say(list(ended))
say(next(begun))
""",
)
probe(
    "a generator's loops, branches and try around its yields",
    """
def walk(n):
    for i in range(n):
        if i % 2:
            for j in range(i):
                yield ("odd", i, j)
        elif i == 4:
            try:
                yield "trying"
                x = (yield "more") or 1
                say(x)
            finally:
                say("finally")
        else:
            yield "even"
            while i < 3:
                i += 1
                yield ("while", i)
    else:
        yield "else"

for item in walk(6):
    say(item)
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
    "classes with private names, super and properties",
    """
class Base:
    def fit(self, n):
        self.__secret = 0
        for i in range(n):
            self.__step(i)
        return self.__secret
    def __step(self, i):
        __twice = 2
        for _ in range(__twice):
            self.__secret += i

class Child(Base):
    def __init__(self):
        self.seen = []
    def fit(self, n):
        for k in range(2):
            self.seen.append(super().fit(n + k))
            assert __class__ is Child
        return self.seen
    @classmethod
    def run(cls, n):
        for _ in range(2):
            say(cls().fit(n))
    @staticmethod
    def count(n):
        for i in range(n):
            say(i)

Child.run(2)
Child().count(2)
c = Child()
bound = c.fit
bound(2)
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
    "context managers of all kinds",
    """
from contextlib import contextmanager, ExitStack, suppress

class Manager:
    def __init__(self, name):
        self.name = name
    def __enter__(self):
        say(("enter", self.name))
        return [self.name]
    def __exit__(self, kind, error, trace):
        say(("exit", self.name, kind and kind.__name__))
        return self.name == "quiet"

@contextmanager
def section(name):
    say(("begin", name))
    try:
        yield name.upper()
    finally:
        say(("end", name))

for i in range(2):
    with Manager("a") as a, section("s") as s, Manager("quiet"):
        for j in range(2):
            say((a, s, j))
            with section("inner") as (x, *rest):
                for k in range(2):
                    a.append(x)
                    if i and j and k:
                        raise ValueError("kept quiet")
    with ExitStack() as stack:
        stack.enter_context(Manager("b"))
        for j in range(2):
            stack.callback(say, j)
    with suppress(KeyError):
        for j in range(3):
            if j == 1:
                raise KeyError(j)
""",
)
probe(
    "return, break and continue out of with and try",
    """
class Manager:
    def __enter__(self):
        say("enter")
    def __exit__(self, *error):
        say("exit")

def f():
    for i in range(5):
        with Manager():
            try:
                for j in range(3):
                    if j == 1 and i == 1:
                        continue
                    if i == 2:
                        break
                    if i == 3:
                        return (i, j)
                    say((i, j))
                if i == 2:
                    continue
            finally:
                say("finally")
        say(("end", i))

f()
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
    "an iterator whose iter starts it again",
    """
class Loader:
    def __init__(self):
        self.begun = 0
    def __iter__(self):
        self.begun += 1
        self.i = 0
        return self
    def __next__(self):
        self.i += 1
        if self.i > 3:
            raise StopIteration
        return self.begun, self.i

class Bare:
    def __iter__(self):
        return Only()

class Only:
    left = 2
    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left

def each(xs):
    for x in xs:
        yield x

def all_of(xs):
    yield from xs

loader = Loader()
for e in range(2):
    for x in loader:
        say(x)
    for x in each(loader):
        say(x)
    for x in all_of(loader):
        say(x)
    for x in each(Bare()):
        say(x)
    for x in Bare():
        say(x)
loader.begun
""",
)
probe(
    "iterators at a position",
    """
import itertools
d = {"a": 1, "b": 2, "c": 3}
for k, v in d.items():
    for p in itertools.product([1, 2], "xy"):
        say((k, v, p))
counter = itertools.count(5)
for a in reversed(range(3)):
    say((a, next(counter)))
for c in itertools.chain("ab", map(str, [1, 2]), filter(None, [0, 1])):
    say(c)
it = iter([1, 2, 3, 4])
for x in it:
    say((x, next(it)))
for t in zip(range(2), enumerate("xyz", 3)):
    say(t)
""",
)
probe(
    "loops where no safe point is",
    """
def f(n):
    for i in range(n):
        say(i)
    return n

for e in range(2):
    try:
        raise ValueError
    except ValueError:
        for i in range(2):
            say(("handler", i))
    finally:
        for i in range(2):
            say(("finally", i))
    match e:
        case 0:
            for i in range(2):
                say("match")
    say([f(2) for _ in range(2)])
    say(sorted([1, 2], key=f))
    class Local:
        for i in range(2):
            say("class")
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
    "a while whose test has an effect",
    """
xs = [3, 2, 1]
def more():
    for _ in range(1):
        pass
    return bool(xs)

while xs and (x := xs.pop()):
    say(x)
    while x > 0:
        x -= 1
xs = [1, 2]
while more():
    say(xs.pop())
""",
)
probe(
    "an unfinished try with loops in its else",
    """
for n in range(3):
    try:
        say("try")
        for i in range(n):
            say(i)
    except ZeroDivisionError:
        say("no")
    else:
        for j in range(2):
            say(("else", 1 // (n - 1) if n != 1 else j))
    finally:
        say("finally")
""",
)

probe(
    "generators that are methods",
    """
class Data:
    __scale = 2
    def __init__(self, n):
        self.n = n
    def __iter__(self):
        for i in range(self.n):
            yield from self.__twice(i)
    def __twice(self, x):
        yield x * self.__scale
        yield super().__repr__()[:9]
    @staticmethod
    def pairs(xs):
        last = None
        def keep(x):
            nonlocal last
            last = x
        for x in xs:
            yield last, x
            keep(x)
    @property
    def backwards(self):
        for i in reversed(range(self.n)):
            got = yield i
    @classmethod
    def of(cls, *sizes, **named):
        for size in (*sizes, *named.values()):
            yield cls(size)

for data in Data.of(1, 2, last=3):
    for a, b in Data.pairs(data):
        say((a, b))
    for i in data.backwards:
        say(i)
del data
""",
)

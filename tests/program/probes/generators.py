"""Generators, and other iterators at a position."""

from __future__ import annotations

from .registry import probe

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

probe(
    "generator expressions, with conditions, closures and one inside another",
    """
def doubled(xs, k):
    return (x * k for x in xs if x != 2)

class Holds:
    def __init__(self, n):
        self.n, self.items = n, (i + self.n for i in range(n))

held, later = Holds(4), (x for x in [5, 6, 7])
say(next(later))
for a in (b + 1 for b in (c * 2 for c in range(4) if c)):
    say((a, next(held.items), next(later, None)))
for i, x in enumerate(doubled(iter([1, 2, 3, 4]), 10)):
    say((i, x))
    for y in (z for z in later):
        say(y)
say(list(held.items))
del later
""",
)
probe(
    "generators of a library, in the arguments of others and in variables",
    """
import difflib, ipaddress, itertools
net = ipaddress.ip_network("10.0.0.0/31")
for address in net:
    for i, (a, b) in enumerate(zip(net, [address, *[5]])):
        say((i, str(a), str(b)))
lines = difflib.unified_diff(["a", "b"], ["a", "c"], lineterm="")
for line in lines:
    say(line)
for i, (a, b) in enumerate(zip(difflib.ndiff(["x"], ["y"]), itertools.islice(difflib.ndiff(["u"], ["v"]), 2))):
    say((i, a, b))
for c in (line.strip() for line in difflib.context_diff(["a"], ["b"], lineterm="")):
    say(c)
more = difflib.ndiff(["p"], ["q"]) if i else None
say(next(more))
for line in more:
    say(line)
del lines, more
""",
)

"""Methods, constructors and properties."""

from __future__ import annotations

from .registry import probe

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
    "constructors that train",
    """
class Base:
    def __init__(self, n, *, log=None):
        self.n, self.log = n, log
        for i in range(n):
            self.step(i)
    def step(self, i):
        say((type(self).__name__, i))

class Trainer(Base):
    made = 0
    def __init__(self, n):
        Trainer.made += 1
        super().__init__(n, log=[])
        while n:
            n -= 1
            self.log.append(Inner([n, n]).total())

class Inner:
    def __new__(cls, xs):
        found = object.__new__(cls)
        found.first = xs[0]
        return found
    def __init__(self, xs):
        self.xs = [x + 1 for x in xs]
    def total(self):
        return sum(self.xs) + self.first

class Wrong:
    def __init__(self, n):
        for i in range(n):
            say(("wrong", i))
        return n

class Counted(type):
    def __call__(cls, *args):
        say(("counted", args))
        return super().__call__(*args)

class Own(Base, metaclass=Counted):
    pass

trainers = {name: Trainer(n) for name, n in (("a", 1), ("b", 2))}
try:
    Wrong(2)
except TypeError as error:
    say(str(error))
own = Own(1)
[(name, one.n, one.log, isinstance(one, Base)) for name, one in trainers.items()], Trainer.made, own.n
""",
)

probe(
    "properties that train",
    """
from functools import cached_property

class Otherwise:
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"no {name}"

class Trainer(Otherwise):
    def __init__(self, n):
        self.n, self.log = n, []
    @property
    def fitted(self):
        for i in range(self.n):
            self.log.append(i)
        return self
    @cached_property
    def total(self):
        say("once")
        return sum([self.step(x) for x in self.log])
    @property
    def wrong(self):
        for i in range(2):
            say(("wrong", i))
        raise AttributeError("wrong")
    @property
    def n_more(self):
        return self.fitted.n + 1
    @n_more.setter
    def n_more(self, n):
        self.n = n - 1
    def step(self, x):
        return x + 1

class Fixed:
    total = 7
    def __init__(self):
        self.fitted = "a plain one"

trainer, fixed = Trainer(2), Fixed()
seen = trainer.fitted.n * trainer.total + trainer.total
trainer.n_more = 2
trainer.n_more += 1
[one.fitted for one in (fixed, fixed)], [one.total for one in (trainer, fixed)], trainer.wrong, trainer.log, seen
""",
)

probe(
    "methods that are no functions",
    """
from functools import partial
from types import MethodType

class Counts:
    def __call__(self, owner, n):
        for i in range(n):
            say((owner.name, i))
        return n

class Owner:
    def __init__(self, name):
        self.name = name

def named(scale, owner, n):
    for i in range(n):
        say((owner.name, scale * i))
    return scale * n

a = Owner("a")
a.counts, a.scaled, a.most = MethodType(Counts(), a), MethodType(partial(named, 3), a), MethodType(partial(max, 5), 4)
found = []
for e in range(2):
    found.append((a.counts(2), a.scaled(e + 1), a.most()))
found
""",
)

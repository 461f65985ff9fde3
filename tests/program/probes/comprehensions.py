"""Comprehensions that train: each of their items is a place at which a cell can be left."""

from __future__ import annotations

from .registry import EPOCH, probe

probe(
    "a list, a set and a dict of what is trained",
    EPOCH
    + """
x = "of the cell"
a = [epoch(x) for x in range(3)]
b = {epoch(x) % 2 for x in range(4)}
c = {x: epoch(x) for x in (1, 2)}
d = {str(epoch(x)): x for x in (1, 2)}
(a, b, c, d, x)
""",
)

probe(
    "comprehensions in each other, with tests and several loops",
    EPOCH
    + """
grid = [[epoch(i + j) for j in range(i)] for i in range(3)]
flat = [(i, j, epoch(j)) for i in range(3) if i for j in range(i) if epoch(j) >= 0 and j < 2]
pairs = [epoch(a, len(b)) for a, (b, *c) in zip([1, 2], ["xy", "zw"]) if len(c) == 1 or epoch(1)]
hidden = [[x for x in range(x)] + [epoch(x)] for x in range(3)]
(grid, flat, pairs, hidden)
""",
)

probe(
    "what takes all at once of a generator expression",
    EPOCH
    + """
best = max(epoch(n) for n in range(4))
mean = sum(epoch(n) for n in range(1, 3)) / 2
order = sorted((epoch(n) for n in (3, 1)), reverse=True)
table = dict((n, epoch(n)) for n in (1, 2))
scores = list(map(epoch, range(3))) + [max(map(epoch, (1, 2)), default=0), sum(map(epoch, [])), *map(epoch, (2,))]
also = list(map(lambda n: epoch(n) + 1, (1, 2))), list(map(int, "12")), list(map(max, (1, 2), (0, 3)))
(best, mean, order, table, tuple(epoch(n) for n in (1,)), scores, also)
""",
)

probe(
    "comprehensions in the midst of expressions, in their order",
    EPOCH
    + """
def told(x):
    say(("told", x))
    return x

v = told(1) + sum([epoch(n) for n in (1, 2)]) * told(2)
w = told(0) or [epoch(n) for n in (1, 2)] or told(3)
u = [epoch(n) for n in (2,)] if told(1) else [epoch(n) for n in (5,)]
print_it = (told(4), *[epoch(n) for n in (1,)], {told(5): [epoch(n) for n in (2,)]})
for k in [epoch(n) + 1 for n in (2, 3)]:
    say(("over", k))
while len([epoch(n) for n in (1,)]) > 2:
    pass
(v, w, u, print_it)
""",
)

probe(
    "variables of the function around them",
    """
class Runner:
    def __init__(self):
        self.seen = []

    def step(self, n):
        for i in range(n):
            self.seen.append(i)
            say(i)
        return n

    def run(self, sizes):
        count, n = 0, "around"
        def note(x):
            nonlocal count
            count += x
            return count
        found = [note(self.step(n)) + count for n in sizes]
        later = [lambda: n + size for size in sizes]
        kept = {size: note for size in sizes}
        if (last := [self.step(size) for size in sizes]) and count:
            found.append(last)
        return found, count, n, len(later), [kept[size](0) for size in sizes], [one for one in sizes]

r = Runner()
(r.run([1, 2]), r.seen)
""",
)

probe(
    "an error in one",
    """
def step(n):
    for i in range(n):
        say(i)
    if n == 2:
        raise ValueError(n)
    return n

caught = None
try:
    found = [step(n) for n in range(4)]
except ValueError as e:
    caught = str(e)
n = 7
with_default = [step(n) for n in (0, 1)] + [n]
(caught, with_default, [k for k in (1, 2)])
""",
)

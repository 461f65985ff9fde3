"""Loops, branches, `with` and `try`, and the ways out of them."""

from __future__ import annotations

from .registry import probe

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
        pass
    finally:
        for i in range(2):
            say(("finally", i))
    say([f(2) for _ in range(2)])
    say(sorted([1, 2], key=f))
    class Local:
        for i in range(2):
            say("class")
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
    "match, with guards, captures and loops in its cases",
    """
class Point:
    __match_args__ = ("x", "y")
    def __init__(self, x, y):
        self.x, self.y = x, y

def f(n):
    for i in range(n):
        say(i)
    return n

def what(thing, k=2):
    def seen():
        return rest
    match thing:
        case Point(x, 0):
            for i in range(k):
                say(("on the axis", x, i))
        case Point(x=a) if a > f(1):
            while k:
                k -= 1
                if a == 3:
                    continue
                say(("right", a, k))
            else:
                return "returned"
        case [first, *rest]:
            for one in rest:
                match one:
                    case 1 | 2 as small:
                        for j in range(small):
                            say(seen())
                    case _:
                        break
        case {"key": value, **more}:
            say((f(value), more))
        case str():
            say("no loop here")
    return k

for thing in [Point(1, 0), Point(2, 5), Point(3, 3), [0, 2, 1, 7, 1], {"key": 2, "b": 1}, "text", 5]:
    say(what(thing))
    match f(2):
        case 2 if thing == 5:
            break
        case n:
            for i in range(n):
                say(n)

def each(things):
    for thing in things:
        match thing:
            case int():
                got = yield thing
            case [*inside]:
                yield from each(inside)

for x in each([1, [2, [3], "no"], 4]):
    say(x)
""",
)

probe(
    "except blocks with loops, the error's name, and errors that they raise",
    """
import sys

def f(n):
    for i in range(n):
        say((i, repr(sys.exc_info()[1])))
    return n

def handled(n):
    try:
        for i in range(3):
            if i == n:
                [1, 2][{0: 5, 1: "a"}.get(n, slice(0))] + ({} if n == 2 else [])
    except IndexError as error:
        for k in range(2):
            say((k, str(error)))
            try:
                raise KeyError(k)
            except KeyError as inner:
                for j in range(2):
                    say((repr(inner), repr(inner.__context__), f(1)))
                if k:
                    continue
            say("went on")
    except (TypeError, say("evaluated") or ValueError):
        f(2)
        raise
    except:
        while n < 4:
            n += 1
    else:
        for k in range(2):
            say("no error")
    finally:
        say("finally")
    try:
        error
    except NameError:
        return "unbound"

for n in range(4):
    try:
        say(handled(n))
    except TypeError as error:
        for i in range(2):
            say((type(error).__name__, str(sys.exc_info()[1])))
        n = None
    except Exception as error:
        error = 5
        for i in range(2):
            say(error)

def recovering(things):
    last = None
    while True:
        try:
            following = next(things)
            if last is not None:
                yield last
            last = following
        except StopIteration:
            got = yield last
            yield from [got, "end"]
            break

for x in recovering(iter([1, 2, 3])):
    for y in recovering(iter([x])):
        say((x, y))
""",
)

probe(
    "finally with loops, after an error, after none, and with a way out of its own",
    """
def work(n, fails=False):
    try:
        for i in range(n):
            say(("work", i))
        if fails:
            raise KeyError(n)
    finally:
        for i in range(2):
            say(("at last", i))
    return n

def caught(n):
    try:
        for i in range(n):
            if i == 1:
                raise ValueError(i)
    except ValueError as error:
        say(str(error))
        for i in range(n):
            say(("caught", i))
    else:
        say("no error")
    finally:
        kept = work(1)
        for i in range(2):
            say(("at last", i))
    return kept

def swallowed():
    try:
        raise OSError("away")
    finally:
        for i in range(3):
            if i:
                return work(i)

def returns(n):
    try:
        return n
    finally:
        for i in range(n):
            say(("returns", i))

for e in range(2):
    try:
        work(e, fails=True)
    except KeyError as error:
        say(str(error))
    finally:
        last = [work(k) for k in range(2)]
(caught(1), caught(2), swallowed(), returns(2), last)
""",
)

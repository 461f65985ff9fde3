"""Simulations in compiled code: where one stands is in no attribute, but the same calls lead there again.

Environments of Box2D, Atari or MuJoCo say of themselves (by a base class `EzPickle`, gym's convention) with which
arguments they are made again; pickled by that, they have forgotten where they stood. So what began the episode and the
calls since then are noted, of all that are made after `watch`, and are done again by whoever takes over. Where one can
copy its state itself (`clone_state`, Atari's), the episode begins with that: its random numbers are nowhere else, and
the copy does not hold the last action, which may be repeated.
"""

from __future__ import annotations

import copy
import functools
import random
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from xxhash import xxh3_64

from .objects import is_generator, module_of

_CONVENTION = "EzPickle"
_LONGEST = 200_000  # calls of an episode that are kept; to do more again would take minutes
_ATOMS = (int, float, str, bool, bytes, complex, type(None))


class CallSeen(NamedTuple):
    owner: type  # whose method it is
    name: str
    args: tuple[Any, ...]
    keywords: dict[str, Any]


class Stood(NamedTuple):
    """Where a simulation stands, for another one made by the same arguments."""

    args: tuple[Any, ...]
    keywords: dict[str, Any]
    before: dict[str, Any]  # its plain attributes and its generators when the episode began
    copied: Any  # what it said itself then; None: nothing
    calls: list[CallSeen]
    gave: int  # a digest of what they returned


class Forgotten(Exception):
    """Why it is not known where one stands: a sentence's end."""


class _Episode:
    """What was seen of one simulation. Nothing that goes wrong here is the user's concern: then it is not known."""

    def __init__(self, simulation: Any) -> None:
        key = id(simulation)
        self.gone = weakref.ref(simulation, lambda _: _episodes.pop(key, None))
        self.before: dict[str, Any] = {}
        self.copied: Any = None
        self.calls: list[CallSeen] | None = None  # None: they are not all known
        self.gave = xxh3_64()
        self.inside = False  # one of its calls

    def goes_on(self, stood: Stood) -> None:
        """It stands where that one's episode began."""
        self.before, self.copied, self.calls, self.gave = stood.before, stood.copied, [], xxh3_64()

    def sees(self, simulation: Any, call: CallSeen) -> None:
        try:
            if call.name == "__init__":
                self.calls = None  # until it is made
                return
            if call.name == "reset":
                # Where it has no generator yet it makes itself one, from what nobody could have again: now, then.
                getattr(simulation, "np_random", None)
                self._begin(simulation)
            if self.calls is not None:
                args, keywords = copy.deepcopy((call.args, call.keywords))
                self.calls.append(call._replace(args=args, keywords=keywords))
                if len(self.calls) > _LONGEST:
                    self.calls = None
        except Exception:
            self.calls = None

    def saw(self, simulation: Any, name: str, gave: Any) -> None:
        try:
            if name == "__init__":
                self.before, self.copied, self.calls, self.gave = {}, None, [], xxh3_64()
            elif name == "reset" and _copies_itself(type(simulation)):
                self._begin(simulation)
                self.copied = simulation.clone_state(include_rng=True)
            else:
                _fold(self.gave, gave)
        except Exception:
            self.calls = None

    def _begin(self, simulation: Any) -> None:
        self.before = {name: copy.deepcopy(one) for name, one in vars(simulation).items() if is_own(one)}
        self.calls, self.gave, self.copied = [], xxh3_64(), None


_episodes: dict[int, _Episode] = {}  # by the id() of a simulation
_noted: dict[Callable[..., Any], Any] = {}  # a class's own method, by what stands in its place


def is_simulation(cls: type) -> bool:
    return any(base.__name__ == _CONVENTION for base in cls.__mro__[1:])


def watch(module: ModuleType) -> None:
    """Note the calls of its simulations from now on; to be called when a module's code has run."""
    for cls in [one for one in list(vars(module).values()) if issubclass(type(one), type)]:
        if module_of(cls) == module.__name__ and is_simulation(cls):
            for name in ("__init__", "reset", "step"):
                method = vars(cls).get(name)
                if isinstance(method, FunctionType) and method not in _noted:
                    setattr(cls, name, _noting(cls, name, method))


def _copies_itself(cls: type) -> bool:
    return hasattr(cls, "clone_state") and hasattr(cls, "restore_state")


def _noting(cls: type, name: str, method: FunctionType) -> Callable[..., Any]:
    @functools.wraps(method)
    def noted(self: Any, *args: Any, **keywords: Any) -> Any:
        episode = _episode_of(self)
        if episode is None or episode.inside:
            return method(self, *args, **keywords)
        episode.inside = True
        try:
            episode.sees(self, CallSeen(cls, name, args, keywords))
            gave = method(self, *args, **keywords)
            episode.saw(self, name, gave)
            return gave
        except BaseException:
            episode.calls = None  # halfway through
            raise
        finally:
            episode.inside = False

    _noted[noted] = method
    return noted


def _episode_of(simulation: Any) -> _Episode | None:
    episode = _episodes.get(id(simulation))
    if episode is None and type(simulation).__weakrefoffset__:
        episode = _episodes[id(simulation)] = _Episode(simulation)
    return episode


def is_own(value: Any) -> bool:
    """Whether an attribute is a plain value, or draws random numbers."""
    return isinstance(value, _ATOMS) or is_generator(value)


def _fold(digest: Any, value: Any) -> None:
    """What it returned, but for remarks (a dict)."""
    if isinstance(value, tuple | list):
        for one in value:
            _fold(digest, one)
    elif hasattr(value, "tobytes"):
        digest.update(value.tobytes())
    elif isinstance(value, _ATOMS):
        digest.update(repr(value).encode())


def owner_of(cls: type) -> type:
    """Whose `__init__` takes the arguments: not a notebook's own class, which calls that one."""
    return next(base for base in cls.__mro__ if "__init__" in vars(base) and module_of(base) != "__main__")


def filled_by_itself(cls: type) -> set[str]:
    """The names that its own methods use, but for those that a notebook's class gave it: the same calls fill them."""
    bodies = (vars(base).values() for base in cls.__mro__ if module_of(base) != "__main__")
    methods = (_noted.get(one, one) for body in bodies for one in body if isinstance(one, FunctionType))
    return {name for method in methods for name in method.__code__.co_names}


def made_with(simulation: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    own = vars(simulation)
    return own["_ezpickle_args"], own["_ezpickle_kwargs"]


def tell(simulation: Any) -> Stood:
    """Where it stands; Forgotten, if nobody knows."""
    episode = _episodes.get(id(simulation))
    if episode is None or episode.calls is None:
        raise Forgotten("how it came to where it stands was not seen")
    calls, gave = list(episode.calls), episode.gave.intdigest()
    return Stood(*made_with(simulation), episode.before, episode.copied, calls, gave)


def make_again(simulation: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """As it was when it was made. `__init__` is called on itself: parts of it may hold it."""
    with _drawing_nothing(), _of_its_library(simulation) as cls:
        cls.__init__(simulation, *args, **keywords)  # type: ignore[misc]


def take(simulation: Any, stood: Stood) -> None:
    """Have it stand there; Forgotten, if that could not be done to the bit."""
    make_again(simulation, stood.args, stood.keywords)
    gave = xxh3_64()
    with _drawing_nothing(), _of_its_library(simulation):
        if stood.copied is not None:
            simulation.restore_state(stood.copied)
            if (episode := _episode_of(simulation)) is not None:
                episode.goes_on(stood)
        vars(simulation).update(copy.deepcopy(stood.before))
        for call in stood.calls:
            args, keywords = copy.deepcopy((call.args, call.keywords))
            try:
                _fold(gave, getattr(call.owner, call.name)(simulation, *args, **keywords))
            except Exception as error:
                raise Forgotten(f"the same calls failed ({type(error).__name__}: {error})") from error
    if gave.intdigest() != stood.gave:
        raise Forgotten("the same calls gave other results")


@contextmanager
def _of_its_library(simulation: Any) -> Iterator[type]:
    """What a notebook's class does besides has been done, and what it notes arrives by itself."""
    own = type(simulation)
    owner = owner_of(own)
    if owner is not own:
        object.__setattr__(simulation, "__class__", owner)
    try:
        yield owner
    finally:
        if owner is not own:
            object.__setattr__(simulation, "__class__", own)


@contextmanager
def _drawing_nothing() -> Iterator[None]:
    """The process's own generators stand afterwards as before."""
    state = random.getstate()
    numpy = sys.modules.get("numpy")
    of_numpy = numpy.random.get_state() if numpy else None
    try:
        yield
    finally:
        random.setstate(state)
        if numpy:
            numpy.random.set_state(of_numpy)

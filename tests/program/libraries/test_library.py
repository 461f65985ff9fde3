"""Generators of libraries: rewritten where their text is known, and their own again afterwards."""

from __future__ import annotations

import importlib
import linecache
import re
import sys
from pathlib import Path

import pytest

from jupyter_gpufit.program.libraries import texts
from jupyter_gpufit.program.libraries import versions as library_versions
from jupyter_gpufit.program.libraries.library import Library, read_ahead
from jupyter_gpufit.program.values import PROGRAM

from ..crossing import World, at_points, in_a_chain, plain, rewritten
from ..test_program import where

SAMPLER = """
import torch
from torch.utils.data import BatchSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler

torch.manual_seed(4)
samplers = [
    RandomSampler(range(7)),
    RandomSampler(range(5), replacement=True, num_samples=40),
    RandomSampler(range(3), num_samples=7, generator=torch.Generator().manual_seed(1)),
    SubsetRandomSampler([3, 5, 8]),
    WeightedRandomSampler([0.1, 0.5, 0.4], 5),
    BatchSampler(RandomSampler(range(7)), 3, drop_last=True),
    BatchSampler(RandomSampler(range(7)), 3, drop_last=False),
]
for sampler in samplers:
    for i in sampler:
        say(i)
del samplers, sampler
"""


@pytest.mark.slow
def test_samplers_keep_their_order() -> None:
    # The next world begins where the last one left torch's generator, as if it had been saved with the rest.
    assert at_points(SAMPLER, most=12) == 12


@pytest.mark.slow
def test_samplers_are_torchs_own_again_when_the_cell_has_ended() -> None:
    from torch.utils.data import RandomSampler

    own = RandomSampler.__iter__.__code__
    world = World()
    codes = []
    world.namespace["say"] = lambda _: codes.append(RandomSampler.__iter__.__code__)

    world.run("from torch.utils.data import RandomSampler\nfor i in RandomSampler(range(3)): say(i)")

    assert RandomSampler.__iter__.__code__ is own
    assert own not in codes
    assert "__gf__" not in RandomSampler.__iter__.__globals__


@pytest.mark.slow
def test_a_progress_bar_that_the_cell_imports() -> None:
    text = """
import io
from tqdm import tqdm
for e in range(2):
    for i, x in enumerate(tqdm("abc", file=io.StringIO())):
        say((e, i, x))
"""
    assert rewritten(text).notes == []
    from tqdm.std import tqdm

    assert "_gf_f" not in tqdm.__iter__.__code__.co_varnames


def test_a_library_with_a_loop_is_loaded_where_the_cell_loads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
import random
drawn = random.random()

class Trainer:
    def fit(self, say):
        for i in range(3):
            say((i, random.random()))
"""
    (tmp_path / "drawing_library.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    cell = """
import random
random.seed(1)
from drawing_library import Trainer
Trainer().fit(say)
del Trainer
"""
    whole = plain(cell)
    del sys.modules["drawing_library"]

    ran = rewritten(cell)

    assert ran.log == whole.log
    assert ran.points == 4  # with the one behind the last item


@pytest.mark.slow
def test_a_context_manager_of_a_library() -> None:
    text = """
from contextlib import nullcontext
from tests.program.managers import section

for i in range(2):
    with section(f"s{i}", log) as s, nullcontext():
        for k in range(2):
            say((s, k))
"""
    assert at_points(text) == 9
    assert in_a_chain(text) > 2


@pytest.mark.slow
def test_generators_of_any_library() -> None:
    text = """
from tests.program.managers import Loader, numbered

for number, thing in numbered("a", "b", start=3, c="d"):
    say((number, thing))
for batch in Loader().batches(["a", "b", "c", "d", "e"]):
    for thing in numbered(*batch):
        say(thing)
"""
    assert at_points(text) == 4 + 3 + 6
    assert in_a_chain(text) > 4


@pytest.mark.slow
def test_generators_inside_what_a_library_hands_on() -> None:
    text = """
import pandas
plain = {"dtype": object}  # where pyarrow is there, texts are its own, and its iterators show nothing
frame = pandas.DataFrame([[1, "x"], [2, "y"]], columns=pandas.Index(["a", "b"], **plain), **plain)
for row in frame.itertuples(name=None):
    say(row)
for i, (name, column) in enumerate(frame.items()):
    say((i, name, list(column)))
for x in map(str.upper, frame["b"]):
    say(x)
del frame, column
"""
    assert at_points(text) == 9


def test_matches_of_a_text_are_counted() -> None:
    text = """
import importlib
import linecache
import re
def rest():
    begun = [re.finditer("[a-z]", "abcd")]
    next(begun[0])
    return begun.pop()
for text in (match[0] for match in re.finditer("\\\\d+", "1 22 333")):
    say(text)
for text in (match[0] for match in rest()):
    say(text)
for text in (match[0] for match in re.finditer("x", "abc")):
    say(text)
for text in (match[0] for match in iter(re.finditer("b", "abcb"))):
    say(text)
"""
    assert at_points(text) == 4 + 4 + 1 + 3


def test_a_look_into_a_directory_can_be_gone_into_and_closed() -> None:
    text = """
import os
folder = os.path.join(os.path.dirname(os.__file__), "json")
look = os.scandir(folder)
with look:
    for entry in look:
        say(entry.name)
look = os.scandir(folder)
for entry in look:
    look.close()
    say(list(look))
del look, entry
"""
    assert rewritten(text).log == plain(text).log


def test_a_part_that_somebody_else_holds_stays_the_same() -> None:
    text = """
from tests.program.managers import numbered
held = [numbered("a", "b", "c", "d", "e")]
def pairs():
    return zip(held[0], "xy")
for thing in pairs():
    say((thing, next(held[0])))
del held, thing
"""
    assert rewritten(text).log == plain(text).log


def test_a_generator_that_somebody_else_holds_stays_the_same() -> None:
    text = """
from tests.program.managers import numbered

held = [numbered("a", "b", "c", "d")]
same = held[0]
def get():
    return same
for e in range(2):
    for thing in get():
        say(thing)
        say(next(held[0]))
        break
    for thing in iter(same):
        say(thing)
        break
del held, same, thing
"""
    assert rewritten(text).log == plain(text).log == [(0, "a"), (1, "b"), (2, "c"), (3, "d")]
    assert at_points(text) == 7  # also with the held one, and in it: where a call makes it, it is one that can be saved


@pytest.mark.slow
def test_the_parameters_of_a_module() -> None:
    text = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
for e in range(2):
    for name, p in model.named_parameters():
        say((name, tuple(p.shape)))
    for m in model.modules():
        say(type(m).__name__)
del model, p, m
"""
    assert at_points(text) == 3 + 2 * (3 + 4)


def test_the_record_names_digests_and_versions() -> None:
    assert all(
        re.fullmatch(r"[0-9a-f]{16}", digest) and re.search(r"\d", versions)
        for functions in library_versions.record().values()
        for known in functions.values()
        for digest, versions in known.items()
    )


@pytest.mark.parametrize(
    ("version", "versions", "is_named"),
    [
        ("2.5.1", "2.4.0, 2.5.1", True),
        ("2.5.2", "2.4.0 to 2.5.10", True),
        ("2.5.11", "2.4.0 to 2.5.10", False),
        ("2.5.2", "lightning 2.5.1 to 2.5.3", True),
        ("2.5.2", "2.5.1, 2.5.3", False),
    ],
)
def test_a_version_is_tested_if_the_record_names_it(version: str, versions: str, is_named: bool) -> None:
    assert library_versions.is_named(version, versions) == is_named


def test_the_grade_of_a_function_does_not_depend_on_its_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = library_versions.digests_of
    first = digests("def f(x):\n    'What it is for.'\n    for i in x: pass  # slow\n")
    same, other = digests("def f(x):\n    for i in x:\n        pass\n"), digests("def f(x):\n    return 1\n")
    monkeypatch.setattr(library_versions, "record", lambda: {"lib": {"f": {first[0]: "1.0 to 1.4"}}})

    assert library_versions.grade_of("lib", "f", first, "1.2") == "tested"
    assert library_versions.grade_of("lib", "f", same, "1.5") == "same code as tested"
    assert library_versions.grade_of("lib", "f", other, "1.2") == "by construction"
    assert library_versions.weakest(["tested", "by construction", "same code as tested"]) == "by construction"


def test_a_module_that_was_changed_since_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def fit(say):\n    for i in range(3):\n        say(i)\n"
    (tmp_path / "changing.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    cell = "import changing\nchanging.fit(say)\n"
    saved = World().until(cell, 2)
    assert isinstance(saved, bytes)

    (tmp_path / "changing.py").write_text(text.replace("range(3)", "range(30)"))
    linecache.checkcache()
    del sys.modules["changing"]
    importlib.invalidate_caches()

    [*_, (kind, _, words)] = World.from_saved(saved).run(cell).error
    del sys.modules["changing"]
    assert kind == "CannotArrive" and "fit() of changing is not what it was when the checkpoint was taken" in words


@pytest.mark.slow
def test_a_generator_whose_function_is_made_inside_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Path.rglob() of Python 3.13 has it: in a map() of what a nested function makes, called by no code of ours."""
    (tmp_path / "made_inside.py").write_text(
        "def walker(most):\n"
        "    def walk(first):\n        for one in range(first, most):\n            yield one\n"
        "    return walk\n"
        "def walked(first, most):\n    return map(str, walker(most)(first))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    text = (
        "import made_inside\n"
        "for x, y in zip(next(map(made_inside.walked, [1], [4])), next(map(made_inside.walked, [2], [9]))):\n"
        "    say((x, y))\n"
    )
    assert at_points(text) == rewritten(text).points
    assert in_a_chain(text, gap=1) > 1
    sys.modules.pop("made_inside")


@pytest.mark.parametrize("installed", [True, False])
def test_what_makes_a_package_ready_runs_to_its_end(
    installed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pyplot's switch_backend(): what it has set in its module by then is in no checkpoint."""
    directory = tmp_path / ("site-packages" if installed else "own")
    directory.mkdir()
    text = (
        "def ready(say):\n    global state\n    state = object()\n    for i in range(2): say(i)\n"
        "def used(say):\n    ready(say)\n    for i in range(2): say(state is not None)\n"
    )
    (directory / "makes_ready.py").write_text(text)
    monkeypatch.syspath_prepend(str(directory))
    cell = "import makes_ready\nmakes_ready.used(say)\n"
    try:
        points = rewritten(cell).points
        left = [World().until(cell, one + 1) for one in range(points)]
    finally:
        sys.modules.pop("makes_ready", None)
    assert [type(one) is bytes for one in left] == ([True] * 3 if installed else [True] * 6), left


def test_where_it_stands_says_how_far_the_librarys_functions_are_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "site-packages"
    directory.mkdir()
    text = "def fit(say):\n    for i in range(2):\n        say(i)\n"
    (directory / "trains.py").write_text(f"__version__ = '1.3'\n{text}")
    monkeypatch.syspath_prepend(str(directory))
    [tree, _] = library_versions.digests_of(text)
    said = []
    for known in ({tree: "1.0 to 1.4"}, {tree: "1.0"}, {}):
        monkeypatch.setattr(library_versions, "record", lambda known=known: {"trains": {"fit": known}})
        said.append(where("import trains\ntrains.fit(say)\n", 1))
    del sys.modules["trains"]

    assert said == [
        f"line 3, in fit() (trains 1.3: {grade})" for grade in ("tested", "same code as tested", "by construction")
    ]


@pytest.mark.parametrize("installed", [True, False])
def test_properties_of_own_modules_are_left(installed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the cell asks for, and one that another of the user's modules does; a package's run to their end."""
    directory = tmp_path / ("site-packages" if installed else "own")
    directory.mkdir()
    (directory / "of_scores.py").write_text(
        "class Scores:\n    def __init__(self, say):\n        self.say = say\n"
        "    @property\n    def best(self):\n        for i in range(3): self.say(i)\n        return i\n"
    )
    (directory / "asks.py").write_text("def twice(scores):\n    return scores.best * 2\n")
    monkeypatch.syspath_prepend(str(directory))
    before = "import of_scores, asks\nscores = of_scores.Scores(say)\n"
    cell = "x = scores.best\ny = asks.twice(scores)\nfor i in range(1): say(x + y)\n"
    try:
        exec(before, {"say": print})
        points = at_points(before + cell)
    finally:
        for name in ("of_scores", "asks"):
            sys.modules.pop(name, None)
    assert points == (2 if installed else 2 + 4 + 4)


@pytest.mark.slow(1)
def test_what_was_read_ahead_no_program_reads_again() -> None:
    from torch.utils.data import sampler

    own = sampler.RandomSampler.__iter__.__code__
    read_ahead()
    assert sampler.RandomSampler.__iter__.__code__ is own and PROGRAM not in vars(sampler)
    read = texts._source.cache_info().misses

    library = Library(None, lambda code, unit: None, lambda code: None, lambda text: None)
    library.begin()

    assert sampler.RandomSampler.__iter__.__code__ is not own
    library.end()
    assert sampler.RandomSampler.__iter__.__code__ is own
    assert texts._source.cache_info().misses == read > 0

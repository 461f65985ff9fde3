"""What README and docs/ name is there: files, functions, links and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
_STATION = re.compile(r"`([\w./-]+\.(?:py|tsx?))`:((?: ?`\w+`,?)+)")  # a file, and functions in it
_PATH = re.compile(r"`((?:jupyter_gpufit|tests|bench|labextension|docs|examples)/[\w./-]+?)/?`")
_LINK = re.compile(r"\]\(([^)#\s]*)(#[^)]*)?\)")
_TOP = ("jupyter_gpufit", "labextension", "tests", "bench", "docs", "examples")


def stations(text: str) -> Iterator[tuple[Path, str]]:
    """Each function that a walk passes, with its file."""
    for found in _STATION.finditer(" ".join(text.split())):
        home = ROOT if found[1].startswith(_TOP) else ROOT / "jupyter_gpufit"
        for name in re.findall(r"`(\w+)`", found[2]):
            yield home / found[1], name


def is_defined(file: Path, name: str) -> bool:
    defines = rf"\b(?:def|class|function|const)\s+{name}\b|^\s*(?:private |async )*{name}\("
    return file.is_file() and re.search(defines, file.read_text(), re.MULTILINE) is not None


def headings(page: Path) -> set[str]:
    """As links name them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    wrong = [f"{file.name}: {name}" for file, name in stations(text) if not is_defined(file, name)]
    wrong += [path for path in _PATH.findall(text) if not (ROOT / path).exists()]
    for link, heading in _LINK.findall(text):
        target = page.parent / link if link else page
        if link.startswith("http"):
            continue
        if not target.exists() or (heading and heading[1:] not in headings(target)):
            wrong.append(link + heading)
    assert wrong == []


def test_the_walks_have_stations() -> None:
    """A rule over nothing would hold."""
    assert len(list(stations((ROOT / "docs" / "architecture.md").read_text()))) > 50


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 8 << 10


def test_sentences_say_their_ideas_in_one_word_each() -> None:
    """Of all that people can see (`python docs/words.py`): a word that has another one beside it is not used."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("words", ROOT / "docs" / "words.py")
    assert spec is not None and spec.loader is not None
    words = module_from_spec(spec)
    spec.loader.exec_module(words)
    found = [*words.sentences()]
    assert len(found) > 1000  # else the rule would hold of nothing
    instead = {
        "without a word": "ended unexpectedly",
        "durable after": "on disk after",
        "the head waits": "the next in line waits",
        ".;": ".",
    }
    assert [one for one in found if any(word in one.text for word in instead)] == []

from __future__ import annotations

import re

import pytest

from jupyter_gpufit import __version__
from jupyter_gpufit.actions.commands import VERBS, HelpAsked, help_text, parse, parse_line
from jupyter_gpufit.errors import BadOption
from jupyter_gpufit.units import GiB


def test_reads_a_magics_line() -> None:
    options = parse_line("train --name 'bert' --memory 12GiB --gpu cpu:0 --exclusive -d")
    assert (options.verb, options.name, options.memory) == ("train", "bert", 12 * GiB)
    assert options.gpu == "cpu:0" and options.exclusive and options.detach and not options.dry_run


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("attatch", "Did you mean attach?"),
        ("train --exclusiv", "Did you mean --exclusive?"),
        ("train bert", "has no place for .bert.. A name goes behind --name: train --name bert"),
        ("attach bert gpt", "has no place for .gpt..\n"),
        ("train --memory", "expected one argument"),
        ("train --memory -3", "argument"),
        ("train --memory 0", "'0' is 0 B, in which nothing runs; say 12GiB"),
        ("train --memory 12", "'12' is 12 B"),
        ("train --name a/b", "not a name"),
        ("stop", "JOB"),
        ("train 'open", "No closing quotation"),
    ],
)
def test_a_mistake_gets_one_sentence_and_never_ends_the_process(line: str, words: str) -> None:
    with pytest.raises(BadOption, match=words):
        parse_line(line)


def test_so_many_devices_or_as_many_as_are_free() -> None:
    assert parse_line("train").gpus == (1, 1) and parse_line("resume bert").gpus is None
    assert parse_line("train --gpus 2").gpus == (2, 2) and parse_line("estimate --gpus 1-4").gpus == (1, 4)
    for words, why in (
        ("--gpus 0", "'0' is not a number of devices from 1 to 64"),
        ("--gpus 1-x", "'x' is not a number of devices"),
        ("--gpus 2-", "'' is not a number of devices"),
        ("--gpus 4-2", "write 2-4"),
        ("--gpus 2 --fit exact", "does not go with --gpus"),
    ):
        with pytest.raises(BadOption, match=why):
            parse_line(f"train {words}")
    assert parse_line("train --gpus 2 --fit no").fit == "no"


def test_checkpoint_saves_a_job_or_shows_what_was_saved() -> None:
    options = parse_line("checkpoint bert")
    assert (options.verb, options.job) == ("checkpoint", "bert")
    options = parse_line("checkpoint show bert --json")
    assert (options.verb, options.job, options.json) == ("checkpoint show", "bert", True)
    assert parse_line("checkpoint").job == "" and parse_line("checkpoint show").job == ""
    for line in ("checkpoint bert gpt", "checkpoint show bert gpt"):
        with pytest.raises(BadOption, match="checkpoint takes one job"):
            parse_line(line)
    with pytest.raises(BadOption, match="--json goes with show: gpufit checkpoint show bert --json"):
        parse_line("checkpoint bert --json")


def test_says_its_version() -> None:
    with pytest.raises(HelpAsked, match=re.escape(__version__)):
        parse(["--version"])


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str) -> None:
    with pytest.raises(HelpAsked, match=f"usage: gpufit {verb}"):
        parse([verb, "--help"])
    assert verb in help_text()


def test_no_verb_shows_them_all() -> None:
    with pytest.raises(HelpAsked, match="attach"):
        parse([])


@pytest.mark.parametrize("width", [60, 80])
def test_help_fits_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for words in ([], *([verb] for verb in VERBS), *(["lab", deed] for deed in ("init", "check", "policy", "upgrade"))):
        with pytest.raises(HelpAsked) as asked:
            parse([*words, "--help"])
        assert [line for line in str(asked.value).splitlines() if len(line) > width] == [], words


def test_help_is_a_verb_too() -> None:
    for words, text in ((["help"], "VERB"), (["help", "move"], "--to")):
        with pytest.raises(HelpAsked, match=text):
            parse(words)
    with pytest.raises(BadOption, match="Did you mean move"):
        parse(["help", "mov"])

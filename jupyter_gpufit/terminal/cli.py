"""The command line `gpufit`: parse, one call, print."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

import anyio

from ..actions import commands, run_jobs, texts
from ..actions.deeds import ANSWERS, WISHES
from ..actions.places import check_place
from ..actions.status import StatusReader
from ..errors import BadOption, GpufitError, first_of
from ..examine.findings import Finding, as_json, as_text, healthy
from ..jobs.follow import follow
from ..jobs.store import chosen_job
from ..settings import Settings, load_settings
from .colours import coloured, wanted
from .show import TerminalShow

WATCH_EVERY = 2.0  # seconds; NVML's own figures are averages of up to one


def main() -> None:
    """Run one command; a mistake of the user's is a sentence on stderr and exit code 2."""
    try:
        code = _done()
        sys.stdout.flush()
    except BrokenPipeError:
        code = _unheard()
    except BaseExceptionGroup as group:
        if group.split(BrokenPipeError)[1] is not None:
            raise
        code = _unheard()
    sys.exit(code)


def _done() -> int:
    try:
        options = commands.parse(sys.argv[1:])
        # The doctor also examines settings that cannot be read.
        return _doctor(options) if options.verb == "doctor" else _run(options, load_settings())
    except commands.HelpAsked as asked:
        print(asked)  # noqa: T201 - a command line prints
        return 0
    except GpufitError as error:
        return _complain(error)
    except BaseExceptionGroup as group:
        ours, others = group.split(GpufitError)
        if ours is None or others is not None:
            raise
        return _complain(first_of(ours))


def _unheard() -> int:
    """`gpufit jobs | head`: nobody reads on. Python would write the rest at its end, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _run(options: argparse.Namespace, settings: Settings) -> int:
    check_place(options.verb, "terminal")
    run_jobs.check(options, settings)
    match options.verb:
        case "run":
            return _run_command(options, settings)
        case "completion":
            _complete(options)
        case "estimate":
            _estimate(options, settings)
        case "status" if options.watch:
            _watch(options, settings)
        case "attach":
            return anyio.run(_attach, options.job, settings)
        case "serve":
            return _serve(options, settings)
        case "lab":
            return _lab(options, settings)
        case verb if verb in ANSWERS:
            _print(_on_terminal(options, settings))
        case verb:
            return _interruptible(WISHES[verb](options, settings))
    return 0


def _complete(options: argparse.Namespace) -> None:
    from . import completion  # the other verbs start faster without

    _print("\n".join(completion.at(options.words)) if options.shell == "at" else completion.SCRIPTS[options.shell])


def _estimate(options: argparse.Namespace, settings: Settings) -> None:
    from ..estimate.asking import script, session  # and what follows: the other verbs start faster without
    from ..estimate.asking.told import Told
    from ..estimate.showing import show

    program = script.program_of(options.script, options.arguments)
    wish = script.wish_of(options.on, options.steps, options.sweep, options.max_batch, options.gpus)
    all_told: list[Told] = []

    def told(one: Told) -> None:
        all_told.append(one)
        if not options.json:
            _print(show.terminal(one))

    try:
        settings = replace(settings, fit=options.fit or settings.fit)
        anyio.run(session.estimate, program, wish, settings, told)
    finally:
        if options.json and all_told:
            _print(show.json_of(all_told))


def _doctor(options: argparse.Namespace) -> int:
    from ..examine.user import examine

    return _show_findings(examine(options.wait), options.json)


def _serve(options: argparse.Namespace, settings: Settings) -> int:
    from ..models.packages import check_packages

    check_packages()  # with what it needs, numpy comes
    from .serve import serve

    try:
        anyio.run(serve, settings, options.port, _print)
    except KeyboardInterrupt:
        return 130
    return 0


def _lab(options: argparse.Namespace, settings: Settings) -> int:
    from ..examine.lab.check import check_lab
    from ..examine.lab.init import init, site
    from ..examine.lab.uninstall import uninstall
    from ..examine.lab.upgrade import upgrade

    if options.deed == "policy":
        from ..actions.policy import policy_view

        view = policy_view(settings, options.user)
        _print(view.to_json() if options.json else view.to_text())
        return 0
    where = site(settings.lab, options.root)
    if options.deed == "check":
        return _show_findings(check_lab(where, hub=options.hub), options.json)
    if options.deed == "init":
        said = init(where, dry_run=options.dry_run, hub=options.hub)
    else:
        said = (uninstall if options.deed == "uninstall" else upgrade)(where, dry_run=options.dry_run)
    for word in said:
        _print(word)
    return 0


def _show_findings(found: list[Finding], in_json: bool) -> int:
    _print(as_json(found) if in_json else as_text(found))
    return 0 if healthy(found) else 1


async def _attach(wanted: str, settings: Settings) -> int:
    """Follow a job's output; Ctrl-C leaves it running, since a terminal that looks on must not end a training."""
    job, paths = chosen_job(settings, wanted)
    try:
        end = await follow(job, paths, TerminalShow(job, sys.stdout, sys.stderr))
    except KeyboardInterrupt:
        print(f"{job.name} goes on; `gpufit stop {job.name}` would end it.", file=sys.stderr)  # noqa: T201
        return 130
    return 0 if end.state == "done" else 1


def _run_command(options: argparse.Namespace, settings: Settings) -> int:
    from ..system.signals import Signals
    from .run import request_for, run  # and what follows: the other verbs start faster without
    from .said import Said

    signals = Signals()  # first: before there is a thread
    asked = {key: getattr(options, key) for key in ("name", "memory", "gpu", "exclusive")}
    request = request_for(options.command, count=options.gpus, **asked)
    return anyio.run(run, options.command, request, settings, Said(sys.stderr), signals)


def _watch(options: argparse.Namespace, settings: Settings) -> None:
    """Show the status again and again: in place on a terminal, with keys; else one below the other."""
    if options.json:
        raise BadOption("--watch shows a table; for programs, call `gpufit status --json` as often as needed.")
    with suppress(KeyboardInterrupt):
        if sys.stdout.isatty():
            from .watch import watch  # and what follows: the other verbs start faster without

            watch(settings)
            return
        reader = StatusReader()
        while True:
            _print(f"{texts.status(options, settings, reader)}\n")
            time.sleep(WATCH_EVERY)


def _on_terminal(options: argparse.Namespace, settings: Settings) -> str:
    """An answer as wide as the terminal, and in colours where it has them; in a file, as long as it is."""
    is_tty = sys.stdout.isatty()
    options.width = shutil.get_terminal_size().columns if is_tty else 0
    text = ANSWERS[options.verb](options, settings, StatusReader())
    colours = wanted(os.environ, tty=is_tty) and not getattr(options, "json", False)
    return coloured(text) if colours else text


def _interruptible(words: AsyncIterator[str]) -> int:
    """Say what comes of a wish; Ctrl-C ends the looking on, and leaves the wish."""
    try:
        anyio.run(_print_all, words)
    except KeyboardInterrupt:
        print("Only the watching has ended; what was asked for goes on.", file=sys.stderr)  # noqa: T201
        return 130
    return 0


async def _print_all(words: AsyncIterator[str]) -> None:
    async for word in words:
        _print(word)


def _print(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a command line prints


def _complain(error: GpufitError) -> int:
    print(f"gpufit: {error}", file=sys.stderr)  # noqa: T201 - a command line prints
    return error.exit_code


if __name__ == "__main__":
    main()

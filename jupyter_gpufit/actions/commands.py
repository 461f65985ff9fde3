"""The verbs and their options, once for magics and command line: parsing and help come from here; pure."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from typing import NoReturn

from ..errors import BadOption, did_you_mean
from ..lab.record import MOST_DEVICES
from ..settings import FITS
from ..system.version import version
from . import values
from .lab_deeds import LAB, add_deeds

ENDED_HINT = "a job's name or id, as `gpufit jobs` lists them"

DEFAULT_DAYS = 7.0
_GPUS = values.numbers(MOST_DEVICES)
_DEVICES = values.number(MOST_DEVICES, "of devices ")
_STEPS, _ROWS = values.number(100, "of steps "), values.number(65536)
_DAYS, _SECONDS = values.amount(3660, "days"), values.amount(3600, "seconds")
EPILOG = """
On top of a cell:
  %%gpufit train --name bert --memory 12GiB
  %%gpufit estimate --on "NVIDIA A100-SXM4-40GB"
On a line:
  %gpufit status | queue | history | jobs
  %gpufit attach NAME | stop NAME | clean
  %gpufit checkpoint NAME | release NAME
  %gpufit move NAME --to DEVICE | resume NAME
  runs = %gpufit runs | numbers = %gpufit runs NAME
  net = %gpufit deploy resnet.onnx
  net = %gpufit deploy model --example x
In a terminal the same without the %, and:
  gpufit run --memory 12GiB -- python train.py
Each verb explains itself: %gpufit train --help
"""


class HelpAsked(Exception):
    """--help: carries the text to show."""


class _Parser(argparse.ArgumentParser):
    """argparse that neither prints nor exits: a notebook's kernel must survive a typing error."""

    def error(self, message: str) -> NoReturn:
        bad = re.match(r"argument VERB: invalid choice: '([^']*)'", message)
        if bad:
            raise BadOption(
                f"There is no verb {bad[1]!r}.{did_you_mean(bad[1], VERBS)} It is one of {', '.join(VERBS)}."
            )
        raise BadOption(f"{message}.\n{self.format_usage().strip()}")

    def print_help(self, file: object = None) -> None:
        raise HelpAsked(self.format_help())


class _Version(argparse.Action):
    def __call__(self, *_: object) -> NoReturn:
        raise HelpAsked(version())


def _build() -> tuple[_Parser, dict[str, _Parser]]:
    parser = _Parser(
        prog="gpufit",
        description="Run a cell on the device where it fits,\nin a process of its own.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="say which version this is")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_Parser)
    built: dict[str, _Parser] = {}

    def verb(name: str, text: str) -> _Parser:
        built[name] = verbs.add_parser(name, help=text, description=text, allow_abbrev=False)
        return built[name]

    train = verb("train", "Run the cell below in a worker, on the device where it fits (only on top of a cell).")
    train.add_argument("--gpu", default="", metavar="DEVICE", help="only this device: an index, UUID or slot name")
    train.add_argument(
        "--memory", type=values.memory, metavar="BYTES", help="claim this much, e.g. 12GiB (default: the estimate)"
    )
    train.add_argument(
        "--gpus",
        type=_GPUS,
        default=(1, 1),
        metavar="N",
        help="data parallel on this many devices, all or nothing: 2; or on as many as are free: 1-4 (default: 1)",
    )
    train.add_argument("--exclusive", action="store_true", help="share the device with nobody")
    train.add_argument(
        "--fit",
        choices=FITS,
        default=None,
        metavar="HOW",
        help="if it fits on no device: make it fit, to the same bits (exact), nearly (any), not (no), or in this one"
        " way: %(choices)s",
    )
    train.add_argument("--name", type=values.name, help="what to call the job (default: after the notebook)")
    train.add_argument("-d", "--detach", action="store_true", help="return at once; the job goes on by itself")
    train.add_argument("--dry-run", action="store_true", help="say what would happen, and start nothing")

    estimate = verb("estimate", "Say how much memory the cell below, or a script, will need; no device is touched.")
    estimate.usage = (
        "gpufit estimate [SCRIPT] [--on CARD] [--steps N]\n"
        "       [--gpus N] [--sweep NAME=8,16 | --max-batch NAME]\n"
        "       [--fit HOW] [--json] [-- ...]"
    )
    estimate.add_argument("script", metavar="SCRIPT", nargs="?", default="", help="a script (only in a terminal)")
    estimate.add_argument("--on", default="", metavar="CARD", help='a type of GPU, e.g. "NVIDIA A100-SXM4-40GB"')
    estimate.add_argument(
        "--steps",
        type=_STEPS,
        default=2,
        metavar="N",
        help="optimizer steps to watch (default: 2)",
    )
    estimate.add_argument(
        "--gpus", type=_GPUS, default=(1, 1), metavar="N", help="for each device, trained on this many: 2"
    )
    several = estimate.add_mutually_exclusive_group()
    several.add_argument("--sweep", metavar="NAME=8,16", help="estimate for several values of a name: batch=8,16,32")
    several.add_argument(
        "--max-batch", type=values.variable, metavar="NAME", help="find the largest value of this name that fits"
    )
    estimate.add_argument(
        "--fit", choices=FITS, metavar="HOW", help="also how it would fit (default: exact): %(choices)s"
    )
    estimate.add_argument("--json", action="store_true", help="as JSON: need, low, high, by_kind, reasons and more")

    run = verb("run", "Run a command on the device where it fits, when its turn has come (only in a terminal).")
    run.usage = (
        "gpufit run [--memory BYTES] [--gpu DEVICE] [--gpus N]\n       [--exclusive] [--name NAME] -- COMMAND ..."
    )
    run.add_argument("--gpu", default="", metavar="DEVICE", help="only this device: an index, UUID or slot name")
    run.add_argument(
        "--gpus",
        type=_DEVICES,
        default=1,
        metavar="N",
        help="this many devices, all or nothing (default: 1)",
    )
    run.add_argument(
        "--memory", type=values.memory, metavar="BYTES", help="claim this much on each, e.g. 12GiB (default: all of it)"
    )
    run.add_argument("--exclusive", action="store_true", help="share the device with nobody")
    run.add_argument("--name", type=values.name, help="what to call the job (default: after the command)")

    jobs = verb("jobs", "List your jobs, newest last.")
    jobs.add_argument("--json", action="store_true", help="as JSON: id, name, state, pid, device, epoch, step and more")
    status = verb("status", "Show the devices, who holds them, who waits and why, and your running jobs.")
    status.add_argument("--json", action="store_true", help="as JSON: devices, claims, queue, jobs and more")
    status.add_argument(
        "--watch",
        action="store_true",
        help="renewed every two seconds, with curves and keys; q leaves (only in a terminal)",
    )
    queue = verb("queue", "Show who waits, in the order of service, and why.")
    queue.add_argument("--json", action="store_true", help="as JSON")
    history = verb("history", "Sum up who used how much: device-hours of the last days, running jobs included.")
    history.add_argument(
        "--by", choices=("user", "device", "day"), default="user", help="a row for each (default: user)"
    )
    history.add_argument(
        "--days",
        type=_DAYS,
        default=DEFAULT_DAYS,
        metavar="N",
        help="how far back (default: 7)",
    )
    history.add_argument(
        "--plans", action="store_true", help="what your own runs were predicted to take, and what they took"
    )
    history.add_argument("--json", action="store_true", help="as JSON")
    deploy = verb("deploy", "Have a model answer calls, on the device where it fits: an ONNX file, or a torch module.")
    deploy.add_argument(
        "models",
        metavar="MODEL",
        nargs="+",
        help="an .onnx file, or several for one device; in a notebook also a variable with a module",
    )
    deploy.add_argument(
        "--example",
        type=values.variable,
        metavar="NAME",
        help="for a module: the variable that holds what it is called with (a tensor, or a tuple or dict of tensors)",
    )
    deploy.add_argument(
        "--weights", default="", metavar="FILE", help="for a module: a .safetensors file with the weights to deploy"
    )
    deploy.add_argument("--gpu", default="", metavar="DEVICE", help="only this device: an index, UUID or slot name")
    deploy.add_argument("--memory", type=values.memory, metavar="BYTES", help="claim this much (default: the estimate)")
    deploy.add_argument("--exclusive", action="store_true", help="share the device with nobody")
    deploy.add_argument("--name", type=values.name, help="what to call it (default: after the file or the variable)")
    deploy.add_argument(
        "--rows",
        type=_ROWS,
        default=16,
        metavar="N",
        help="rows that are run at once, at most (default: 16)",
    )
    deploy.add_argument(
        "--waiting",
        type=_ROWS,
        default=128,
        metavar="N",
        help="calls that may wait; more are refused (default: 128)",
    )
    deploy.add_argument(
        "--deadline",
        type=values.moment,
        metavar="TIME",
        help="for each call, such as 50ms or 2s; what cannot be answered by then is refused at once (default: none)",
    )
    deploy.add_argument(
        "--dim",
        type=values.dimension,
        action="append",
        default=[],
        metavar="NAME=N",
        help="the largest size of a named dimension, for the estimate: length=512",
    )
    deploy.add_argument(
        "-d", "--detach", action="store_true", help="return at once; in a terminal: once it runs or waits"
    )
    serve = verb("serve", "Let HTTP clients call your deployed models (Open Inference Protocol; only in a terminal).")
    serve.add_argument(
        "--port",
        type=values.port,
        metavar="N",
        help="on loopback, with a token; 0: a free one (default: a socket that only you can open)",
    )
    attach = verb("attach", "Follow a job again: all its output, and its variables when it has ended.")
    attach.add_argument("job", metavar="JOB", nargs="?", default="", help=f"{ENDED_HINT} (default: the newest)")
    attach.add_argument("--again", action="store_true", help="bring variables that this notebook has had already")
    stop = verb("stop", "Stop a job: interrupt it, then ask, terminate and kill, each after a while.")
    stop.add_argument("job", metavar="JOB", help=f"{ENDED_HINT}; also a command's of `gpufit run`")
    checkpoint = verb("checkpoint", "Save a running job at its next safe point; it goes on. Or show what was saved.")
    checkpoint.usage = "gpufit checkpoint [JOB]\n       gpufit checkpoint show [JOB] [--json]"
    checkpoint.add_argument("words", metavar="JOB", nargs="*", help=f"{ENDED_HINT} (default: the newest that runs)")
    checkpoint.add_argument("--json", action="store_true", help="with show: as JSON")
    release = verb("release", "Save your job and leave its device; ask the owner if it is not yours.")
    release.add_argument(
        "job", metavar="JOB", help="a job's name or id, user/name, or a claim's id (see gpufit status)"
    )
    release.add_argument(
        "--insist",
        action="store_true",
        help="end it unsaved; if asking does not help, kill (others': only root)",
    )
    move = verb("move", "Claim another device, save a running job, and go on with it there.")
    move.add_argument("job", metavar="JOB", nargs="?", default="", help=f"{ENDED_HINT} (default: the newest that runs)")
    move.add_argument(
        "--to", default="", metavar="DEVICE", help="this device, or several: 0,1 (default: the best other one)"
    )
    resume = verb("resume", "Go on with a job from its newest checkpoint, with the text it was started with.")
    resume.add_argument(
        "job", metavar="JOB", nargs="?", default="", help=f"{ENDED_HINT} (default: the newest that can be resumed)"
    )
    resume.add_argument("--gpu", default="", metavar="DEVICE", help="on this device (default: as it was started)")
    resume.add_argument(
        "--gpus", type=_GPUS, default=None, metavar="N", help="on this many devices (default: as it was started)"
    )
    resume.add_argument(
        "--memory", type=values.memory, metavar="BYTES", help="claim this much (default: what its runs so far tell)"
    )
    resume.add_argument(
        "--from",
        dest="back",
        default="",
        metavar="STEP",
        help="from the checkpoint of this step, see `checkpoint show` (default: the newest)",
    )
    resume.add_argument("-d", "--detach", action="store_true", help="return at once; a terminal always does")
    for one in (train, attach, resume):
        one.add_argument(
            "--widget",
            action=argparse.BooleanOptionalAction,
            default=None,
            help="a card with progress, curves and buttons (in a notebook; default: with --detach and attach)",
        )
    clean = verb("clean", "Delete the files of jobs that have ended.")
    clean.add_argument(
        "jobs", metavar="JOB", nargs="*", help=f"{ENDED_HINT} (default: all that have ended and cannot be resumed)"
    )
    clean.add_argument("--all", action="store_true", help="also those that can be resumed")

    runs = verb(
        "runs", "Give a table (pandas) of your runs, or of one run's numbers over its steps (only in a notebook)."
    )
    runs.add_argument("job", metavar="JOB", nargs="?", default="", help=f"{ENDED_HINT} (default: a row for each run)")
    verb("kernel", "Say what cuda is in this notebook's own process, and why (only in a notebook).")
    doctor = verb("doctor", "Examine your environment, and say what to do about what is wrong with it.")
    doctor.add_argument("--json", action="store_true", help="as JSON: ok, and findings with level, what, mend")
    doctor.add_argument(
        "--wait",
        type=_SECONDS,
        default=2.5,
        metavar="SECONDS",
        help="how long slow parts may take (default: 2.5)",
    )
    about = verb("help", "Say what there is, or what a verb does.")
    about.add_argument("about", metavar="VERB", nargs="?", default="", help="explain this verb, as VERB --help does")
    completion = verb("completion", "Print what makes your shell complete gpufit (only in a terminal).")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="which shell that is")
    add_deeds(verb("lab", LAB))
    return parser, built


VERBS: tuple[str, ...] = ()
_PARSER, VERB_PARSERS = _build()
VERBS = tuple(VERB_PARSERS)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read a command; raises BadOption with a sentence a person can use, or HelpAsked."""
    if not arguments:
        raise HelpAsked(_PARSER.format_help())
    if list(arguments[:2]) == ["completion", "at"]:  # a shell asks: whatever stands there is not for us to judge
        return argparse.Namespace(verb="completion", shell="at", words=list(arguments[2:]))
    # Ours end where the command begins: its options are its own.
    ours, command = _split(arguments) if arguments[0] in ("run", "estimate") else (arguments, [])
    options, unknown = _PARSER.parse_known_args(ours)
    if options.verb == "run":
        options.command = _command(command, unknown)
        return options
    if options.verb in ("train", "estimate") and options.gpus[1] > 1 and options.fit not in (None, "no"):
        raise BadOption("--fit makes a cell fit on one device, and does not go with --gpus. Leave out one of them.")
    if options.verb == "estimate":
        options.arguments = list(command)
    if options.verb == "checkpoint":
        _name_checkpoint(options)
    if options.verb == "help" and not unknown:
        raise HelpAsked(_help(options.about))
    if unknown:
        verb, parser, first = arguments[0], VERB_PARSERS[arguments[0]], unknown[0]
        usage = parser.format_usage().strip()
        if not first.startswith("-"):
            how = f" A name goes behind --name: {verb} --name {first}" if "--name" in usage else ""
            raise BadOption(f"{verb} has no place for {first!r}.{how}\n{usage}")
        near = did_you_mean(first, sorted(parser._option_string_actions))
        raise BadOption(f"{verb} has no option {first!r}.{near}\n{usage}")
    return options


def _help(about: str) -> str:
    if about and about not in VERB_PARSERS:
        raise BadOption(f"There is no verb {about!r}.{did_you_mean(about, VERBS)} It is one of {', '.join(VERBS)}.")
    return (VERB_PARSERS[about] if about else _PARSER).format_help()


def _name_checkpoint(options: argparse.Namespace) -> None:
    """`checkpoint show JOB` looks at what was saved, `checkpoint JOB` saves."""
    shows = options.words[:1] == ["show"]
    names = options.words[1:] if shows else options.words
    if options.json and not shows and len(names) < 2:
        raise BadOption(f"--json goes with show: gpufit checkpoint show {''.join(names) or 'JOB'} --json")
    if len(names) > 1:
        raise BadOption(f"checkpoint takes one job.\n{VERB_PARSERS['checkpoint'].format_usage().strip()}")
    options.verb = "checkpoint show" if shows else "checkpoint"
    options.job = names[0] if names else ""


def _split(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:end], arguments[end + 1 :]


def _command(command: Sequence[str], unknown: Sequence[str]) -> list[str]:
    """What `gpufit run` is to run."""
    usage = VERB_PARSERS["run"].format_usage().strip()
    if unknown and unknown[0].startswith("-"):
        near = did_you_mean(unknown[0], sorted(VERB_PARSERS["run"]._option_string_actions))
        raise BadOption(f"run has no option {unknown[0]!r}.{near}\n{usage}")
    if unknown:
        raise BadOption(f"Put -- before the command: gpufit run [options] -- {shlex.join(unknown)} ...\n{usage}")
    if not command:
        raise BadOption(f"There is no command. It goes behind --: gpufit run -- python train.py\n{usage}")
    return list(command)


def parse_line(line: str) -> argparse.Namespace:
    """Read the rest of a magic's line."""
    try:
        return parse(shlex.split(line))
    except ValueError as error:
        raise BadOption(f"{error} in {line!r}.") from error


def help_text() -> str:
    """What `%%gpufit?` shows."""
    train = VERB_PARSERS["train"].format_help()
    return f"{_PARSER.format_help()}\n%%gpufit train\n--------------\n{train}"

"""What there is to do with the lab that all users share: the options of `gpufit lab`."""

from __future__ import annotations

import argparse

LAB = "Make, prove or take back the lab that all users share, or say its policy (only in a terminal)."


def add_deeds(lab: argparse.ArgumentParser) -> None:
    deeds = lab.add_subparsers(
        dest="deed", metavar="init|check|policy|upgrade|uninstall", required=True, parser_class=type(lab)
    )
    init = deeds.add_parser("init", help="make or repair the lab, as root; may be run again at any time")
    init.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    check = deeds.add_parser("check", help="prove that the lab is sound, and say how to mend what is not")
    check.add_argument("--json", action="store_true", help="as JSON: ok, and findings with level, what, mend")
    remove = deeds.add_parser("uninstall", help="take back what init made, as root; what people wrote stays")
    newer = deeds.add_parser("upgrade", help="take the lab over to this version, as root; who runs with which is said")
    newer.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    for deed in (init, check):
        deed.add_argument("--hub", action="store_true", help="and what every user of this environment's Jupyter needs")
    remove.add_argument("--dry-run", action="store_true", help="say what would be removed, and do nothing")
    policy = deeds.add_parser("policy", help="say what the lab's policy allows you, and what waits because of it")
    policy.add_argument("--user", default="", metavar="NAME", help="of somebody else (default: you)")
    policy.add_argument("--json", action="store_true", help="as JSON: settings with value, words and by, used, waiting")
    for deed in (init, check, remove, newer):
        deed.add_argument("--root", default="", help=argparse.SUPPRESS)  # a machine at another place than /

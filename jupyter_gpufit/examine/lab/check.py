"""Prove that a lab is sound, or say what is not: `gpufit lab check`."""

from __future__ import annotations

import os

import anyio

from ...lab.directory import MUTEX, unsound
from ..findings import Check, Finding, one_by_one
from . import facts, judge
from .everyone import autoload, check_everyone
from .init import Site
from .places import entry
from .trial import try_lab

SYSCTLS = ("fs.protected_hardlinks", "fs.protected_regular")


def check_lab(site: Site, *, hub: bool = False) -> list[Finding]:
    """Everything that a lab rests on; the try comes last, and only where nothing is wrong with the rest."""
    lab, init = site.directory, site.command()
    findings = one_by_one(
        [
            Check("The directory", lambda: facts.directory(lab), lambda found: judge.directory(found, init)),
            Check("The rule", lambda: facts.rules(site.root), lambda found: judge.rules(found, site.lab, init)),
            Check("The kernel's settings", lambda: facts.sysctls(*SYSCTLS), judge.sysctls),
            Check("What is seen of processes", facts.processes, judge.processes),
            Check("The accounts", facts.accounts, lambda found: judge.accounts(found, os.geteuid() == 0)),
            Check("The policy", facts.policy, judge.policy),
        ]
    )
    findings += check_everyone(site.root, init) if hub or autoload(site.root).block else []
    return findings + (_inside(site) if lab.is_dir() else [])


def _inside(site: Site) -> list[Finding]:
    lab, init = site.directory, site.command()
    findings = one_by_one(
        [
            Check("The mutex", lambda: entry(lab / MUTEX), lambda found: judge.mutex(found, lab / MUTEX, init)),
            Check("The files", lambda: facts.contents(lab), lambda found: judge.contents(found, lab, init)),
        ]
    )
    if unsound(lab):
        return findings
    used = Check(
        "The lab in use", lambda: anyio.run(try_lab, lab), lambda tried: judge.trial(tried, site.command("check"))
    )
    return findings + used.findings()

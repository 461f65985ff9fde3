"""What makes a shell complete `gpufit`: a few lines for each, which ask `gpufit completion at ...` what may follow.

So they need not be written again when a verb gets another option, and they know the names of jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..actions.completions import completions
from ..errors import GpufitError
from ..jobs.store import all_jobs
from ..settings import load_settings

_BASH = """\
# Into ~/.bashrc:  eval "$(gpufit completion bash)"
_gpufit() {
    mapfile -t COMPREPLY < <(gpufit completion at "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    [ ${#COMPREPLY[@]} -gt 0 ] || compopt -o default
}
complete -F _gpufit gpufit"""

_ZSH = """\
# Into ~/.zshrc, behind compinit:  eval "$(gpufit completion zsh)"
_gpufit() {
    local -a found
    found=(${(f)"$(gpufit completion at "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ${#found} )); then compadd -a found; else _files; fi
}
compdef _gpufit gpufit"""

_FISH = """\
# Into ~/.config/fish/config.fish:  gpufit completion fish | source
complete -c gpufit -f -a '(gpufit completion at (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'"""

SCRIPTS: Mapping[str, str] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def at(words: Sequence[str]) -> list[str]:
    """What the last of these words may become; the shell's own command is not among them."""
    if "--" in words[:-1]:
        return []  # the command of `gpufit run`: the shell knows better
    *before, fragment = words or [""]
    try:
        jobs = list(dict.fromkeys(job.name for job, _ in all_jobs(load_settings())))
    except (GpufitError, OSError):
        jobs = []  # whoever types a command is told when it runs
    return completions(before, fragment, place="terminal", devices=[], jobs=jobs)

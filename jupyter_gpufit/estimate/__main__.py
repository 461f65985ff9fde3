"""The process that estimates: takes a program and one line for each estimate of it, and answers with one line each.

It has torch and the user's variables, and forks for each trace; the notebook's kernel has neither to fork nor to import
torch. It ends when nobody asks any more, and with whoever does.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..system.collecting import for_good
from ..system.processes import die_with_parent
from .asking.ask import Ask, EstimatedProgram
from .tracing.quiet import have_shell
from .tracing.trace import import_what_traces


def main() -> None:
    die_with_parent()
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that a library prints may come among the answers
    program = EstimatedProgram.decode(questions.readline())
    _take_place(program)
    with for_good():
        from .asking.look import look  # imports torch, in the user's environment

        if not program.script:
            have_shell()

        with suppress(ImportError, AttributeError, TypeError):  # the first trace says what is wrong with this torch
            import_what_traces()
    # None of this is the user's: no trace need look for optimizers there, and copy the pages that it looks at.
    gc.freeze()
    open_namespace = _opener(program)
    for line in questions:
        answers.write(look(program.source, open_namespace, Ask.decode(line), was=program.was).encode())
        answers.flush()


def _take_place(program: EstimatedProgram) -> None:
    """Stand where the cell or script would run."""
    os.chdir(program.cwd)
    sys.path[:] = program.path
    sys.argv[:] = [program.script, *program.arguments] if program.script else program.arguments


def _opener(program: EstimatedProgram) -> Callable[[], dict[str, object]]:
    from ..graph.memory import GraphMemory
    from .asking.look import main_module, opened_privately

    if program.script:
        return lambda: main_module(__file__=program.script)
    memory = GraphMemory(program.memory)
    graph = Path(f"/proc/self/fd/{program.graph}").read_bytes()
    return lambda: opened_privately(graph, memory, main_module())


if __name__ == "__main__":
    main()

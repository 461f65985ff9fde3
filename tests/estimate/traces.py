"""Traces made by hand: short scripts of births and deaths."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_gpufit.estimate.reckoning.record import Change, Kind, Phase, Trace, TracedStorage

Script = Sequence[tuple[str, str, int] | tuple[str, str]]


def played(script: Script) -> tuple[list[int], list[Change]]:
    """("+", name, bytes) and ("-", name) as sizes and changes."""
    sizes: list[int] = []
    changes: list[Change] = []
    numbers: dict[str, int] = {}
    for sign, name, *size in script:
        if sign == "+":
            numbers[name] = len(sizes)
            sizes.append(int(size[0]))
        changes.append(Change(numbers[name], sign == "+"))
    return sizes, changes


def block(
    size: int, kind: Kind = "activation", *, phase: Phase = "forward", module: str = "", step: int = 0
) -> TracedStorage:
    return TracedStorage(size=size, phase=phase, kind=kind, op="op", module=module, step=step)


def step_trace(activations: int, *, parameters: int, steps: int = 2) -> Trace:
    """A training with Adam: parameters, then per step activations that die in backward, gradients and states."""
    blocks = [block(parameters, "parameter", module="body")]
    changes = [Change(0, True)]

    def born(one: TracedStorage) -> int:
        blocks.append(one)
        changes.append(Change(len(blocks) - 1, True))
        return len(blocks) - 1

    for step in range(steps):
        kept = [born(block(activations // 4, module=f"body.{layer}", step=step)) for layer in range(4)]
        gradient = born(block(parameters, "gradient", phase="backward", step=step))
        changes += [Change(number, False) for number in reversed(kept)]
        if step == 0:
            born(block(2 * parameters, "optimizer state", phase="optimizer"))
        temporary = born(block(parameters, "temporary", phase="optimizer", step=step))
        changes += [Change(temporary, False), Change(gradient, False)]
    return Trace("completed", steps=steps, blocks=tuple(blocks), changes=tuple(changes))

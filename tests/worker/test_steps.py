"""The step that a running job shows, counted with real optimizers."""

from __future__ import annotations

import torch

from jupyter_gpufit.worker.steps import StepCounter


def adam() -> torch.optim.Optimizer:
    parameter = torch.nn.Parameter(torch.ones(1))
    parameter.grad = torch.ones(1)
    return torch.optim.Adam([parameter])


def test_folds_and_trials_with_an_optimizer_each_go_on_counting() -> None:
    counter, shown = StepCounter(before=10), []
    with counter.counting():
        for fold in range(3):
            optimizer = adam()
            for _ in range(4 - fold):
                optimizer.step()
                shown.append(counter.step)

    assert shown == list(range(11, 20))


def test_optimizers_that_take_turns_are_one_step() -> None:
    counter, shown = StepCounter(), []
    generator, critic = adam(), adam()
    with counter.counting():
        for _ in range(2):
            for _ in range(5):
                critic.step()
            generator.step()
            shown.append(counter.step)

    assert shown == [5, 10]

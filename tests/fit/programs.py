"""Steps of a training as people write them, each with what is hard about it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from .models import batch, loss_of
from .runs import Step, plain


def autocast(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    words = batch()
    with torch.autocast("cpu", torch.bfloat16):
        loss = loss_of(model(words), words)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def accumulation(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    optimizer.zero_grad()
    for _ in range(3):
        words = batch()
        loss = loss_of(model(words), words) / 3
        loss.backward()
    optimizer.step()
    return loss


def two_forwards(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    optimizer.zero_grad()
    words, others = batch(), batch()
    loss = loss_of(model(words), words) + loss_of(model(others), others)
    loss.backward()
    optimizer.step()
    return loss


def looks_between(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    loss = plain(model, optimizer)
    model.eval()
    with torch.no_grad():
        looked = loss_of(model(words := batch()), words)
    model.train()
    return loss + looked


def gradient_penalty(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    optimizer.zero_grad()
    words = batch()
    loss = loss_of(model(words), words)
    grads = torch.autograd.grad(loss, list(model.parameters()), create_graph=True, allow_unused=True)
    loss = loss + 0.1 * sum(g.square().sum() for g in grads if g is not None)
    loss.backward()
    optimizer.step()
    return loss


def regulariser(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    optimizer.zero_grad()
    words = batch()
    loss = loss_of(model(words), words) + 1e-3 * sum(p.abs().sum() for p in model.parameters())
    loss.backward()
    optimizer.step()
    return loss


def retried(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    with pytest.raises((RuntimeError, IndexError)):
        model(torch.full((2, 3, 5), 10**6))
    return plain(model, optimizer)


def a_frozen_block(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    frozen = next(one for one in model.modules() if isinstance(one, (nn.TransformerEncoderLayer, nn.Conv2d)))
    frozen.requires_grad_(False)
    return plain(model, optimizer)


def called_directly(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    loss = plain(model, optimizer)
    for child in model.children():
        if isinstance(child, nn.Linear):
            child(torch.ones(child.in_features)).sum().backward()
    return loss


def scaled(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    words = batch()
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss = loss_of(model(words), words)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    return loss


def an_average(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    loss = plain(model, optimizer) + plain(model, optimizer)
    average.update_parameters(model)
    with torch.no_grad():
        looked: torch.Tensor = average(words := batch())
    return loss + loss_of(looked, words)


def a_teacher(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    teacher, words = copy.deepcopy(model).requires_grad_(False), batch()
    plain(model, optimizer)
    loss: torch.Tensor = (model(words) - teacher(words)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def an_optimizer_that_looks_back(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """And asks for the loss several times a step, of all gradients in one tensor."""
    other, words = torch.optim.LBFGS(model.parameters(), 1e-3, max_iter=4), batch()

    def closure() -> torch.Tensor:
        other.zero_grad()
        loss = loss_of(model(words), words)
        loss.backward()
        return loss

    first, second = torch.as_tensor(other.step(closure)), torch.as_tensor(other.step(closure))
    return first + second


PROGRAMS: list[Step] = [
    scaled,
    an_average,
    a_teacher,
    an_optimizer_that_looks_back,
    autocast,
    accumulation,
    two_forwards,
    looks_between,
    gradient_penalty,
    regulariser,
    retried,
    a_frozen_block,
    called_directly,
]

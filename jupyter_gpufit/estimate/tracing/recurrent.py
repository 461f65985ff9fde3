"""Recurrent layers as cuDNN computes them: one operator for the whole sequence, and what it keeps for backward.

Elsewhere torch takes them apart into a cell for each time step: another memory, and a trace of many seconds. What cuDNN
keeps (its reserve) only a GPU can be asked for; here it is reckoned from a published measurement, hence never surely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ...cuda.stand_in.autocast import cast_for_cudnn
from ...cuda.stand_in.device import on_stand_in

if TYPE_CHECKING:
    from .books import Books

aten = torch.ops.aten
NOTE = "recurrent layers: what cuDNN keeps for them is reckoned from one published measurement"

_RELU, _TANH, _LSTM, _GRU = range(4)  # cudnnRNNMode_t
_GATES = {_RELU: 1, _TANH: 1, _LSTM: 4, _GRU: 3}
# Numbers that cuDNN keeps for each of a layer's hidden elements and time steps; between two layers there is one more.
# pytorch#2895: reserves of 736,000,000 and 864,000,000 bytes for an LSTM and a GRU of four layers and 320 elements, so
# 23 and 27 numbers for each of 25,000 time steps: 5 x 4 + 3 and 6 x 4 + 3. Not measured: a plain RNN, later versions.
_KEPT = {_RELU: 1, _TANH: 1, _LSTM: 5, _GRU: 6}


def lstm(*args: Any, **kwargs: Any) -> Any:
    """torch.lstm."""
    given = _Given.of(args, kwargs)
    if given is None:
        return torch.lstm(*args, **kwargs)
    hidden, cell = given.state
    width = cell.shape[2]
    projected = hidden.shape[2] if hidden.shape[2] != width else 0
    return given.run(_LSTM, hidden, cell, width, projected)[:3]


def gru(*args: Any, **kwargs: Any) -> Any:
    """torch.gru."""
    return _plain(torch.gru, _GRU, args, kwargs)


def rnn_tanh(*args: Any, **kwargs: Any) -> Any:
    """torch.rnn_tanh."""
    return _plain(torch.rnn_tanh, _TANH, args, kwargs)


def rnn_relu(*args: Any, **kwargs: Any) -> Any:
    """torch.rnn_relu."""
    return _plain(torch.rnn_relu, _RELU, args, kwargs)


KERNELS = {torch.lstm: lstm, torch.gru: gru, torch.rnn_tanh: rnn_tanh, torch.rnn_relu: rnn_relu}  # in place of these


def _plain(real: Any, mode: int, args: Any, kwargs: Any) -> Any:
    given = _Given.of(args, kwargs)
    if given is None:
        return real(*args, **kwargs)
    return given.run(mode, given.state, None, given.state.shape[2], 0)[:2]


class _Given:
    """The arguments of torch's functions, whose two forms (padded, packed) differ."""

    def __init__(self, args: Any) -> None:
        if isinstance(args[3], (list, tuple)):  # packed
            self.input, sizes, self.state, self.weights = args[:4]
            self.sizes = [int(size) for size in sizes]
            self.biases, self.layers, self.dropout, self.train, self.both = args[4:9]
            self.batch_first = False
        else:
            self.input, self.state, self.weights = args[:3]
            self.sizes = []
            self.biases, self.layers, self.dropout, self.train, self.both, self.batch_first = args[3:9]

    @classmethod
    def of(cls, args: Any, kwargs: Any) -> _Given | None:
        """None for what runs on the CPU."""
        return cls(args) if not kwargs and on_stand_in(args[0]) else None

    def run(self, mode: int, hidden: Any, cell: Any, width: int, projected: int) -> Any:
        tensors = cast_for_cudnn([self.input, hidden, *([] if cell is None else [cell]), *self.weights])
        given, hidden = tensors[:2]
        cell, weights = (None, tensors[2:]) if cell is None else (tensors[2], tensors[3:])
        stride = len(weights) // (self.layers * (2 if self.both else 1))
        shape = (mode, width, projected, self.layers, self.batch_first, float(self.dropout), self.train, self.both)
        return aten._cudnn_rnn(given, weights, stride, None, hidden, cell, *shape, self.sizes, None)


# What its two operators make, see answers.py


def forward(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    given, _, _, _, hidden, cell, mode, width, projected, layers, batch_first, _, train, both, sizes, _ = args
    books.notes[NOTE] += 1
    books.count(_flops(given, mode, width, projected, layers, directions := 2 if both else 1))
    steps = given.shape[:-1].numel()
    out_width = directions * (projected or width)
    states = (layers * directions, hidden.shape[1])
    kept = steps * directions * width * (_KEPT[mode] * layers + layers - 1) * given.element_size() if train else 0
    shapes: list[tuple[int, ...]] = [(*given.shape[:-1], out_width), (*states, projected or width)]
    shapes.append((*states, width) if cell is not None else (0,))
    with books.passing(_workspace(given, mode, width, directions, batch_first), "_cudnn_rnn"):
        out, new_hidden, new_cell = (books.new(given, shape, given.dtype, "_cudnn_rnn") for shape in shapes)
        reserve = books.new(given, (kept,), torch.uint8, "_cudnn_rnn")
        weights = books.new(given, (0,), given.dtype, "_cudnn_rnn")  # they are one buffer already
    return out, new_hidden, new_cell, reserve, weights


def backward(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    given, weights, _, _, hidden, cell, _, _, _, _, mode, width, projected, layers, batch_first, _, _, both = args[:18]
    name, directions = "_cudnn_rnn_backward", 2 if both else 1
    books.count(2 * _flops(given, mode, width, projected, layers, directions))
    with books.passing(_workspace(given, mode, width, directions, batch_first), name):
        made = [books.new(t, tuple(t.shape), t.dtype, name) for t in (given, hidden)]
        made.append(books.new(hidden, tuple(cell.shape) if cell is not None else (0,), hidden.dtype, name))
        # One buffer, of which the weights' gradients are views.
        flat = books.new(given, (sum(w.numel() for w in weights),), weights[0].dtype, name)
    with books.fake:
        parts = flat.split([w.numel() for w in weights])
        return (*made, [part.view(w.shape) for part, w in zip(parts, weights, strict=True)])


def _workspace(given: Any, mode: int, width: int, directions: int, batch_first: bool) -> int:
    """One layer's gates before they are applied, for the whole sequence; and the input with its time steps first."""
    gates = given.shape[:-1].numel() * directions * _GATES[mode] * width
    return int((gates + (given.numel() if batch_first else 0)) * given.element_size())


def _flops(given: Any, mode: int, width: int, projected: int, layers: int, directions: int) -> int:
    """Of the products, forward."""
    out = projected or width
    inputs = given.shape[-1] + (layers - 1) * directions * out
    each = _GATES[mode] * width * (inputs + layers * out) + layers * width * projected
    return int(2 * given.shape[:-1].numel() * directions * each)

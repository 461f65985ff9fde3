"""Computing a module's call again in backward, and standing where modules are called; for the rungs that do so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from .as_then import AsThen, has_hooks
from .statistics import statistics_aside

Call = Callable[..., Any]  # what nn.Module._call_impl is


@contextmanager
def calls_through(made: Callable[[Call], Call]) -> Iterator[None]:
    """Have every module called by what this makes of torch's own way; nothing is put on a module."""
    real: Any = nn.Module._call_impl
    nn.Module._call_impl = made(real)  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module._call_impl = real  # type: ignore[method-assign]


def computed_again(
    module: nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    real: Call,
    within: Callable[[], AbstractContextManager[None]],
) -> Any:
    """Call it `within`, now and once more in backward; the second run leaves its running statistics alone.

    What has hooks by now is left as it is: those of the cell would be called twice.
    """
    if any(map(has_hooks, module.modules())):
        with within():
            return real(module, *args, **kwargs)
    ran, then = False, AsThen(module, args, kwargs)

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal ran
        if not ran:
            ran = True
            with within():
                output = real(module, *args, **kwargs)
            then.ran()
            return output
        with within(), then.again(), statistics_aside(module):
            return real(module, *args, **kwargs)

    return checkpoint(run, *args, use_reentrant=False, **kwargs)

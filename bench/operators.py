"""Every operator and module that torch tests itself with: on a CPU slot, and in a trial run.

torch.testing has sample inputs of each. On a slot, results and gradients must be the CPU's to the bit; in a trial run,
where nothing has values, they must have the CPU's shapes and kinds. Needs `expecttest`, as torch's own tests do.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from common import package_root, show_table, write_results

package_root()

import torch  # noqa: E402 - needs the path above
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.common_modules import module_db  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

from jupyter_gpufit.cuda.slot import as_slot  # noqa: E402
from jupyter_gpufit.units import GiB  # noqa: E402
from tests.estimate.traced import traced  # noqa: E402

Tensors = list["torch.Tensor | None"]
Case = Callable[[str], Tensors]  # on a device; results and gradients
SAMPLES = 3  # of each
AT_ONCE = 20  # in one trial run
MARK = "FOUND"
UNWRITTEN = "empty"  # in the name of an operator whose result has whatever was in memory
KINDS = (torch.float32, torch.int64, torch.bool, torch.complex64, torch.float64)
TRIED = """
import json, sys
sys.path.insert(0, {folder!r})
import operators, torch
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1, device="cuda"))])  # without, each backward is a step
found = operators.differing({first}, {last}, operators.look_alike)
raise RuntimeError(operators.MARK + json.dumps(operators.short(found)))
"""


def main() -> None:
    warnings.simplefilter("ignore")
    known = [*op_db, *module_db]
    with as_slot("cpu:0", 8 * GiB):
        on_slot = differing(0, len(known), same_bits)
    in_trial = [one for first in range(0, len(known), AT_ONCE) for one in tried(first, first + AT_ONCE)]
    rows = []
    for where, found in (("on a slot: the CPU's bits", on_slot), ("in a trial run: its shapes", in_trial)):
        samples = sum(count for _, count, _ in found)
        odd = [(name, why) for name, _, why in found if why]
        rows.append((where, len(op_db), len(module_db), samples, len(odd)))
        for name, why in odd:
            print(f"{where}: {name}: {why[:200]}")
    print()
    show_table(("", "operators", "modules", "samples", "that differ"), rows)
    odd_ones = {"on a slot": on_slot, "in a trial run": in_trial}
    write_results(
        "operators",
        {
            where: {
                "samples": sum(count for _, count, _ in found),
                "differ": {name: why[:300] for name, _, why in found if why},
            }
            for where, found in odd_ones.items()
        }
        | {"operators": len(op_db), "modules": len(module_db)},
    )


def differing(first: int, last: int, same: Callable[[str, Tensors, Tensors], str]) -> list[tuple[str, int, str]]:
    """Of each: its name, how many samples were run, and the first difference."""
    found = []
    for info in [*op_db, *module_db][first:last]:
        count, why = 0, ""
        for case in cases_of(info):
            try:
                expected = case("cpu")
            except Exception:
                continue  # not meant for the CPU, or for this build
            count += 1
            try:
                why = why or same(info.name, expected, case("cuda"))
            except Exception as error:
                why = why or f"{type(error).__name__}: {error}"
        found.append((_name(info), count, why))
    return found


def short(found: list[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    """Those that differ, and a count of the others: an error's text is not long."""
    rest = sum(count for _, count, why in found if not why)
    return [("", rest, ""), *((name, count, why[:100]) for name, count, why in found if why)]


def tried(first: int, last: int) -> list[tuple[str, int, str]]:
    """The same in a trial run, or in several where something ends it."""
    trace = traced(TRIED.format(folder=str(sys.path[0]), first=first, last=last), limit=300.0)
    said = re.findall(rf"RuntimeError: {MARK}(\[.*\])", trace.error)
    if said:
        return [(name, count, why) for name, count, why in json.loads(said[-1])]
    if last - first == 1:
        return [(_name([*op_db, *module_db][first]), 1, f"{trace.status}: {trace.error.splitlines()[0]}")]
    middle = (first + last) // 2
    return tried(first, middle) + tried(middle, last)


def same_bits(name: str, expected: Tensors, got: Tensors) -> str:
    if why := look_alike(name, expected, got):
        return why
    if any(t is not None and t.device.type != "cuda" for t in got):
        return f"on {[str(t.device) for t in got if t is not None]}"
    if UNWRITTEN in name:
        return ""
    pairs = zip(expected, got, strict=True)
    return "" if all(_bits(a) == _bits(b) for a, b in pairs) else "other numbers"


def look_alike(name: str, expected: Tensors, got: Tensors) -> str:
    once, other = ([t is not None and (tuple(t.shape), str(t.dtype)) for t in one] for one in (expected, got))
    return "" if once == other else f"{other} where the CPU makes {once}"


def cases_of(info: Any) -> list[Case]:
    """A few that are not alike, of all its samples."""
    try:
        found = [*itertools.islice(_cases(info), 40)]
    except Exception:  # three kernels of attention have samples on a GPU only
        return []
    return found[:: max(1, len(found) // SAMPLES)][:SAMPLES]


def _cases(info: Any) -> Iterator[Case]:
    if info in module_db:
        for training in (True, False):
            options = {"device": "cpu", "dtype": torch.float32, "requires_grad": True, "training": training}
            for given in info.module_inputs_func(info, **options):
                if given.forward_input is not None:
                    yield lambda device, given=given, training=training: _of_module(info, given, training, device)
        return
    kind = next((one for one in KINDS if one in info.dtypes), next(iter(info.dtypes)))
    needs_grad = info.supports_autograd and kind.is_floating_point
    for sample in info.sample_inputs("cpu", kind, requires_grad=needs_grad):
        yield lambda device, sample=sample: _of_operator(info, sample, device)


def _of_operator(info: Any, sample: Any, device: str) -> Tensors:
    torch.manual_seed(0)
    given, args, kwargs = _moved((sample.input, sample.args, sample.kwargs), device)
    made = _tensors(info.get_op()(given, *args, **kwargs))
    inputs = [t for t in _tensors((given, args, kwargs)) if t.requires_grad]
    return [*made, *_gradients(made, inputs if info.supports_autograd else [])]


def _of_module(info: Any, given: Any, training: bool, device: str) -> Tensors:
    torch.manual_seed(0)
    module = info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs).to(device)
    module.train(training)
    args, kwargs = _moved((given.forward_input.args, given.forward_input.kwargs), device)
    made = _tensors(module(*args, **kwargs))
    return [*made, *_gradients(made, [p for p in module.parameters() if p.requires_grad])]


def _gradients(made: list[torch.Tensor], of: list[torch.Tensor]) -> Tensors:
    wanted = [t.abs() if t.is_complex() else t for t in made if t.requires_grad and t.layout is torch.strided]
    if not wanted or not of:
        return []
    return [*torch.autograd.grad(sum(t.sum() for t in wanted), of, allow_unused=True)]  # type: ignore[arg-type]


def _moved(given: Any, device: str) -> Any:
    def move(one: Any) -> Any:
        if isinstance(one, torch.Tensor):
            return one.detach().clone().to(device).requires_grad_(one.requires_grad)
        return torch.device(device) if isinstance(one, torch.device) else device if one == "cpu" else one

    return tree_map(move, given)


def _tensors(given: Any) -> list[torch.Tensor]:
    return [one for one in tree_leaves(given) if isinstance(one, torch.Tensor)]


def _bits(t: torch.Tensor | None) -> bytes | None:
    if t is None or t.is_quantized:
        return None
    t = (t if t.layout is torch.strided else t.to_dense()).detach().cpu().resolve_conj().resolve_neg()
    flat = torch.empty(t.numel(), dtype=t.dtype).copy_(t.reshape(-1))  # whose steps are of one
    return flat.view(torch.uint8).numpy().tobytes() if t.numel() else b""


def _name(info: Any) -> str:
    return ".".join(filter(None, (info.name, getattr(info, "variant_test_name", ""))))


if __name__ == "__main__":
    main()

"""What a notebook's variables are, bit by bit: a text that a kernel runs, and what differs between two of them.

Where a tensor lies is not looked at: a plain kernel says cpu where one with the stand-in says cuda:0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

MARK = "digest:"

# One function with all its imports inside, so that nothing of it stays among the notebook's names.
SOURCE = (
    '''
def __digest__(space):
    import hashlib, io, json, random, sys, types
    np, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    seen, kept = {}, []

    def sha(raw):
        return hashlib.sha256(raw).hexdigest()[:16]

    def is_own(name):  # of the notebook, or of a module beside it
        file = getattr(sys.modules.get(name), "__dict__", {}).get("__file__")  # asked, a lazy one would be imported
        installed = isinstance(file, str) and ("-packages" in file or file.startswith(sys.base_prefix))
        if name == "__main__":
            return True
        return isinstance(file, str) and file[0] == "/" and not installed and not name.startswith("jupyter_gpufit")

    def of_tensor(t):
        if torch.nn.parameter.is_lazy(t):
            return f"{t.dtype} without a shape"
        with torch.no_grad():
            t = t.detach().to_dense() if t.layout != torch.strided else t
            plain = not torch.utils._python_dispatch.is_traceable_wrapper_subclass(t)
            t = torch.Tensor.as_subclass(t, torch.Tensor) if plain else t  # whose methods are torch's own
            t = t.detach().cpu()
            t = torch.view_as_real(t) if t.is_complex() else t
            flat = torch.empty(t.numel(), dtype=t.dtype).copy_(t.contiguous().reshape(-1))  # whose steps are of one
            raw = bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b""
        return f"{t.dtype} {tuple(t.shape)} {sha(raw)}"

    def of(value, depth=0):
        if isinstance(value, str) and value in ("cpu", "cuda", "cuda:0"):
            return "a device"
        if isinstance(value, (int, str, bytes, bool, type(None), complex)) and not hasattr(value, "__dict__"):
            return repr(value) if len(repr(value)) < 200 else sha(repr(value).encode())
        if isinstance(value, float):
            return value.hex()
        if id(value) in seen:
            return f"<{seen[id(value)]}>"
        seen[id(value)] = len(seen)
        kept.append(value)  # or its address would be that of another one, which looked as if it had been seen
        if depth > 12:
            return type(value).__name__
        if torch is not None and isinstance(value, torch.Tensor):
            grad = value.grad if value.is_leaf else None
            return of_tensor(value) + ("" if grad is None else " grad " + of_tensor(grad))
        if torch is not None and isinstance(value, torch.device):
            return "a device"
        if torch is not None and isinstance(value, torch.Generator):
            return sha(value.get_state().numpy().tobytes())
        if np is not None and isinstance(value, np.ndarray):
            if value.dtype == object:
                return [of(v, depth + 1) for v in value.ravel().tolist()]
            return f"{value.dtype} {value.shape} {sha(value.tobytes())}"
        if np is not None and isinstance(value, np.generic):
            return f"{value.dtype} {sha(value.tobytes())}"
        if type(value) is dict and vars(sys.modules.get(str(value.get("__name__")), sys)) is value:
            return f"the globals of {value['__name__']}"
        if isinstance(value, dict):
            return {str(k)[:80]: of(v, depth + 1) for k, v in value.items()}
        if isinstance(value, (list, tuple)) or type(value).__name__ == "deque":
            return [of(v, depth + 1) for v in value]
        if isinstance(value, (set, frozenset)):
            return sorted(map(str, (of(v, depth + 1) for v in value)))
        if any(cls.__name__ == "_BaseDataLoaderIter" for cls in type(value).__mro__):  # in a worker it is made anew
            begun = getattr(value, "begun", None) or value
            return f"the iterator of a loader, at {getattr(begun, '_num_yielded', getattr(begun, 'given', 0))}"
        if isinstance(value, random.Random):
            return sha(repr(value.getstate()).encode())
        if torch is not None and isinstance(value, torch.nn.Module):
            try:
                state = {k: of_tensor(v) for k, v in value.state_dict().items() if isinstance(v, torch.Tensor)}
            except AttributeError:  # a program put another kind of table in place of its parameters
                state = [of_tensor(v) for v in value.parameters()]
            return {"state": state, "training": value.training}
        try:  # what a library's object answers to such a question is its own affair
            if hasattr(value, "state_dict") and not isinstance(value, type):
                return of(value.state_dict(), depth + 1)
        except Exception:
            return type(value).__name__
        if isinstance(value, (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
            return getattr(value, "__qualname__", type(value).__name__)
        if hasattr(value, "__dict__") and is_own(type(value).__module__):
            writes = any(cls.__name__ == "SummaryWriter" for cls in type(value).__mro__)  # has handles of its library's
            return {k: of(v, depth + 1) for k, v in vars(value).items() if not (writes and k.startswith("_"))}
        return type(value).__name__

    hidden = {"In", "Out", "exit", "quit", "get_ipython", "open"}
    found = {}
    for name, value in sorted(space.items()):
        if not name.startswith("_") and name not in hidden:
            seen.clear()
            found[name] = of(value)
    for module in sorted(name for name in [*sys.modules] if name != "__main__" and is_own(name)):
        for name, value in vars(sys.modules[module]).items():
            if not name.startswith("__") and not isinstance(value, types.ModuleType):
                seen.clear()
                found[module + "." + name] = of(value)
    found["random"] = sha(repr(random.getstate()).encode())
    if np is not None:
        found["numpy.random"] = sha(repr([np.random.get_state()[1].tolist(), *np.random.get_state()[2:]]).encode())
    if torch is not None:
        found["torch.random"] = sha(torch.get_rng_state().numpy().tobytes())
    sys.stdout.write("'''  # a program may have another `print`, also among the builtins
    + MARK
    + """" + json.dumps(found) + "\\n")
"""
)
# Among names of its own: a notebook may have another `id`, or `sorted`.
CALL = f"""import builtins as __digest__
__digest__.exec({SOURCE + "__digest__(space)"!r}, {{'space': __digest__.dict(__digest__.globals())}})
del __digest__"""


def read_digest(stdout: str) -> dict[str, object]:
    """What the text printed."""
    [line] = [line for line in stdout.splitlines() if line.startswith(MARK)]
    found: dict[str, object] = json.loads(line.removeprefix(MARK))
    return found


def differences(one: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    """The names whose values differ, each with the place within it; of modules, those that are loaded in both."""
    names = sorted(name for name in {*one, *other} if "." not in name or (name in one and name in other))
    return [
        place
        for name in names
        if one.get(name) != other.get(name)
        for place in [_place(name, one.get(name), other.get(name))]
    ]


def _place(at: str, one: object, other: object) -> str:
    """The innermost part of a value that differs."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            if one.get(key) != other.get(key):
                return _place(f"{at}[{key!r}]", one.get(key), other.get(key))
    if isinstance(one, list) and isinstance(other, list):
        for number, (left, right) in enumerate(zip(one, other, strict=False)):
            if left != right:
                return _place(f"{at}[{number}]", left, right)
        return f"{at}: {len(one)} and {len(other)} items"
    return f"{at}: {str(one)[:60]} and {str(other)[:60]}"

"""What of ONNX Runtime is used, as one seam: on a machine without its GPU, a recording one stands here in the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from .providers import CUDA, Provider


class OrtBinding(Protocol):
    """Inputs and outputs of a session, bound to where they lie. What is bound stays so from run to run."""

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray[Any, Any]) -> None: ...
    def bind_ortvalue_input(self, name: str, ortvalue: Any) -> None: ...
    def bind_output(self, name: str, device_type: str = "cpu") -> None: ...
    def clear_binding_inputs(self) -> None: ...
    def clear_binding_outputs(self) -> None: ...
    def copy_outputs_to_cpu(self) -> list[np.ndarray[Any, Any]]: ...


class OrtSession(Protocol):
    """What of onnxruntime.InferenceSession is used."""

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any]) -> Any: ...
    def get_providers(self) -> list[str]: ...
    def io_binding(self) -> OrtBinding: ...
    def run_with_iobinding(self, iobinding: OrtBinding) -> None: ...


class OrtRuntime(Protocol):
    """ONNX Runtime itself."""

    def session(self, path: str, provider: Provider, *, shared: bool = False) -> OrtSession:
        """Of a file; `shared`: with one arena for all of this process."""
        ...

    def on_device(self, array: np.ndarray[Any, Any], provider: Provider) -> Any:
        """A tensor as a session's device has it; on a CPU it is the array's own memory."""
        ...


class OnnxRuntime:
    """The real one."""

    _arena = False  # of the process

    def session(self, path: str, provider: Provider, *, shared: bool = False) -> OrtSession:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = provider.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors
        if provider.names[0] == CUDA and hasattr(onnxruntime, "preload_dlls"):
            onnxruntime.preload_dlls()  # CUDA's libraries as Python packages bring them
        if shared:
            self._share(onnxruntime)
            options.add_session_config_entry("session.use_env_allocators", "1")
        first, *others = provider.names
        session: OrtSession = onnxruntime.InferenceSession(
            path, options, providers=[(first, dict(provider.options)), *others]
        )
        return session

    def _share(self, onnxruntime: Any) -> None:
        if not OnnxRuntime._arena:
            arena, default = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, onnxruntime.OrtMemType.DEFAULT
            onnxruntime.create_and_register_allocator(onnxruntime.OrtMemoryInfo("Cpu", arena, 0, default), None)
            OnnxRuntime._arena = True

    def on_device(self, array: np.ndarray[Any, Any], provider: Provider) -> Any:
        import onnxruntime

        where = "cuda" if provider.names[0] == CUDA else "cpu"
        return onnxruntime.OrtValue.ortvalue_from_numpy(array, where, 0)


def run_bound(
    session: OrtSession, binding: OrtBinding, inputs: Mapping[str, np.ndarray[Any, Any]], outputs: Sequence[str]
) -> list[np.ndarray[Any, Any]]:
    """Run it on these inputs, and on what is bound already."""
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    binding.clear_binding_outputs()  # of another shape, perhaps
    for name in outputs:
        binding.bind_output(name, "cpu")
    session.run_with_iobinding(binding)
    return list(binding.copy_outputs_to_cpu())

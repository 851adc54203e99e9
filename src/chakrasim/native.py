"""Kernels over raw memory, kept as object code that a process loads without importing Numba and NumPy.

Those two take longer to start than a short command has. `jit.kernel` is for everything else: arrays in, arrays out.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

from chakrasim import jit


class Native:
    """The function ``name`` of ``module``, compiled when first called, or loaded from where a process before kept it.

    ``parameters`` are "bytes" (a buffer of uint8), "words" (one of int64) or "int"; the result is an int64. Buffers are
    `ctypes` arrays, or `bytes` that are only read. The function itself is plain Python that calls `jit.inner` and
    `jit.leaf` of its room; with ``CHAKRASIM_JIT=0`` it is called as it is.
    """

    def __init__(self, module: str, name: str, *parameters: str) -> None:
        self._module, self._name, self._parameters = module, name, parameters
        self._engine: Any = None
        self._entry: Callable[..., int] | None = None

    def __call__(self, *arguments: Any) -> int:
        if not jit.enabled():
            function: Callable[..., int] = getattr(import_module(self._module), self._name)
            return function(*arguments)
        if self._entry is None:
            self._entry = self._load()
        result, fault = ctypes.c_int64(), ctypes.c_void_p()
        # What Numba's functions take: where to put the result, where to put an exception (there is none), the rest.
        self._entry(ctypes.byref(result), ctypes.byref(fault), *map(_address, arguments))
        return result.value

    def is_cold(self) -> bool:
        """Whether the first call compiles: nothing is kept."""
        folder = jit.kept(jit.room_of(self._module)) if jit.enabled() else None
        return jit.enabled() and (folder is None or not folder.holds(f"{self._name}-*.native"))

    def _load(self) -> Callable[..., int]:
        """The entry point, out of kept object code if there is some for this processor."""
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine()
        folder, name = jit.kept(jit.room_of(self._module)), f"{self._name}-{_processor(llvm)}.native"
        found = folder.read(name) if folder is not None else None
        if found is None:
            found = self._compile()
            if folder is not None:
                folder.write(name, found)
        symbol, _, code = found.partition(b"\n")
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        kinds = (ctypes.c_int64 if kind == "int" else ctypes.c_void_p for kind in self._parameters)
        prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *kinds)
        entry: Callable[..., int] = prototype(self._engine.get_function_address(symbol.decode()))
        return entry

    def _compile(self) -> bytes:
        """Symbol and object code, with a line's end between."""
        from numba import types

        pointer: Any = types.CPointer
        names = {"bytes": pointer(types.uint8), "words": pointer(types.int64), "int": types.int64}
        signature = types.int64(*(names[kind] for kind in self._parameters))
        compiled: Any = jit.inner(getattr(import_module(self._module), self._name))
        compiled.compile(signature)
        result = compiled.overloads[signature.args]
        code: bytes = result.library._get_compiled_object()
        symbol: str = result.fndesc.llvm_func_name
        return symbol.encode() + b"\n" + code


def _address(argument: Any) -> Any:
    return ctypes.cast(ctypes.c_char_p(argument), ctypes.c_void_p) if isinstance(argument, bytes) else argument


def _processor(llvm: Any) -> str:
    """What object code depends on beside its source."""
    text = f"{llvm.llvm_version_info} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]

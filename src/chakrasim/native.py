"""Kernels over raw memory, kept as object code that a process loads without importing Numba and NumPy.

Those two take longer to start than a short command has. `jit.kernel` is for everything else: arrays in, arrays out.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
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
        folder = jit.cache_dir(jit.room_of(self._module)) if jit.enabled() else None
        return jit.enabled() and (folder is None or next(folder.glob(f"{self._name}-*.o"), None) is None)

    def _load(self) -> Callable[..., int]:
        """The entry point, out of kept object code if there is some for this processor."""
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine()
        folder = jit.cache_dir(jit.room_of(self._module))
        kept = folder / f"{self._name}-{_processor(llvm)}.o" if folder is not None else None
        symbol, code = _read(kept) or self._compile(kept)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        kinds = (ctypes.c_int64 if kind == "int" else ctypes.c_void_p for kind in self._parameters)
        prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *kinds)
        entry: Callable[..., int] = prototype(self._engine.get_function_address(symbol))
        return entry

    def _compile(self, kept: Path | None) -> tuple[str, bytes]:
        """Symbol and object code, written to ``kept`` for the next process."""
        from numba import types

        pointer: Any = types.CPointer
        names = {"bytes": pointer(types.uint8), "words": pointer(types.int64), "int": types.int64}
        signature = types.int64(*(names[kind] for kind in self._parameters))
        compiled: Any = jit.inner(getattr(import_module(self._module), self._name))
        compiled.compile(signature)
        result = compiled.overloads[signature.args]
        code: bytes = result.library._get_compiled_object()
        symbol: str = result.fndesc.llvm_func_name
        if kept is not None:
            _write(kept, symbol, code)
        return symbol, code


def _address(argument: Any) -> Any:
    return ctypes.cast(ctypes.c_char_p(argument), ctypes.c_void_p) if isinstance(argument, bytes) else argument


def _processor(llvm: Any) -> str:
    """What object code depends on beside its source."""
    text = f"{llvm.llvm_version_info} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read(kept: Path | None) -> tuple[str, bytes] | None:
    """Symbol and object code in the file; None if it is not there or not whole."""
    try:
        digest, symbol, code = kept.read_bytes().split(b"\n", 2) if kept is not None else (b"", b"", b"")
    except (OSError, ValueError):
        return None
    whole = digest == hashlib.sha256(symbol + code).hexdigest().encode()
    return (symbol.decode(), code) if whole else None


def _write(kept: Path, symbol: str, code: bytes) -> None:
    from chakrasim.errors import InputError
    from chakrasim.trace.storage import write_atomically

    digest = hashlib.sha256(symbol.encode() + code).hexdigest()
    with suppress(InputError):  # then the next process compiles again
        write_atomically(kept, b"\n".join((digest.encode(), symbol.encode(), code)))

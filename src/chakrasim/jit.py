"""Compilation of the hot loops: Numba where allowed, plain Python otherwise, with a cache that never fails.

``CHAKRASIM_JIT=0`` (or Numba's own ``NUMBA_DISABLE_JIT=1``) runs the same functions uncompiled, for debugging.
``CHAKRASIM_CACHE_DIR`` names the folder for compiled code; the default is the user's cache folder. Compiled code is
kept, for each room (``trace``, ``simulator``, ...), under a digest of all kernel sources of that room, because Numba
notices a change in a function's own file but not in a callee's. So a kernel calls only kernels of its own room.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from chakrasim.kept_code import Store, store

_ENDING = ".kept"
_BESIDE = {"simulator": ("machine/topologies/*.py", "machine/graph/routing/pick.py")}
"""By room: files of others whose plain functions its kernels compile in."""

F = TypeVar("F", bound=Callable[..., Any])


def enabled() -> bool:
    """Whether kernels are compiled."""
    return os.environ.get("CHAKRASIM_JIT", "1") != "0" and os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


@cache
def kept(room: str) -> Store | None:
    """Where a room's compiled code is kept, or None where it is not (then every process compiles anew)."""
    return store(f"{room}-{_source_digest(room)}")


def is_cold(room: str) -> bool:
    """Whether the next run has to compile first: nothing is kept for this room's sources yet."""
    if not enabled() or not _kernel_sources(room):
        return False
    folder = kept(room)
    return folder is None or not folder.holds(f"*{_ENDING}")


def room_of(module: str) -> str:
    """The room (sub-package of chakrasim) that a module belongs to."""
    return [*module.split("."), ""][1] or "none"


@cache
def _kernel_sources(room: str) -> list[bytes]:
    """The texts of a room's files that hold kernels, and of those beside them, whose constants are compiled in."""
    texts = {path: path.read_bytes() for path in sorted((Path(__file__).parent / room).rglob("*.py"))}
    marks = (b"@kernel", b"@inner", b"@leaf")
    folders = {path.parent for path, text in texts.items() if any(mark in text for mark in marks)}
    beside = [path for files in _BESIDE.get(room, ()) for path in sorted(Path(__file__).parent.glob(files))]
    return [text for path, text in texts.items() if path.parent in folders] + [path.read_bytes() for path in beside]


def _source_digest(room: str) -> str:
    digest = hashlib.sha256()
    for text in _kernel_sources(room):
        digest.update(text)
    return digest.hexdigest()[:16]


def kernel(function: F) -> F:
    """A hot loop that Python calls: compiled on its first call and kept on disk, or left as it is.

    No bounds checks, C-like division, and no reference counts (kernels get arrays and make none).
    """
    if not enabled():
        return function
    compiled = _njit(function)
    folder = kept(room_of(function.__module__))
    if folder is not None:
        _keep(compiled, function, folder)
    return compiled


def _keep(compiled: Any, function: Callable[..., Any], folder: Store) -> None:
    """Let the dispatcher look into ``folder``. A version of Numba that lacks the parts for it compiles every time."""
    with suppress(ImportError, AttributeError):
        if hasattr(compiled, "_cache") and function.__closure__ is None:
            compiled._cache = _KeptOverloads(function, folder)


class _KeptOverloads:
    """What a dispatcher asks for kept code, instead of Numba's cache, which unpickles whatever lies in its folder.

    Loading does without preparing the compiler first, which a run from kept code never needs: that is a seventh of a
    small run's time. Numba prepares it at the latest when it compiles.
    """

    cache_path = None

    def __init__(self, function: Callable[..., Any], folder: Store) -> None:
        import numba
        from numba.core import serialize
        from numba.core.compiler import CompileResult

        result: Any = CompileResult
        untyped: Any = serialize
        self._folder, self._dump = folder, untyped.dumps
        self._reduce, self._rebuild = result._reduce, result._rebuild
        self._name = function.__qualname__
        source = _file_digest(function.__code__.co_filename)
        self._made_by = function.__module__, self._name, source, sys.implementation.cache_tag, numba.__version__

    def load_overload(self, signature: Any, target: Any) -> Any:
        from chakrasim.files.outputs import undisturbed

        data = self._folder.read(self._file(signature, target))
        if data is None:
            return None
        with undisturbed():  # an exception in a function that LLVM calls back is a crash
            return self._rebuild(target, *pickle.loads(data))

    def save_overload(self, signature: Any, result: Any) -> None:
        if not result.lifted and not result.library.has_dynamic_globals:
            self._folder.write(self._file(signature, result.target_context), self._dump(self._reduce(result)))

    def flush(self) -> None:
        """Nothing is held back."""

    def _file(self, signature: Any, target: Any) -> str:
        made_for = repr((self._made_by, signature, target.codegen().magic_tuple()))
        return f"{self._name}-{hashlib.sha256(made_for.encode()).hexdigest()[:24]}{_ENDING}"


@cache
def _file_digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def inner(function: F) -> F:
    """A part of a kernel, called only by kernels: compiled into them, with nothing for Python to call."""
    return _njit(function, no_cpython_wrapper=True, no_cfunc_wrapper=True) if enabled() else function


def leaf(function: F) -> F:
    """A part of a kernel that is always put in place of its call: small, or called once with many arrays, since a
    call passes seven words for each array of a tuple."""
    if not enabled():
        return function
    return _njit(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


_PLAIN: list[Callable[..., int]] = []
_COMPILED: list[Any] = []


def address_of(function: Callable[[int, int, int], int]) -> int:
    """By what kernels call a function of three integers that is not of this package (`caller`): compiled for this
    process only, since code that is not kept cannot be stale. ValueError for one that cannot be compiled."""
    if not enabled():
        _PLAIN.append(function)
        return len(_PLAIN) - 1
    from numba import cfunc
    from numba.core.errors import NumbaError

    try:
        _COMPILED.append(cfunc("int64(int64, int64, int64)")(function))
    except NumbaError as error:
        raise ValueError(" ".join(str(error).split())) from error
    address: int = _COMPILED[-1].address
    return address


def caller() -> Any:
    """For kernels: ``called(address, a, b, c)`` calls the function that `address_of` gave this address."""
    if not enabled():
        return lambda address, a, b, c: _PLAIN[address](a, b, c)
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

    @intrinsic
    def called(typing: Any, address: Any, a: Any, b: Any, c: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(64)
            function = builder.inttoptr(arguments[0], ir.FunctionType(word, [word] * 3).as_pointer())
            return builder.call(function, arguments[1:])

        return types.int64(*[types.int64] * 4), code

    return called


def fetcher() -> Any:
    """For kernels: ``fetch(words, i)`` brings an array's word i near the processor, and waits for nothing."""
    if not enabled():
        return lambda words, i: None
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

    @intrinsic
    def fetch(typing: Any, words: Any, i: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            pointer = ir.IntType(8).as_pointer()
            bits = [ir.IntType(32)] * 3
            prefetch = builder.module.declare_intrinsic(
                "llvm.prefetch", [pointer], ir.FunctionType(ir.VoidType(), [pointer, *bits])
            )
            place = builder.bitcast(builder.gep(data, [arguments[1]]), pointer)
            builder.call(prefetch, [place, *(bits[0](value) for value in (1, 3, 1))])  # to write, near, data
            return context.get_dummy_value()

        return types.void(words, types.int64), code

    return fetch


def _njit(function: F, **options: bool) -> F:
    import numba

    njit: Any = numba.njit  # its stubs do not know all options
    compiled: F = njit(error_model="numpy", nogil=True, _nrt=False, pipeline_class=_by_parts(), **options)(function)
    return compiled


@cache
def _by_parts() -> Any:
    """Numba's compiler, but that it only translates the parts of kernels, and optimizes each kernel once, as a whole.

    By itself it optimizes every function together with all that it calls, and makes machine code of all of these: what
    stands below ten others is compiled ten times.
    """
    from llvmlite.binding import Linkage
    from numba.core import codegen, compiler, environment

    ordinary: Any = codegen.JITCodeLibrary
    compiles: Any = compiler.Compiler
    environment_of: Any = environment.lookup_environment

    class Whole(ordinary):  # type: ignore[misc]
        def add_linking_library(self, library: Any) -> None:
            # Callers stand before what they call, which is linked only where something asks for it.
            for one in [library, *library._linking_libraries] if isinstance(library, Part) else [library]:
                if one not in self._linking_libraries:
                    super().add_linking_library(one)

        def _optimize_final_module(self) -> None:
            # What nobody else can call loses arguments that it does not need.
            for function in self._final_module.functions:
                if function.linkage == Linkage.linkonce_odr:
                    function.linkage = Linkage.internal
            super()._optimize_final_module()

        def finalize(self) -> None:
            super().finalize()
            for variable in self._final_module.global_variables:
                own = environment_of(variable.name)
                if own is not None:
                    self._codegen.set_env(variable.name, own)

    class Part(Whole):
        codegen = property(lambda self: self)

        def set_env(self, name: str, environment: object) -> None:
            """Nothing has an address before the kernel is made."""

        def get_pointer_to_function(self, name: str) -> int:
            return 0

        def finalize(self) -> None:
            self._finalized = True

    class ByParts(compiles):  # type: ignore[misc]
        def compile_extra(self, function: Any) -> Any:
            made = Part if self.state.flags.no_cpython_wrapper else Whole
            self.state.library = made(self.state.targetctx.codegen(), function.__qualname__)
            self.state.library.enable_object_caching()
            return super().compile_extra(function)

    return ByParts

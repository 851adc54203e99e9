"""Old paths of public names, which work for one release and warn."""

import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

#: What stood in a module that is no more, or in one that is a package now: where it is.
MOVED: Final = {
    "chakrasim.converter.across_ranks.compare_ranks": "chakrasim.compare_ranks",
    "chakrasim.converter.text.convert_text": "chakrasim.convert_text",
    "chakrasim.diagnosis.discover.discover": "chakrasim.discover",
    "chakrasim.linker.clocks.align": "chakrasim.align",
    "chakrasim.linker.replay.replay": "chakrasim.linker.rows.replay.replay",
    "chakrasim.report.parts_picture.write_parts": "chakrasim.write_parts",
    "chakrasim.simulator.result.PARTS": "chakrasim.simulator.PARTS",
    "chakrasim.simulator.result.CollectiveFigures": "chakrasim.simulator.CollectiveFigures",
    "chakrasim.simulator.result.LinkFigures": "chakrasim.simulator.LinkFigures",
    "chakrasim.simulator.result.NodeRecord": "chakrasim.simulator.NodeRecord",
    "chakrasim.simulator.result.SimulationResult": "chakrasim.SimulationResult",
    "chakrasim.trace.host_reader.read_host": "chakrasim.trace.read_host",
    "chakrasim.trace.kineto_reader.read_kineto": "chakrasim.trace.read_kineto",
    "chakrasim.trace.linked.LinkedTrace": "chakrasim.trace.LinkedTrace",
    "chakrasim.trace.linked_file.read_linked": "chakrasim.trace.read_linked",
    "chakrasim.trace.linked_file.write_linked": "chakrasim.trace.write_linked",
}


def moved_names(module: str) -> Callable[[str], Any]:
    """``__getattr__`` of a module that has moved: its public names, with a warning the first time."""

    def get(name: str) -> Any:
        old = f"{module}.{name}"
        if old not in MOVED:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{old} is now {MOVED[old]}; the old path goes with the next release", DeprecationWarning, 2)
        home, _, new = MOVED[old].rpartition(".")
        found = getattr(import_module(home), new)
        setattr(sys.modules[module], name, found)
        return found

    return get


def moved_methods(functions: Mapping[str, str]) -> Callable[[Any, str], Any]:
    """``__getattr__`` of a class whose methods are functions of its values now: by the method's name, where each is."""

    def get(value: Any, name: str) -> Any:
        if name not in functions:
            raise AttributeError(f"{type(value).__name__!r} object has no attribute {name!r}")
        old = f"{type(value).__name__}.{name}"
        warnings.warn(f"{old} is now {functions[name]}; the method goes with the next release", DeprecationWarning, 2)
        home, _, new = functions[name].rpartition(".")
        return partial(getattr(import_module(home), new), value)

    return get


class _OldModules:
    """A finder of the modules that are no more, asked after all others."""

    names: Final = frozenset(old.rpartition(".")[0] for old in MOVED)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in self.names else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Python's own kind of module."""

    def exec_module(self, module: ModuleType) -> None:
        module.__getattr__ = moved_names(module.__name__)  # type: ignore[method-assign]


def install() -> None:
    """Let imports find the old modules."""
    if not any(isinstance(finder, _OldModules) for finder in sys.meta_path):
        sys.meta_path.append(_OldModules())

"""Our machine file: network, compute, memory and collectives of one machine in one readable YAML file.

Every quantity carries its unit, ``false`` is off, and a key that is not known is an error. `machine_keys` has the keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from chakrasim.collectives.libraries.calibrated import Calibrated
from chakrasim.collectives.libraries.versions import Library
from chakrasim.config.kinds import as_plain_integer, text
from chakrasim.config.section import Section, Source, open_named, resolve
from chakrasim.config.table import Values, names, read
from chakrasim.config.values import as_sequence
from chakrasim.errors import InputError
from chakrasim.machine.algorithm import Algorithm
from chakrasim.machine.board import board_names
from chakrasim.machine.device.file import device_names, load_device
from chakrasim.machine.device.profile import DeviceProfile
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.network_file import GraphNetwork
from chakrasim.machine.graph.routing import Routing
from chakrasim.machine.machine import Machine
from chakrasim.machine.machine_keys import MACHINE
from chakrasim.machine.network import Network, load_network
from chakrasim.machine.presets import preset_names, preset_text
from chakrasim.machine.settings import changed
from chakrasim.machine.site import named_library
from chakrasim.machine.sized import PLAIN_COLLECTIVES, sized_machine
from chakrasim.machine.system import System
from chakrasim.notes import Notes, lists_too

KIND: Final = "machine file"
_OF_LIBRARY: Final = ("library", "environment", "site", "constants")
_HINT: Final = "ASTRA-sim's own files are given as network, system and memory, not as a machine"


@lists_too
def load_machine(
    source: Source | Machine, notes: Notes | None = None, *, gpus: int | None = None, nic: str | None = None,
    fabric: str | None = None, oversubscription: float | None = None, settings: Mapping[str, object] | None = None,
    library: str | None = None,
) -> Machine:  # fmt: skip
    """Read a machine: the name of a preset or a board, the path of a machine file, the mapping such a file holds, or a
    Machine.

    A board's machine has ``gpus`` GPUs (one board's unless given), NICs of another speed (``nic``, such as "400G"), a
    ``fabric`` ("rail", "fat-tree", "one-switch") and its ``oversubscription``: see `sized_machine`. ``settings`` change
    single figures before they are read: by place (``network[0].bandwidth``, ``network.graph.parts.rails.nic``) the
    value as the file would write it. ``library`` (such as "nccl-2.27.7") runs the collectives, whatever the file says.

    What there is to warn of stands in the machine's ``warnings``, and is added to ``notes`` if they are given. A name
    of a preset wins over a file of that name (write ``./name`` for the file). Raises :class:`chakrasim.InputError` for
    unknown keys, missing or unknown units and values out of range.
    """
    said = Notes()
    size = {"gpus": gpus, "nic": nic, "fabric": fabric, "oversubscription": oversubscription}
    try:
        if isinstance(source, Machine):
            said.warn(*source.warnings)
            _refuse_options(size, settings, "a Machine is complete")
            return source if library is None else _run_by(source, library, said)
        made = _load(_section(source, size, settings, said))
        if library is not None:
            made = _run_by(made, library, said)
        elif made.library is not None and made.library.note:
            said.warn(made.library.note)
        return replace(made, warnings=said.warnings)
    finally:
        if notes is not None:
            notes.add(said)


def _run_by(machine: Machine, library: str, notes: Notes) -> Machine:
    """The machine with another library."""
    found = named_library(library)
    if found is not None and found.note:
        notes.warn(found.note)
    return replace(machine, library=found)


def _section(source: Source, size: dict[str, Any], settings: Mapping[str, object] | None, notes: Notes) -> Section:
    """The entries of a machine file, or those that a board and a size stand for, with the settings in place."""
    if isinstance(source, str) and source in board_names():
        section = Section(sized_machine(source, **size), f"machine {source}", notes)
        graph: Any = section.entries["network"]["graph"]  # type: ignore[index]
        if len(graph["parts"]) == 1:
            idle = [name for name in ("nic", "fabric", "oversubscription") if size[name] is not None]
            notes.warn(*(f"{section.file}: {name} has no effect: one board has no NICs and no fabric" for name in idle))
        elif size["oversubscription"] is not None and _is_one_leaf(graph):
            notes.warn(f"{section.file}: oversubscription has no effect: all NICs are on one leaf")
    else:
        neither = "neither a preset nor a machine file"
        known = (*preset_names(), *board_names())
        section = open_named(source, KIND, known, preset_text, label="preset", neither=neither, notes=notes)
        _refuse_options(size, None, "only boards have a size: " + ", ".join(board_names()))
    return changed(section, settings or {})


def _is_one_leaf(graph: Mapping[str, Any]) -> bool:
    """Whether the leaves of a board's fat tree, which is two tiers then, are one."""
    *_, nics, fabric = graph["parts"]
    boards = graph["ranks"] // graph["islands"]["gpus"]
    ports = boards * nics["nics"]["per-island"]
    return "leaf-spine" in fabric and bool(fabric["leaf-spine"]["hosts-per-leaf"] >= ports)


def _refuse_options(size: Mapping[str, object], settings: Mapping[str, object] | None, why: str) -> None:
    given = [name for name, value in {**size, "settings": settings or None}.items() if value is not None]
    if given:
        raise InputError(f"{given[0]} has no effect on this machine", expected=why, remedy=f"leave {given[0]} out")


def _load(section: Section) -> Machine:
    section.refuse_unknown(names(MACHINE), _HINT)
    network = section.entries.get("network")
    if isinstance(network, Mapping) and "graph" in network:
        section = _with_plain_collectives(section)
    values = read(section, MACHINE)
    made = values["network"]
    links = made.graph if isinstance(made, GraphNetwork) else _network(section, made.dimensions)
    shape = links.logical if isinstance(links, NetworkGraph) else links.npus_count
    profile_name = values["compute"].pop("profile")
    profile = None if profile_name is None else _profile(section, profile_name)
    memory, collectives = values["memory"], values["collectives"]
    bus, expansion = memory.pop("shared_bus"), memory.pop("expansion")
    collectives["implementations"] = {
        name: _fitted(section, name, chosen, len(shape)) for name, chosen in collectives["implementations"].items()
    }
    given = "endpoint-delay" in section.below("collectives", ())
    library, settings, make, calibrated = (
        collectives.pop(name) for name in ("library", "settings", "make", "calibrated")
    )
    system = System(**collectives, **values["compute"], **memory, **bus, endpoint_delay_given=given)
    _warn(section, system)
    for name in settings.unused:
        section.warn(("collectives", "environment", name), "the variable changes no choice")
    _warn_of_placeholders(section, values["placeholders"])
    _warn_of_constants(section, calibrated, library)
    graphs = isinstance(made, GraphNetwork)
    try:
        machine = Machine(
            links,
            system,
            expansion,
            profile,
            values["name"],
            values["source"],
            values["compute_scale"],
            values["comm_scale"],
            made.model,
            made.routing if graphs else Routing(),
            values["slow"],
            made.changes if graphs else (),
            library,
            settings,
            make,
            calibrated,
            values["issue"],
            values["packets"],
        )
    except InputError as error:
        place = "slow" if error.file == "slow" else "network"
        section.fail(place, error.message, found=error.found, expected=error.expected or "")
    return machine


def _with_plain_collectives(section: Section) -> Section:
    """Of a graph: those of `PLAIN_COLLECTIVES` where the file has none, or names a library and no algorithms."""
    given = section.below("collectives", ()).entries
    if not set(given) <= set(_OF_LIBRARY):
        return section
    return replace(section, entries={**section.entries, "collectives": {**given, **PLAIN_COLLECTIVES}})


def _network(section: Section, dimensions: list[Values]) -> Network:
    """One mapping per dimension, the innermost first."""
    columns: dict[object, object] = {key: [dimension[key] for dimension in dimensions] for key in dimensions[0]}
    try:
        return load_network(columns)
    except InputError as error:
        section.fail("network", error.message, expected=error.expected or "")


def _profile(section: Section, name: str) -> DeviceProfile:
    """The device profile that ``compute`` names: a shipped one, or a file, beside the machine file if not here."""
    place = ("compute", "profile")
    if not name:
        section.fail(place, "no name", expected="a file, or one of " + ", ".join(device_names()))
    if name in device_names():
        return load_device(name)
    try:
        return load_device(resolve(name, section.folder, os.path.exists))
    except InputError as error:
        if error.file is not None:
            raise
        section.fail(place, error.message, found=name, expected=error.expected or "", remedy=error.remedy or "")


def _fitted(
    section: Section, name: str, chosen: Algorithm | tuple[Algorithm, ...], dimensions: int
) -> tuple[Algorithm, ...]:
    """One algorithm per dimension, or one that spans all ranks, from one for all or a list."""
    if isinstance(chosen, Algorithm):
        return (chosen,) * (1 if chosen.spans_all_ranks else dimensions)
    spanning = [algorithm.spans_all_ranks for algorithm in chosen]
    if (any(spanning) and len(chosen) > 1) or (not any(spanning) and len(chosen) != dimensions):
        place = ("collectives", "algorithms", name)
        expected = f"one name per dimension of the network ({dimensions}), or one algorithm that spans all ranks"
        found = section.below("collectives", ()).below("algorithms", ()).entries[name]
        section.fail(place, "the list does not fit the network", found=found, expected=expected)
    return chosen


def _warn(section: Section, system: System) -> None:
    if system.local_mem_bw == 0:
        section.warn(("memory", "bandwidth"), "is 0 or missing: reductions are free")
    if "track-file" in section.below("memory", ()) and not system.track_local_mem:
        section.warn(("memory", "track-file"), "the key has no effect without track")
    if not system.implementations and not system.custom and not system.per_node_custom:
        section.warn("collectives", "no algorithms: the machine can run no collective")


def _warn_of_constants(section: Section, calibrated: Calibrated | None, library: Library | None) -> None:
    if calibrated is None:
        return
    if library is None:
        section.warn(("collectives", "constants"), "the key has no effect without a library")
    if calibrated.outdated:
        what = "fitted with other weights of the model: run chakrasim calibrate collectives again"
        section.warn(("collectives", "constants"), what)


def _warn_of_placeholders(section: Section, placeholders: Section | None) -> None:
    """A warning for each figure that the file itself calls a placeholder, by its place in the file."""
    if placeholders is None:
        return
    for place in placeholders.entries:
        if not _stands_in(section.entries, place):
            placeholders.fail(place, "the file has no such key", expected="a place such as memory.bandwidth")
        section.notes.warn(f"{section.file}: $.{place} is a placeholder: {text.read(placeholders, place)}")


def _stands_in(entries: object, place: str) -> bool:
    """Whether there is something at a place such as ``network[0].bandwidth``."""
    found = entries
    for step in re.findall(r"[^.\[\]]+", place):
        if isinstance(found, Mapping) and step in found:
            found = found[step]
            continue
        index, listed = as_plain_integer(step), as_sequence(found)
        if listed is None or not isinstance(index, int) or index >= len(listed):
            return False
        found = listed[index]
    return found is not entries

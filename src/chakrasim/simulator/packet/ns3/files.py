"""Files of ASTRA-sim's ns-3 front end: a configuration, the topology that it names, and logical dimensions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from chakrasim.config.decode import decode_json, printable, read_bytes
from chakrasim.config.section import Source, resolve
from chakrasim.errors import InputError
from chakrasim.files import storage
from chakrasim.notes import Notes
from chakrasim.simulator.packet.faults import faults_of
from chakrasim.simulator.packet.network import network_of
from chakrasim.simulator.packet.ns3.system import PacketSystem, dims_of
from chakrasim.simulator.packet.settings import is_key, read_pairs, settings_of
from chakrasim.simulator.packet.topology import read_topology

LOGICAL: Final = '{"logical-dims": ["8"]}'
_CONFIGURATION: Final = "lines of KEY value, such as CC_MODE 12"


def text_of(path: str, expected: str) -> str:
    """The text of a file. Raises InputError."""
    try:
        return storage.read_bytes(path, expected=expected).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = f"byte {error.start}"
        raise InputError("this is no text in UTF-8", file=path, place=place, expected=expected) from None


def is_configuration(source: object) -> bool:
    """Whether a path leads to a configuration of ns-3's network: its first words are keys of such a one.

    Raises InputError for a topology, which is what the configuration names.
    """
    if not isinstance(source, str | os.PathLike):
        return False
    try:
        text = read_bytes(os.fspath(source), "network").decode("utf-8-sig")
    except (InputError, UnicodeDecodeError):
        return False
    words = [line.split() for line in text.splitlines() if line.split() and not line.lstrip().startswith("#")]
    if words and len(words[0]) == 3 and all(word.isdigit() for word in words[0]):
        raise InputError(
            "this is a topology, not the configuration of a network", file=printable(os.fspath(source)),
            expected="a configuration whose TOPOLOGY_FILE names it",
        )  # fmt: skip
    return any(is_key(line[0]) for line in words)


def values_of(source: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The keys and values of a configuration, and its name for messages. Raises InputError."""
    if isinstance(source, Mapping):
        return source, "settings"
    path = os.fspath(source)
    values = read_pairs(text_of(path, f"a configuration: {_CONFIGURATION}"))
    if not any(is_key(key) for key in values):
        raise InputError("this is no configuration of a network of packets", file=path, expected=_CONFIGURATION)
    return values, path


def packet_files(config: str | os.PathLike[str], logical: Source | None, compat: bool, notes: Notes) -> PacketSystem:
    """The network of packets that a configuration and a file of logical dimensions describe.

    TOPOLOGY_FILE is looked for where the program runs, as ASTRA-sim does, then beside the configuration. Raises
    InputError with the file.
    """
    values, file = values_of(config)
    faults = faults_of(compat)
    settings = settings_of(values, file, notes, silent=faults.unknown_keys_pass)
    named = values.get("TOPOLOGY_FILE")
    if not named:
        raise InputError("the topology is missing", file=file, place="TOPOLOGY_FILE", expected="the path of a topology")
    path = resolve(named, Path(file).parent, os.path.exists)
    if not os.path.exists(path):
        raise InputError(
            "no such topology", file=file, place="TOPOLOGY_FILE", found=named,
            expected="a path from where the program runs, or from the folder of this file",
        )  # fmt: skip
    topology = read_topology(text_of(path, "a topology"), path)
    dims = _logical(logical, notes)
    return PacketSystem(
        network_of(topology, settings, faults, file=file), dims_of(dims, topology, _name_of(logical), "logical-dims")
    )


def _name_of(logical: Source | None) -> str:
    return "logical topology" if logical is None or isinstance(logical, Mapping) else printable(os.fspath(logical))


def _logical(source: Source | None, notes: Notes) -> object:
    """What a file says of the dimensions."""
    if source is None:
        raise InputError(
            "no logical topology is given, which says in which dimensions the ranks of this network stand",
            expected=f"a file with {LOGICAL}: --logical-topology-configuration FILE, or logical_topology=",
        )
    name = _name_of(source)
    document: object = source
    if not isinstance(source, Mapping):
        document = decode_json(read_bytes(os.fspath(source), "logical topology"), name, notes)
    if not isinstance(document, Mapping) or "logical-dims" not in document:
        raise InputError(
            "this is no logical topology", file=name, place="$", found=str(document)[:60], expected=LOGICAL
        )
    return document["logical-dims"]

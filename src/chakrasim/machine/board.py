"""Boards as data: the GPUs of one box, how they are joined, their NICs; one file each, with its sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from chakrasim.config.kinds import paragraph, text, version, whole
from chakrasim.config.section import Section, no_such, open_named
from chakrasim.config.table import REQUIRED, Key, Kind, Table, mapping, names, read
from chakrasim.machine.site import MADE, Make

_FOLDER: Final = Path(__file__).parent / "boards"


@dataclass(frozen=True)
class Nics:
    """The NICs of a board; quantities as files write them."""

    count: int
    bandwidth: str
    latency: str
    pcie: str
    pcie_latency: str


@dataclass(frozen=True)
class Board:
    """One box of GPUs: ``inside`` is the family that joins them with its keys, ``profile`` the device profile of its
    GPU, if one is shipped, ``make`` who made what, ``memory`` the bandwidth of a GPU's memory. Quantities are as files
    write them."""

    name: str
    what: str
    source: str
    gpus: int
    inside: dict[str, Any]
    nics: Nics
    memory: str
    profile: str | None
    make: Make


def _part(section: Section, key: str) -> dict[str, Any]:
    """A part of a graph as it is written; it is read when the graph is."""
    ((family, keys),) = section.below(key, ("a family",)).entries.items()
    assert isinstance(keys, Mapping)
    return {family: {name: str(value) for name, value in keys.items()}}


_NICS: Final = (
    Key("count", whole(1), REQUIRED, "NICs of a board"),
    Key("bandwidth", text, REQUIRED, "of a NIC"),
    Key("latency", text, REQUIRED, "of its cable"),
    Key("pcie", text, REQUIRED, "of its PCIe link"),
    Key("pcie-latency", text, REQUIRED, "of it"),
)  # fmt: skip
BOARD: Final[Table] = (
    Key("format", version, 1, "version of this format"),
    Key("name", text, REQUIRED, "what it is called"),
    Key("what", paragraph, REQUIRED, "for people: what it is"),
    Key("source", paragraph, REQUIRED, "for people: where the figures come from"),
    Key("gpus", whole(1), REQUIRED, "of a board"),
    Key("profile", text, None, "device profile of its GPU"),
    Key("make", MADE, REQUIRED, "what a library sees beside the graph"),
    Key("memory", text, REQUIRED, "bandwidth of a GPU's memory"),
    Key("inside", Kind(_part, "mapping", {"type": "object"}), REQUIRED, "the family that joins the GPUs"),
    Key("nics", mapping(_NICS, lambda section, values: Nics(**values)), REQUIRED, "what leads out of the board"),
)  # fmt: skip


@cache
def board_names() -> tuple[str, ...]:
    """The names of the shipped boards, by vendor and generation."""
    order = (
        *("dgx-1v", "v100", "v100-4", "v100-16gb", "a100", "a100-40gb", "h100", "h100-96gb", "h200", "h200-nvl"),
        *("b200", "b300", "gb200", "gb300", "l40s"),
    )
    found = sorted(file.stem for file in _FOLDER.glob("*.yaml"))
    return (*(name for name in order if name in found), *(name for name in found if name not in order))


def board_text(name: str) -> str:
    """The file of a board. Raises :class:`chakrasim.InputError` for an unknown name."""
    if name not in board_names():
        raise no_such("no such board", name, board_names())
    return (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


@cache
def load_board(name: str) -> Board:
    """A shipped board."""
    section: Section = open_named(name, "board", board_names(), board_text, label="board", neither="no such board",
                                  notes=None)  # fmt: skip
    section.refuse_unknown(names(BOARD))
    values = read(section, BOARD)
    del values["format"]
    return Board(**values)

"""Files of flows: cases, which bring their links along, and lists of flows (JSON or CSV), which need a graph."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np

from chakrasim.config.decode import decode_json, printable
from chakrasim.config.values import describe
from chakrasim.errors import InputError, near
from chakrasim.files.storage import read_bytes
from chakrasim.machine.graph.graph import numbered
from chakrasim.machine.graph.routing.routes import Routes
from chakrasim.notes import Notes
from chakrasim.simulator.flow.alone.flows import LARGEST, NO_CHANGES, NONE, CapacityChanges, Floats, Flows
from chakrasim.trace.chakra.graph import offsets_of

CASE_KEYS: Final = ("links", "flows", "weights", "after", "capacity_changes")
SILENT_KEYS: Final = (
    *("id", "family", "traffic", "note", "finish_ns", "simgrid_finish_ns", "max_relative_difference"),
    *("rates_at", "slowed_flows", "solves", "nodes"),
)
"""Of a case: what is known of its solution."""
FLOW_KEYS: Final = ("source", "destination", "size_bytes", "start_ns", "after", "weight", "label")
DEFAULTS: Final = {"start_ns": 0.0, "after": NONE, "weight": 1.0, "label": 0}
_LINK: Final = "[from, to, capacity in bytes per ns]"
_FLOW: Final = "[start_ns, size_bytes, [link numbers of the route]]"
_CHANGE: Final = "[time_ns, link, new capacity in bytes per ns]"


@dataclass(frozen=True, eq=False)
class Case:
    """Links without a graph around them, and flows with routes over them."""

    link_names: tuple[str, ...]
    capacity: Floats
    flows: Flows
    changes: CapacityChanges


def read_flow_file(path: str, notes: Notes) -> Case | Flows:
    """A file of flows: a case if it has links, else flows for a graph. Raises InputError with the place in the file."""
    name = printable(path)
    data = read_bytes(path, expected="a file of flows")
    if data.lstrip()[:1] not in (b"{", b"["):
        return _csv_flows(data, name)
    content = decode_json(data, name, notes)
    if isinstance(content, Mapping) and "links" in content:
        return _Reader(name, notes).case(content)
    if isinstance(content, Mapping) and "flows" in content:
        extra = [key for key in content if key != "flows"]
        notes.warn(*(f"{name}: $.{key}: the key has no effect" for key in extra[:_MOST_TOLD]))
        content = content["flows"]
    if isinstance(content, list):
        return _Reader(name, notes).listed(content)
    raise InputError(
        "this is no file of flows", file=name, place="$", expected="a case with links and flows, or a list of flows"
    )


_MOST_TOLD: Final = 20


class _Reader:
    """What is read of one JSON file: every refusal has the path in it."""

    def __init__(self, file: str, notes: Notes) -> None:
        self._file, self._notes = file, notes

    def fail(self, place: str, message: str, found: object, expected: str, remedy: str = "") -> NoReturn:
        raise InputError(
            message, file=self._file, place=place, found=describe(found), expected=expected, remedy=remedy or None
        )

    def case(self, content: Mapping[str, Any]) -> Case:
        for key in [key for key in content if key not in CASE_KEYS + SILENT_KEYS][:_MOST_TOLD]:
            hint = near(str(key), CASE_KEYS)
            self._notes.warn(f"{self._file}: $.{key}: the key has no effect{f'; {hint}' if hint else ''}")
        names, capacity = self._links(self._list(content["links"], "$.links"))
        if "flows" not in content:
            self.fail("$", "the flows are missing", list(content)[:_MOST_TOLD], f"flows: a list of {_FLOW}")
        flows = self._list(content["flows"], "$.flows")
        start, size, first, link = self._routed(flows, capacity.size)
        weights, after = content.get("weights"), content.get("after")
        return Case(
            link_names=names,
            capacity=capacity,
            flows=located(
                self._file,
                source=0,
                destination=0,
                size_bytes=size,
                start_ns=start,
                after=NONE if after is None else self._after(after, len(flows)),
                weight=1.0 if weights is None else self._weights(weights, len(flows)),
                routes=Routes(first, link, np.ones(link.size)),
            ),
            changes=self._changes(content.get("capacity_changes"), capacity.size),
        )

    def _links(self, links: list[Any]) -> tuple[tuple[str, ...], Floats]:
        names, capacity = [], np.zeros(len(links))
        for at, link in enumerate(links):
            place = f"$.links[{at}]"
            if not isinstance(link, list) or len(link) != 3:
                self.fail(place, "not a link", link, _LINK)
            for end in link[:2]:
                if not isinstance(end, str | int) or isinstance(end, bool):
                    self.fail(place, "the ends of a link are names or numbers", end, _LINK)
            names.append(f"{link[0]}-{link[1]}")
            capacity[at] = self._number(link[2], f"{place}[2]", "a capacity in bytes per ns, 0 or more")
        return tuple(numbered(names)), capacity

    def _routed(self, flows: list[Any], links: int) -> tuple[Floats, Floats, Any, Any]:
        start, size = np.zeros(len(flows)), np.zeros(len(flows))
        lengths = np.zeros(len(flows), np.int64)
        crossed: list[int] = []
        for at, flow in enumerate(flows):
            place = f"$.flows[{at}]"
            if not isinstance(flow, list) or len(flow) != 3:
                self.fail(place, "not a flow", flow, _FLOW)
            start[at] = self._number(flow[0], f"{place}[0]", "a time in ns, 0 or more")
            size[at] = self._number(flow[1], f"{place}[1]", "bytes, 0 or more")
            route = self._list(flow[2], f"{place}[2]")
            for hop, link in enumerate(route):
                self._index(link, f"{place}[2][{hop}]", links, "link")
            lengths[at] = len(route)
            crossed += route
        return start, size, offsets_of(lengths), np.array(crossed, np.int32)

    def _weights(self, weights: object, flows: int) -> Floats:
        listed = self._as_many(weights, "$.weights", flows)
        expected = "a weight above 0"
        found = [self._number(value, f"$.weights[{at}]", expected) for at, value in enumerate(listed)]
        if 0.0 in found:
            self.fail(f"$.weights[{found.index(0.0)}]", "out of range", 0, expected)
        return np.array(found, np.float64)

    def _after(self, after: object, flows: int) -> Any:
        listed = self._as_many(after, "$.after", flows)
        for at, value in enumerate(listed):
            if value is not None:
                self._index(value, f"$.after[{at}]", flows, "flow")
        return np.array([NONE if value is None else value for value in listed], np.int32)

    def _changes(self, changes: object, links: int) -> CapacityChanges:
        if changes is None:
            return NO_CHANGES
        listed = self._list(changes, "$.capacity_changes")
        rows = np.zeros((len(listed), 3))
        for at, change in enumerate(listed):
            place = f"$.capacity_changes[{at}]"
            if not isinstance(change, list) or len(change) != 3:
                self.fail(place, "not a change", change, _CHANGE)
            self._index(change[1], f"{place}[1]", links, "link")
            rows[at] = (
                self._number(change[0], f"{place}[0]", "a time in ns, 0 or more"),
                change[1],
                self._number(change[2], f"{place}[2]", "a capacity in bytes per ns, 0 or more"),
            )
        return CapacityChanges(rows[:, 0], rows[:, 1].astype(np.int32), rows[:, 2])

    def listed(self, flows: list[Any]) -> Flows:
        """Flows as objects of `FLOW_KEYS`."""
        columns: dict[str, list[Any]] = {key: [] for key in FLOW_KEYS}
        for at, flow in enumerate(flows):
            place = f"$[{at}]"
            if not isinstance(flow, dict):
                self.fail(place, "not a flow", flow, f"an object of {', '.join(FLOW_KEYS)}")
            for key in flow:
                if key not in FLOW_KEYS:
                    self.fail(f"{place}.{key}", "unknown key", flow[key], ", ".join(FLOW_KEYS), near(key, FLOW_KEYS))
            for key in FLOW_KEYS:
                value = flow.get(key)
                if value is None and key not in DEFAULTS:
                    self.fail(place, f"the {key} is missing", list(flow), ", ".join(FLOW_KEYS[:3]))
                columns[key].append(DEFAULTS[key] if value is None else self._value(value, f"{place}.{key}", key))
        return located(self._file, **{key: np.array(values, _KINDS[key]) for key, values in columns.items()})

    def _value(self, value: object, place: str, key: str) -> float:
        if _KINDS[key] is np.float64:
            return self._number(value, place, "a number, 0 or more")
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
            self.fail(place, "not a whole number in range", value, "0 or more")
        return value

    def _list(self, value: object, place: str) -> list[Any]:
        if not isinstance(value, list):
            self.fail(place, "not a list", value, "a list")
        return value

    def _as_many(self, value: object, place: str, flows: int) -> list[Any]:
        listed = self._list(value, place)
        if len(listed) != flows:
            self.fail(place, "one for each flow is expected", len(listed), f"{flows}")
        return listed

    def _index(self, value: object, place: str, count: int, what: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
            expected = f"0 to {count - 1}" if count else f"there are no {what}s"
            self.fail(place, f"there is no such {what}", value, expected)

    def _number(self, value: object, place: str, expected: str) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= LARGEST:
            self.fail(place, "not a number in range", value, expected)
        return float(value)


_KINDS: Final[dict[str, Any]] = {
    key: np.float64 if key in ("size_bytes", "start_ns", "weight") else np.int64 for key in FLOW_KEYS
}


def _csv_flows(data: bytes, file: str) -> Flows:
    """Flows as lines of a table whose first line names its columns; an empty field is the default."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("the bytes are not UTF-8 text", file=file, place=f"byte {error.start}") from None
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        head = [name.strip() for name in next(rows, [])]
        _check_head(head, file)
        columns: dict[str, list[float]] = {key: [] for key in FLOW_KEYS}
        for row in rows:
            if not row or not any(map(str.strip, row)):
                continue
            if len(row) != len(head):
                place = f"line {rows.line_num}"
                raise InputError(
                    "another number of fields", file=file, place=place, found=len(row), expected=", ".join(head)
                )
            for key, field in zip(head, row, strict=True):
                columns[key].append(_csv_value(field.strip(), key, file, rows.line_num))
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", file=file, place=f"line {rows.line_num}") from None
    given = {key: np.array(values, _KINDS[key]) for key, values in columns.items() if key in head}
    return located(file, **given)


def _check_head(head: list[str], file: str) -> None:
    expected = f"a first line such as {','.join(FLOW_KEYS[:4])}"
    for name in head:
        if name not in FLOW_KEYS or head.count(name) > 1:
            message = "unknown column" if name not in FLOW_KEYS else "the column is there twice"
            place, remedy = "line 1", near(name, FLOW_KEYS) or None
            raise InputError(message, file=file, place=place, found=describe(name), expected=expected, remedy=remedy)
    missing = [key for key in FLOW_KEYS[:3] if key not in head]
    if missing:
        raise InputError(f"the column {missing[0]} is missing", file=file, place="line 1", expected=expected)


def _csv_value(field: str, key: str, file: str, line: int) -> float:
    if not field and key in DEFAULTS:
        return float(DEFAULTS[key])
    try:
        value = float(field) if _KINDS[key] is np.float64 else int(field)
    except ValueError:
        value = math.nan
    if not 0 <= value <= (LARGEST if _KINDS[key] is np.float64 else 2**31 - 1):
        place, expected = f"line {line}", "a whole number" if _KINDS[key] is np.int64 else "a number, 0 or more"
        raise InputError(f"{key}: not in range", file=file, place=place, found=describe(field), expected=expected)
    return value


def located(file: str, **columns: Any) -> Flows:
    """Flows of a file, whose name stands in what is wrong with them."""
    with naming(file):
        return Flows(**columns)


@contextmanager
def naming(file: str) -> Iterator[None]:
    """Let what is wrong with flows of a file name it."""
    try:
        yield
    except InputError as error:
        where = ", ".join(part for part in (error.file, error.place) if part)
        raise InputError(
            error.message,
            file=printable(file),
            place=where,
            found=error.found,
            expected=error.expected,
            remedy=error.remedy,
        ) from None

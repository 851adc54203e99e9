"""Slow readers of Kineto and host traces through the standard library: the oracles of the compiled ones."""

from __future__ import annotations

import gzip
import json
import os
import re
from decimal import Decimal
from typing import Any

import numpy as np

from chakrasim.trace.chakra.graph import StringTable
from chakrasim.trace.host import columns as h
from chakrasim.trace.host.columns import HostTrace, TensorTable
from chakrasim.trace.kineto import columns as k
from chakrasim.trace.kineto.columns import KinetoTrace, RareColumn


def _clean(value: Any) -> Any:
    """Half characters become U+FFFD, exact numbers floats."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_clean(part) for part in value]
    if isinstance(value, dict):
        return {_clean(name): _clean(part) for name, part in value.items()}
    return float(value) if isinstance(value, Decimal) else value


class _Strings:
    def __init__(self) -> None:
        self.index: dict[bytes, int] = {b"": 0}

    def add(self, text: str) -> int:
        return self.index.setdefault(_clean(text).encode("utf-8"), len(self.index))

    def build(self) -> StringTable:
        raw = list(self.index)
        offsets = np.zeros(len(raw) + 1, np.int64)
        np.cumsum([len(text) for text in raw], out=offsets[1:])
        return StringTable(np.frombuffer(bytearray(b"".join(raw)), np.uint8), offsets)


class _Rare:
    def __init__(self, strings: _Strings) -> None:
        self.strings = strings
        self.columns: dict[str, tuple[list[int], list[int], list[int]]] = {}

    def add(self, name: str, row: int, value: Any) -> None:
        rows, kinds, bits = self.columns.setdefault(name, ([], [], []))
        rows.append(row)
        if isinstance(value, bool) or value is None or isinstance(value, (list, dict)):
            kinds.append(k.JSON)
            bits.append(self.strings.add(json.dumps(value, default=float)))
        elif isinstance(value, int):
            kinds.append(k.INTEGER)
            bits.append(value)
        elif isinstance(value, Decimal):
            kinds.append(k.REAL)
            bits.append(int(np.float64(value).view(np.int64)))
        else:
            kinds.append(k.TEXT)
            bits.append(self.strings.add(value))

    def build(self) -> dict[str, RareColumn]:
        return {
            name: RareColumn(np.array(rows, np.int32), np.array(kinds, np.uint8), np.array(bits, np.int64))
            for name, (rows, kinds, bits) in self.columns.items()
        }


def _integer(value: Any) -> int:
    if isinstance(value, bool):
        return -1
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return -1
    return -1


def read_kineto(path: str | os.PathLike[str], *, keep: str = "all") -> KinetoTrace:
    """The trace in the file ``path`` (plain or gzip, told by content).

    ``keep``: "all" events, or "work": only those with a duration and a category (no flow arrows, no metadata, no
    Python stack). The file is intact.
    """
    source = os.fspath(path)
    with open(source, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    document = json.loads(data, parse_float=Decimal)
    events = document.pop("traceEvents")
    strings = _Strings()
    rare = _Rare(strings)
    columns: dict[str, list[int]] = {
        name: []
        for name in (
            *("index", "phase", "category", "name", "pid", "tid", "ts_ns", "dur_ns", "flags"),
            *("device", "stream", "correlation", "external_id", "rf_id"),
        )
    }
    row = 0
    for at, event in enumerate(events):
        if keep == "work" and ("dur" not in event or "cat" not in event or event["cat"] == "python_function"):
            continue
        args = event.get("args") or {}
        flags = 0
        for key, bit in (("ts", k.HAS_TS), ("dur", k.HAS_DUR), ("cat", k.HAS_CATEGORY), ("name", k.HAS_NAME)):
            flags |= bit if key in event else 0
        flags |= k.HAS_ARGS if "args" in event else 0
        flags |= k.HAS_TID if "tid" in event else 0
        flags |= k.STREAM_IS_TEXT if isinstance(args.get("stream"), str) else 0
        for key, bit, column in (("ts", k.TS_IS_FLOAT, "ts_ns"), ("dur", k.DUR_IS_FLOAT, "dur_ns")):
            value = event.get(key, 0)
            is_text = isinstance(value, str)
            if is_text and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?", value, re.ASCII):
                value = Decimal(value)
            if isinstance(value, Decimal):
                flags |= 0 if is_text else bit
                scaled = value * 1000
                if scaled != scaled.to_integral_value():
                    rare.add(f"{key} text", row, str(value))
                value = int(scaled.to_integral_value())
            else:
                value = int(value) * 1000
            columns[column].append(value)
        for key, bit in (("pid", k.PID_IS_TEXT), ("tid", k.TID_IS_TEXT)):
            value = event.get(key, 0)
            if isinstance(value, (str, Decimal)):
                flags |= bit
                value = -2 - strings.add(str(value))
            columns[key].append(int(value))
        columns["index"].append(at)
        columns["phase"].append(ord(event.get("ph", "\0")[:1] or "\0"))
        columns["category"].append(strings.add(event.get("cat", "")))
        columns["name"].append(strings.add(str(event.get("name", ""))))
        columns["flags"].append(flags)
        columns["device"].append(_integer(args.get("device", -1)))
        columns["stream"].append(_integer(args.get("stream", -1)))
        columns["correlation"].append(_integer(args.get("correlation", -1)))
        columns["external_id"].append(_integer(args.get("External id", args.get("external id", -1))))
        columns["rf_id"].append(_integer(args.get("Record function id", -1)))
        for name in k.RARE_ARGS:
            if name in args and name not in ("id", "ts text", "dur text"):
                rare.add(name, row, args[name])
        if "id" in event:
            rare.add("id", row, event["id"])
        row += 1
    types = {"index": np.int32, "phase": np.uint8, "category": np.int32, "name": np.int32}
    types |= {"flags": np.uint16, "device": np.int32}
    arrays = {name: np.array(values, types.get(name, np.int64)) for name, values in columns.items()}
    header = _clean(document)
    counts: dict[str, int] = {}
    return KinetoTrace(source, strings.build(), rare=rare.build(), header=header, event_count=len(events),
                       counts=counts, **arrays)  # fmt: skip


def read_host(path: str | os.PathLike[str]) -> HostTrace:
    """The host trace in the intact file ``path`` (plain or gzip; all schemas from 1.0.1; also what a linker wrote)."""
    source = os.fspath(path)
    with open(source, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    document = json.loads(data, parse_float=Decimal)
    nodes = document.pop("nodes")
    strings = _Strings()
    rare = _Rare(strings)
    ints: dict[str, list[int]] = {
        name: [] for name in ("ids", "parent", "rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid")
    }
    texts: dict[str, list[int]] = {name: [] for name in ("name", "op_schema", "kernel_backend", "kernel_file")}
    tensors: list[tuple[int, bool, int, int, int, int, int, int, int]] = []
    text = bytearray()
    spans = np.zeros((len(nodes), h.SPANS, 2), np.int64)
    for row, node in enumerate(nodes):
        attrs = {attr["name"]: attr["value"] for attr in node.get("attrs", []) if "value" in attr}
        flat = node | attrs
        ints["ids"].append(node["id"])
        ints["parent"].append(node.get("ctrl_deps", node.get("parent", -1)))
        for name in ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid"):
            ints[name].append(_integer(flat.get(name, -1)))
        for name in texts:
            texts[name].append(strings.add(str(flat.get(name, ""))))
        for name in h.RARE_ATTRIBUTES:
            if name in flat:
                rare.add(name, row, flat[name])
        io = _io(node)
        for side in range(2):
            for argument, value in enumerate(io[3 * side]):
                for t in _tensors(value):
                    tensors.append((row, side == 1, argument, *t[:5], strings.add(t[5])))  # type: ignore[arg-type]
        _write(text, spans[row], node)
    ints_np = {name: np.array(values, np.int64) for name, values in ints.items()}
    texts_np = {name: np.array(values, np.int32) for name, values in texts.items()}
    table = list(zip(*tensors, strict=True)) if tensors else [()] * 9
    kinds = (np.int32, np.bool_, np.int32, *([np.int64] * 5), np.int32)
    tensor_table = TensorTable(*(np.array(column, kind) for column, kind in zip(table, kinds, strict=True)))
    return HostTrace(
        source=source,
        strings=strings.build(),
        schema=str(_clean(document.get("schema", ""))),
        header=_clean(document),
        tensors=tensor_table,
        rare=rare.build(),
        text=np.frombuffer(bytes(text), np.uint8),
        spans=spans,
        **ints_np,
        **texts_np,
    )


def _io(node: dict[str, Any]) -> list[list[Any]]:
    if isinstance(node.get("inputs"), dict):
        return [node[side][part] for side in ("inputs", "outputs") for part in ("values", "shapes", "types")]
    names = ("inputs", "input_shapes", "input_types", "outputs", "output_shapes", "output_types")
    return [node.get(name, []) for name in names]


def _tensors(value: Any) -> list[Any]:
    if not isinstance(value, list):
        return []
    if len(value) == 6 and isinstance(value[5], str) and all(type(part) is int for part in value[:5]):
        return [value]
    return [tensor for part in value for tensor in _tensors(part)]


def _write(text: bytearray, spans: Any, node: dict[str, Any]) -> None:
    names = {"id": h.SPAN_ID, "ctrl_deps": h.SPAN_PARENT, "parent": h.SPAN_PARENT, "name": h.SPAN_NAME}
    flat = ("inputs", "input_shapes", "input_types", "outputs", "output_shapes", "output_types")
    spans[h.SPAN_NODE, 0] = len(text)
    text += b"{"
    for position, (key, value) in enumerate(node.items()):
        text += (b"," if position else b"") + json.dumps(key).encode() + b":"
        if key in ("inputs", "outputs") and isinstance(value, dict):
            text += b"{"
            for number, (part, content) in enumerate(value.items()):
                text += (b"," if number else b"") + json.dumps(part).encode() + b":"
                start = len(text)
                text += json.dumps(content, default=float).encode()
                if part in ("values", "shapes", "types"):
                    base = h.SPAN_IN_VALUES if key == "inputs" else h.SPAN_OUT_VALUES
                    spans[base + ("values", "shapes", "types").index(part)] = start, len(text)
            text += b"}"
            continue
        start = len(text)
        text += json.dumps(value, default=float).encode()
        if key in names and not (key == "parent" and "ctrl_deps" in node):
            spans[names[key]] = start, len(text)
        if key in flat:
            spans[h.SPAN_IN_VALUES + flat.index(key)] = start, len(text)
    text += b"}"
    spans[h.SPAN_NODE, 1] = len(text)

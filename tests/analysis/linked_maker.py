"""Linked traces made row by row."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from chakrasim.trace.chakra.graph import StringTable
from chakrasim.trace.linked.columns import Annotations, Communication, EdgeKind, Lane, LinkedTrace, RowKind

LANES = (Lane("thread 1", 1, "1"), Lane("thread 2", 1, "2"), Lane("GPU 0 stream 7", 0, "7", 0, 7))


def table(texts: list[str]) -> StringTable:
    raw = [text.encode() for text in texts]
    offsets = np.zeros(len(raw) + 1, np.int64)
    np.cumsum([len(text) for text in raw], out=offsets[1:])
    return StringTable(np.frombuffer(b"".join(raw), np.uint8), offsets)


class LinkedMaker:
    """``row`` and ``edge`` in topological order; times in nanoseconds."""

    def __init__(self) -> None:
        self.rows: list[dict[str, int]] = []
        self.edges: list[tuple[int, int, int]] = []
        self.notes: list[tuple[str, int, int]] = []
        self.texts = [""]
        self.collectives: list[int] = []

    def text(self, text: str) -> int:
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text)

    def row(self, kind: RowKind, name: str, lane: int, start: int, duration: int, wait: int = 0, delay: int = 0) -> int:
        self.rows.append(
            {"kind": kind, "name": self.text(name), "lane": lane, "start_ns": start, "duration_ns": duration,
             "wait_ns": wait, "delay_ns": delay, "correlation": len(self.rows)}
        )  # fmt: skip
        return len(self.rows) - 1

    def edge(self, kind: EdgeKind, source: int, target: int) -> None:
        self.edges.append((source, target, kind))

    def build(self) -> LinkedTrace:
        count = len(self.rows)
        given: dict[str, Any] = {key: [row[key] for row in self.rows] for key in self.rows[0]} if count else {}
        given["head"] = list(range(count))
        columns: dict[str, Any] = {}
        for field in fields(LinkedTrace):
            kind = str(field.type)
            if field.name.startswith("edge_"):
                position = {"edge_source": 0, "edge_target": 1, "edge_kind": 2}.get(field.name)
                values = [0 if position is None else edge[position] for edge in self.edges]
                columns[field.name] = np.array(values, np.int32 if "int32" in kind else np.uint8)
            elif "NDArray" in kind or kind == "Ints":
                size = "uint8" if "uint8" in kind else "int32" if "int32" in kind else "int64"
                columns[field.name] = np.array(given.get(field.name, [0] * count), size)
        names, starts, lengths = zip(*self.notes, strict=True) if self.notes else ((), (), ())
        nothing = np.zeros(len(self.notes), np.int32)
        annotations = Annotations(
            np.array([self.text(name) for name in names], np.int32),
            nothing,
            np.array(starts, np.int64),
            np.array(lengths, np.int64),
            nothing,
        )
        collectives = np.array(self.collectives, np.int32)
        communication = Communication(
            **{field.name: collectives if field.name == "row" else np.zeros(len(collectives), np.int64)
               for field in fields(Communication)}  # type: ignore[arg-type]
        )  # fmt: skip
        return LinkedTrace(
            rank=0, world_size=1, source="made", strings=table(self.texts), communication=communication, groups=(),
            annotations=annotations, lanes=LANES, **columns,
        )  # fmt: skip

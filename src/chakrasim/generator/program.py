"""From passes and the order in which a rank runs them to the columns of a trace."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.generator.layers.tape import DURATION, STREAMS, TOO_LARGE, Outside, Row, Tape, too_large
from chakrasim.trace.chakra.assemble import Strings
from chakrasim.trace.chakra.graph import Attributes, Csr, Trace, offsets_of
from chakrasim.trace.kinds import BOOL, DOUBLE, INT64, STRING
from chakrasim.trace.work import KERNELS, LAUNCH

Ints = NDArray[np.int64]

VERSION = "0.0.4"


@dataclass(frozen=True)
class Step:
    """One run of a pass: which of the passes, for which micro-batch. ``forward``: the step (by position) whose
    activations it reads, or -1."""

    which: int
    micro_batch: int
    forward: int = -1


def ragged(starts: Ints, lengths: Ints) -> Ints:
    """The numbers ``starts[i]`` to ``starts[i] + lengths[i]``, for all i, end to end."""
    ends = np.cumsum(lengths)
    numbers: Ints = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)
    return numbers


def build_trace(
    passes: Sequence[Tape], steps: Sequence[Step], strings: Strings, metadata: Mapping[str, int | str], source: str,
    launch_ns: int = 0,
) -> Trace:  # fmt: skip
    """The trace of a rank that runs ``steps``; node ids count from 0 in program order. ``launch_ns``: what the host
    takes for each kernel, if it takes anything."""
    columns = _Columns([row for tape in passes for row in tape.rows], strings, launch_ns)
    lengths = np.array([len(tape.rows) for tape in passes], np.int64)
    which = np.array([step.which for step in steps], np.int64)
    micro_batch = np.array([step.micro_batch for step in steps], np.int64)
    length = lengths[which]
    base = np.cumsum(length) - length
    rows = ragged((np.cumsum(lengths) - lengths)[which], length)
    owner = np.repeat(np.arange(len(steps)), length)
    outside = _outside(passes, steps, base)
    meta = _metadata(metadata, strings)
    data, ctrl = (deps.gather(rows, owner, base, outside) for deps in (columns.data, columns.control))
    n = len(rows)
    return Trace(
        ids=np.arange(n, dtype=np.uint64),
        types=columns.types[rows],
        name_index=columns.names[rows],
        start_micros=np.zeros(n, np.uint64),
        duration_micros=columns.micros[rows],
        ctrl_deps=ctrl,
        data_deps=data,
        inputs=np.full((n, 3), -1, np.int32),
        outputs=np.full((n, 3), -1, np.int32),
        attrs=columns.attributes(rows, micro_batch[owner]),
        lists=Csr(np.zeros(1, np.int64), np.zeros(0, np.uint64)),
        strings=strings.build(),
        version=VERSION,
        meta=meta,
        source=source,
    )


def _outside(passes: Sequence[Tape], steps: Sequence[Step], base: Ints) -> Ints:
    """int64[steps, kinds]: the node that each kind of `Outside`, and then each stream's last, stands for in each step;
    -1 where there is none."""
    known: list[tuple[int, ...]] = []
    compute = gate = posted = sent = -1
    tails = [-1] * (max(STREAMS.values()) + 1)
    ends: list[int] = []
    stored: list[int] = []
    for step, begin in zip(steps, base.tolist(), strict=True):
        tape = passes[step.which]
        forward = ends[step.forward] if step.forward >= 0 else -1
        kept = stored[step.forward] if step.forward >= 0 else -1
        known.append((compute, forward, gate, posted, sent, kept, *tails[1:]))
        gate = begin + tape.gate if tape.gate >= 0 else compute
        posted = compute
        compute = begin + tape.compute_tail if tape.compute_tail >= 0 else compute
        for stream, tail in tape.tails.items():
            tails[stream] = begin + tail
        sent = begin + tape.sent if tape.sent >= 0 else -1
        ends.append(compute)
        stored.append(tails[STREAMS["store"]])
    return np.array(known, np.int64).reshape(len(steps), len(Outside) + len(tails) - 1)


@dataclass(frozen=True, eq=False)
class _Deps:
    """Dependencies of rows: those of row i are ``targets[offsets[i]:offsets[i + 1]]``."""

    offsets: Ints
    targets: Ints

    @classmethod
    def of(cls, listed: Sequence[Sequence[int]]) -> _Deps:
        targets = np.array([dep for deps in listed for dep in deps], np.int64)
        return cls(offsets_of([len(deps) for deps in listed]), targets)

    def gather(self, rows: Ints, owner: Ints, base: Ints, outside: Ints) -> Csr:
        counts = np.diff(self.offsets)[rows]
        targets = self.targets[ragged(self.offsets[rows], counts)]
        node = np.repeat(np.arange(len(rows)), counts)
        step = owner[node]
        absolute = np.where(targets >= 0, base[step] + targets, outside[step, np.maximum(-targets - 1, 0)])
        there = absolute >= 0
        return Csr(offsets_of(np.bincount(node[there], minlength=len(rows))), absolute[there].astype(np.uint64))


class _Columns:
    """Rows as columns."""

    def __init__(self, rows: Sequence[Row], strings: Strings, launch_ns: int) -> None:
        self.launch_ns = launch_ns
        self.launch_name = strings.add(LAUNCH) if launch_ns else -1
        self.kernels = np.array([int(row.values.get(KERNELS, 1)) for row in rows], np.int64)
        self.types = np.array([row.type for row in rows], np.int32)
        self.names = np.array([strings.add(row.name) for row in rows], np.int32)
        # Whole microseconds, as the format has them; nodes without a known duration have 0.
        nanoseconds = np.array([int(row.values.get(DURATION, 0)) for row in rows], np.uint64)
        self.micros = (nanoseconds + np.uint64(500)) // np.uint64(1000)
        self.data = _Deps.of([row.data for row in rows])
        self.control = _Deps.of([row.control for row in rows])
        table: list[tuple[int, int, int, int]] = []
        for row in rows:
            growth = row.per_micro_batch
            for name, value in row.values.items():
                table.append((strings.add(name), *_value(value, strings), growth.get(name, 0)))
            if launch_ns:
                table.append((self.launch_name, INT64, 0, 0))
        self.offsets = offsets_of([len(row.values) + bool(launch_ns) for row in rows])
        self.name, self.kind, self.bits, self.growth = np.array(table, np.int64).reshape(-1, 4).T

    def attributes(self, rows: Ints, micro_batch: Ints) -> Attributes:
        """Those of the nodes that repeat ``rows``, each for its micro-batch."""
        counts = np.diff(self.offsets)[rows]
        at = ragged(self.offsets[rows], counts)
        bits = self.bits[at] + self.growth[at] * np.repeat(micro_batch, counts)
        if self.launch_ns:
            bits[self.name[at] == self.launch_name] = np.cumsum(self.kernels[rows]) * self.launch_ns
        return Attributes(
            offsets_of(counts),
            self.name[at].astype(np.int32),
            self.kind[at].astype(np.uint8),
            bits.view(np.uint64),
            np.zeros(len(at), np.int32),
        )


def _value(value: Any, strings: Strings) -> tuple[int, int]:
    """Kind and bits of an attribute. Raises InputError for an integer that the simulator would refuse."""
    if isinstance(value, bool):
        return BOOL, int(value)
    if isinstance(value, str):
        return STRING, strings.add(value)
    if isinstance(value, float):
        return DOUBLE, struct.unpack("<q", struct.pack("<d", value))[0]
    if value >= TOO_LARGE:
        raise too_large(value)
    return INT64, int(value)


def _metadata(metadata: Mapping[str, int | str], strings: Strings) -> Attributes:
    """Operations of a long step are beyond 64 bits: they become a double."""
    values = []
    for name, value in metadata.items():
        large = isinstance(value, int) and value >= TOO_LARGE
        values.append((strings.add(name), *_value(float(value) if large else value, strings)))
    names, kind, bits = np.array(values, np.int64).reshape(-1, 3).T
    return Attributes(
        np.array([0, len(values)], np.int64),
        names.astype(np.int32),
        kind.astype(np.uint8),
        bits.astype(np.uint64),
        np.zeros(len(values), np.int32),
    )

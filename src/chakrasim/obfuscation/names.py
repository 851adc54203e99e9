"""Level names: every name of a job is a pseudonym; numbers, shapes, sizes and times stay."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.converter.linked.nodes import REASONS
from chakrasim.converter.retarget.trace_edit import Change, edited
from chakrasim.obfuscation.key import Pseudonyms
from chakrasim.obfuscation.vocabulary import ATTRIBUTES, METADATA, TYPE_WORDS, is_public, is_shape, is_type
from chakrasim.trace.chakra.assemble import Strings
from chakrasim.trace.chakra.graph import Attributes, Csr, Ints, Trace
from chakrasim.trace.job.groups import EVERYONE, is_number
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import BYTES, INT64, STRING, NodeType

_KINDS: Final = {
    NodeType.METADATA_NODE: "said",
    NodeType.MEM_LOAD_NODE: "load",
    NodeType.MEM_STORE_NODE: "store",
    NodeType.COMP_NODE: "op",
    NodeType.COMM_SEND_NODE: "send",
    NodeType.COMM_RECV_NODE: "receive",
    NodeType.COMM_COLL_NODE: "collective",
}
_VERSION: Final = re.compile(r"[0-9.]*(-chakra\.[0-9.]*)?")
"""Versions of the schema, as recorders of PyTorch write them, too."""
_WORD: Final = re.compile(r"[^\W\d]\w*(?:(?:::|\.)\w+)*")
SOURCE: Final = "<obfuscated>"
_DAY_NS: Final = 86_400_000_000_000


def hide_names(job: Job, pseudonyms: Pseudonyms, *, titles: bool = True) -> Job:
    """The job with pseudonyms for all that names anything: nodes, groups, parameters, texts of attributes and metadata,
    names of attributes that are not the schema's. Values of tensors and texts of documentation are left out, threads
    are numbered, and recorded times begin at 0. Without ``titles`` nodes are called what they are called."""
    begin = _begin(job.traces)
    groups = {group_name(role, pseudonyms): members for role, members in job.process_groups.items()}
    parameters = {
        pseudonyms.of("parameter", name): pseudonyms.of("text", value) if isinstance(value, str) else value
        for name, value in job.parameters.items()
    }
    return Job(tuple(hide_in_trace(one, pseudonyms, begin, titles) for one in job.traces), job.trace_of_rank, groups,
               parameters)  # fmt: skip


def group_name(name: str, pseudonyms: Pseudonyms) -> str:
    """What a process group is called: numbers, and the names of the group of all ranks, stay."""
    return name if name in EVERYONE or is_number(name) else pseudonyms.of("group", name)


def _begin(traces: tuple[Trace, ...]) -> tuple[int, int]:
    """When a job begins on the clock of ``start_ns`` and on that of ``start_micros``, both in whole us."""
    starts = [column.integers()[column.present] for column in (one.attr("start_ns") for one in traces)]
    return _first(starts, _DAY_NS) // 1000, _first([one.start_micros.view(np.int64) for one in traces], _DAY_NS // 1000)


def _first(clock: list[Ints], day: int) -> int:
    """The first time of a clock. 0 says that a node was not recorded where all others are more than a day later."""
    times = np.concatenate([*clock, np.zeros(0, np.int64)])
    if len(times) and times.min():
        return int(times.min())
    later = times[times > 0]
    return int(later.min()) if len(later) and later.min() > day else 0


def hide_in_trace(
    trace: Trace, pseudonyms: Pseudonyms, begin: tuple[int, int] | None = None, titles: bool = True
) -> Trace:
    """A trace by itself, with recorded times from those at which ``begin`` says (default: the trace itself)."""
    ns, micros = _begin((trace,)) if begin is None else begin
    hidden = _Hiding(trace, pseudonyms, titles).trace()
    start = hidden.attr("start_ns")
    nodes = np.flatnonzero(start.present)
    since = np.maximum(start.integers()[nodes] - ns * 1000, 0)
    changes = [Change("start_ns", INT64, nodes, since)] if len(nodes) else []
    changes += _threads(hidden)
    begun = np.maximum(hidden.start_micros.view(np.int64) - micros, 0).astype(np.uint64)
    return replace(edited(hidden, changes) if changes else hidden, start_micros=begun)


def _threads(trace: Trace) -> list[Change]:
    """Numbers in place of the threads that nodes are on, and of those that they say went before: the same for the same
    thread. 0 says that none went before, so that those of a trace that says more begin at 1."""
    nodes, said = (np.flatnonzero(trace.attr(name).present) for name in ("tid", "fw_tid"))
    before = trace.attr("fw_tid")
    some = said[before.bits[said] != 0]
    if not len(some):
        return [Change("tid", INT64, nodes, numbers_of_threads(trace, nodes))] if len(nodes) else []
    thread = trace.attr("tid")
    both = np.concatenate([np.stack([column.kind[at].astype(np.uint64), column.bits[at]])
                           for column, at in ((thread, nodes), (before, some))], axis=1)  # fmt: skip
    number = np.unique(both, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64) + 1
    return [
        Change(name, INT64, at, own)
        for name, at, own in (("tid", nodes, number[: len(nodes)]), ("fw_tid", some, number[len(nodes) :]))
        if len(at)
    ]


def numbers_of_threads(trace: Trace, nodes: NDArray[Any]) -> NDArray[np.int64]:
    """int64[n]: which of the threads of these nodes each is on, from 0, whatever ids the trace has for them."""
    thread = trace.attr("tid")
    both = np.stack([thread.kind[nodes].astype(np.uint64), thread.bits[nodes]])
    return np.unique(both, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)


class _Hiding:
    """A trace whose texts go, one by one, into a new table: what is not asked for does not get there."""

    def __init__(self, trace: Trace, pseudonyms: Pseudonyms, titles: bool) -> None:
        self._trace, self._pseudonyms, self._titles, self._strings = trace, pseudonyms, titles, Strings()
        self._known: dict[tuple[str, int], int] = {}

    def trace(self) -> Trace:
        old = self._trace
        names = np.zeros(len(old), np.int32)
        for number in np.unique(old.types).tolist():
            what = _KINDS.get(number, "node")
            chosen = old.types == number
            names[chosen] = self._each(old.name_index[chosen], what, partial(self._own, what) if self._titles else str)
        items = old.lists.targets.copy()
        attrs = self._attributes(old.attrs, "attribute", ATTRIBUTES, items)
        meta = self._attributes(old.meta, "metadata", METADATA, items)
        inputs, outputs = (self._ports(column) for column in (old.inputs, old.outputs))
        version = old.version if _VERSION.fullmatch(old.version) else ""
        return replace(old, version=version, name_index=names, attrs=attrs, meta=meta, inputs=inputs, outputs=outputs,
                       lists=Csr(old.lists.offsets, items), strings=self._strings.build(), source=SOURCE)  # fmt: skip

    def _each(self, column: NDArray[Any], what: str, answer: Callable[[str], str]) -> NDArray[np.int32]:
        """Places in the new table for places in the old one; each distinct text is asked for once."""
        distinct, which = np.unique(column, return_inverse=True)
        for place in distinct.tolist():
            if (what, place) not in self._known:
                self._known[what, place] = self._strings.add(answer(self._trace.strings[place]))
        found = np.array([self._known[what, place] for place in distinct.tolist()], np.int32)
        return found[which.reshape(-1)] if len(found) else np.zeros(0, np.int32)

    def _own(self, what: str, text: str) -> str:
        return self._pseudonyms.of(what, text) if text else ""

    def _attributes(
        self, table: Attributes, what: str, public: frozenset[str], items: NDArray[np.uint64]
    ) -> Attributes:
        """The attributes; elements of their lists of texts change in ``items``."""
        names = self._each(table.name, what, lambda text: text if text in public else self._own(what, text))
        bits = table.bits.copy()
        for number in np.unique(table.name).tolist():
            title = self._trace.strings[number]
            same = table.name == number
            for kind in (STRING, BYTES):
                chosen = np.flatnonzero(same & (table.kind == kind))
                bits[chosen] = self._values(table.bits[chosen], title)
                for place in np.unique(table.bits[same & (table.kind == kind + 1)]).tolist():
                    span = slice(int(self._trace.lists.offsets[place]), int(self._trace.lists.offsets[place + 1]))
                    items[span] = self._values(self._trace.lists.targets[span], title)
        return Attributes(table.offsets, names, table.kind, bits, np.zeros_like(table.doc))

    def _values(self, column: NDArray[np.uint64], name: str) -> NDArray[np.uint64]:
        return self._each(column.astype(np.int64), f"value of {name}", lambda text: self._value(name, text)).astype(
            np.uint64
        )

    def _value(self, name: str, text: str) -> str:
        if name == "pg_name":
            return group_name(text, self._pseudonyms)
        if name == "counts":
            return _reasons(text)
        return text if is_public(name, text) else self._own("text", text)

    def _ports(self, column: NDArray[np.int32]) -> NDArray[np.int32]:
        found = column.copy()
        there = column[:, 0] >= 0
        says = self._trace.types == int(NodeType.METADATA_NODE)
        found[there, 0] = 0
        found[there & says, 0] = self._each(column[there & says, 0], "groups", _groups)
        found[there, 1] = self._each(column[there, 1], "shape", self._shape)
        found[there, 2] = self._each(column[there, 2], "type", self._types)
        return found

    def _shape(self, text: str) -> str:
        return text if is_shape(text) else self._own("text", text)

    def _types(self, text: str) -> str:
        """Types as recorders write them, with pseudonyms for classes of others."""
        return _WORD.sub(lambda word: word[0] if _is_known_type(word[0]) else self._own("type", word[0]), text)


def _is_known_type(word: str) -> bool:
    last = word.removeprefix("c10::").removeprefix("at::")
    return last in TYPE_WORDS or is_type(last)


def _reasons(text: str) -> str:
    """Of the counts that a converted trace states, those of what it could not state: a replay goes by them."""
    try:
        counts = json.loads(text)
    except (ValueError, RecursionError):
        return "{}"
    known = {*REASONS.values()}
    own = counts if isinstance(counts, dict) else {}
    return json.dumps({why: own[why] for why in sorted(known & {*own}) if isinstance(own[why], int)})


def _groups(text: str) -> str:
    """The process groups that a metadata node of PyTorch states, by number and ranks; "" for any other value."""
    try:
        entries = json.loads(text[2:-2])
        own = [{"pg_name": int(one["pg_name"]), "ranks": [int(rank) for rank in one["ranks"]]} for one in entries]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return ""
    return f"['{json.dumps(own)}']"

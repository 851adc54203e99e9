"""Jobs in GOAL, the text that LogGOPSim and ATLAHS simulate (grammar: txt2bin.re of LogGOPSim).

Times are ns, sizes bytes. A rank's operations are ``calc``, ``send`` and ``recv``; ``calc 0`` becomes a metadata node.
``a requires b`` lets a begin when b has ended, ``a irequires b`` when b has begun. Chakra has no dependency on a
beginning: a then waits for what b waits for (``ctrl_deps``), which is the same unless b's processor is busy, and the
attribute `STARTS` keeps what the file says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.notes import Notes, lists_too
from chakrasim.trace.chakra.assemble import Column, Strings, attributes, metadata
from chakrasim.trace.chakra.graph import Csr, Trace, offsets_of
from chakrasim.trace.foreign.text import LARGEST, read_text
from chakrasim.trace.job.job import MAX_RANKS, Job
from chakrasim.trace.kinds import BOOL, INT64, NodeType
from chakrasim.trace.work import COMPUTE_NS, STREAM

FORMAT: Final = "GOAL"
"""What the metadata of a trace say whose nodes are GOAL's operations."""
STARTS: Final = "irequires"
"""Attribute: ids of the nodes whose beginning a node waits for."""
CPU: Final = "cpu"
NIC: Final = "nic"
"""Attributes of messages, and CPU of what takes no time: the processor and the network card, where these are not 0."""
TAG_RANGE: Final = 500_000_000
"""The simulator takes tags modulo this (astra-system.md, 12.1)."""
_HELD: Final = 40
"""Memory that reading a file takes, at most, for each of its bytes."""
_MAX_INHERITED: Final = 1 << 24

_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STATEMENT: Final = re.compile(r"[^\n;{}]+|[\n{}]")
_HEADER: Final = re.compile(r"(num_ranks|rank)\s+([0-9]{1,10})", re.ASCII)
_CALC: Final = re.compile(r"(?:([A-Za-z]\w*)\s*:\s*)?calc\s+([0-9]{1,20})(?:\s+cpu\s+([0-9]{1,10}))?", re.ASCII)
_MESSAGE: Final = re.compile(
    r"(?:([A-Za-z]\w*)\s*:\s*)?(send|recv)\s+([0-9]{1,20})\s*b\s*(to|from)\s*(-1|[0-9]{1,10})"
    r"(?:\s+tag\s+(-1|[0-9]{1,10}))?(?:\s+cpu\s+([0-9]{1,10}))?(?:\s+nic\s+([0-9]{1,10}))?",
    re.ASCII,
)
_AFTER: Final = re.compile(r"([A-Za-z]\w*)\s+(i?requires)\s+([A-Za-z]\w*)", re.ASCII)


@dataclass
class Block:
    """The operations of a rank, in the order of the file: lists of the same length. ``ends`` and ``starts`` are pairs
    (later, earlier) of their places: whose end, and whose beginning, one waits for; ``named`` is both as the file has
    them, with the line."""

    rank: int
    kind: list[int] = field(default_factory=list)
    amount: list[int] = field(default_factory=list)
    peer: list[int] = field(default_factory=list)
    tag: list[int] = field(default_factory=list)
    cpu: list[int] = field(default_factory=list)
    nic: list[int] = field(default_factory=list)
    label: list[str] = field(default_factory=list)
    line: list[int] = field(default_factory=list)
    ends: list[tuple[int, int]] = field(default_factory=list)
    starts: list[tuple[int, int]] = field(default_factory=list)
    named: list[tuple[str, str, str, int]] = field(default_factory=list)

    def add(self, kind: int, label: str, numbers: tuple[int, ...], line: int = 0) -> int:
        """Append an operation and say its place; ``numbers``: amount, peer, tag, cpu, nic."""
        self.kind.append(kind)
        for column, number in zip((self.amount, self.peer, self.tag, self.cpu, self.nic), numbers, strict=True):
            column.append(number)
        self.label.append(label)
        self.line.append(line)
        return len(self.kind) - 1


@lists_too
def read_goal(path: str | os.PathLike[str], *, notes: Notes | None = None, max_bytes: int | None = None) -> Job:
    """The job of a GOAL file: one trace a rank. Raises InputError with the line at fault.

    Labels become the names of nodes, which stand in an order that dependencies allow. ``notes`` is told of start
    dependencies, of tags that had to be numbered anew, and of operations on several processors of a rank.
    """
    notes = Notes() if notes is None else notes
    source = os.fspath(path)
    text = read_text(source, max_bytes, "a GOAL file", _HELD)
    ranks, blocks = _parse(text, source)
    for block in blocks.values():
        _resolve(block, source)
    _number_tags(blocks, source, notes)
    calc = int(NodeType.COMP_NODE)
    busy = sum(
        cpu > 0 and kind == calc and amount > 0
        for block in blocks.values()
        for cpu, kind, amount in zip(block.cpu, block.kind, block.amount, strict=True)
    )
    if busy:
        notes.warn(
            f"{source}: {busy:,} computations are on processors other than 0: they run side by side on machines whose "
            "issue is streams, else one after another"
        )
    inherited = sum(len(block.starts) for block in blocks.values())
    if inherited:
        notes.warn(
            f"{source}: {inherited:,} dependencies on a beginning (irequires) wait for what that operation waits for: "
            "the same unless its processor is busy"
        )
    empty = block_trace(Block(-1), source)
    traces = [empty, *(block_trace(block, source) for block in blocks.values())]
    place = {rank: at for at, rank in enumerate(blocks, 1)}
    which = np.array([place.get(rank, 0) for rank in range(ranks)], np.int64)
    if len(blocks) == ranks:
        return Job(tuple(traces[1:]), which - 1)
    return Job(tuple(traces), which)


# -- the text ----------------------------------------------------------------------------------------------------------


def _statements(text: str, source: str) -> Iterator[tuple[int, str]]:
    """Line and text of statements and braces. Semicolons end statements as ends of lines do."""
    text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n") or " ", text.replace("\r\n", "\n"))
    opened = text.find("/*")
    if opened >= 0:
        place = f"line {text.count(chr(10), 0, opened) + 1}"
        raise InputError("a comment is not closed", file=source, place=place, expected="*/")
    line = 1
    for found in _STATEMENT.finditer(text):
        said = found[0].strip()
        if said:
            yield line, said
        line += found[0] == "\n"


def _parse(text: str, source: str) -> tuple[int, dict[int, Block]]:
    """Number of ranks, and the blocks of those that have one, by rank."""
    ranks = -1
    blocks: dict[int, Block] = {}
    block: Block | None = None
    opened = False
    line = 1
    for line, said in _statements(text, source):
        if block is not None and opened:
            if said == "}":
                block, opened = None, False
            elif said == "{" or not _operation(said, block, line, ranks, source):
                raise _wrong(source, line, said, "calc, send, recv, requires, irequires or }")
        elif block is not None:
            if said != "{":
                raise _wrong(source, line, said, "{")
            opened = True
        else:
            header = _HEADER.fullmatch(said)
            if header is None or (header[1] == "num_ranks") != (ranks < 0):
                raise _wrong(source, line, said, "num_ranks N" if ranks < 0 else "rank N {")
            number = int(header[2])
            if ranks < 0:
                if not 1 <= number <= MAX_RANKS:
                    raise _wrong(source, line, said, f"1 to {MAX_RANKS} ranks")
                ranks = number
            elif number >= ranks or number in blocks:
                raise _wrong(source, line, said, f"each rank once, from 0 to {ranks - 1}")
            else:
                block = blocks[number] = Block(number)
    if ranks < 0 or block is not None:
        raise _wrong(source, line, "the end of the file", "num_ranks N" if ranks < 0 else "}")
    return ranks, dict(sorted(blocks.items()))


def _operation(said: str, block: Block, line: int, ranks: int, source: str) -> bool:
    """Take an operation or a dependency; False if it is neither."""
    calc = _CALC.fullmatch(said)
    if calc is not None:
        block.add(
            int(NodeType.COMP_NODE), calc[1] or "", (_within(calc[2], source, line), -1, 0, int(calc[3] or 0), 0), line
        )
        return True
    after = _AFTER.fullmatch(said)
    if after is not None:
        block.named.append((after[1], after[2], after[3], line))
        return True
    message = _MESSAGE.fullmatch(said)
    if message is None or (message[2] == "send") != (message[4] == "to"):
        return False
    if "-1" in (message[5], message[6]):
        raise InputError(
            "any source and any tag are not read: who meets whom would be a matter of the run",
            file=source,
            place=f"line {line}",
            found=repr(said[:80]),
            expected="the sender's rank, and a tag",
        )
    peer = int(message[5])
    if peer >= ranks:
        raise _wrong(source, line, said, f"a peer from 0 to {ranks - 1}")
    rest = (int(message[at] or 0) for at in (6, 7, 8))
    kind = NodeType.COMM_SEND_NODE if message[2] == "send" else NodeType.COMM_RECV_NODE
    block.add(int(kind), message[1] or "", (_within(message[3], source, line), peer, *rest), line)
    return True


def _within(digits: str, source: str, line: int) -> int:
    if int(digits) > LARGEST:
        raise _wrong(source, line, digits, "less than 2^62")
    return int(digits)


def _wrong(source: str, line: int, found: str, expected: str) -> InputError:
    return InputError("this is no GOAL", file=source, place=f"line {line}", found=repr(found[:80]), expected=expected)


def _resolve(block: Block, source: str) -> None:
    """Labels as places, each pair once."""
    place: dict[str, int] = {}
    for at, label in enumerate(block.label):
        if label and place.setdefault(label, at) != at:
            raise InputError("a label stands twice in a rank", file=source, place=f"line {block.line[at]}", found=label)
    found: dict[str, dict[tuple[int, int], None]] = {"requires": {}, "irequires": {}}
    for later, word, earlier, line in block.named:
        for label in (later, earlier):
            if label not in place:
                where = f"line {line}, rank {block.rank}"
                raise InputError("no operation has this label", file=source, place=where, found=label)
        found[word][place[later], place[earlier]] = None
    block.ends, block.starts = (list(found[word]) for word in ("requires", "irequires"))


def _number_tags(blocks: dict[int, Block], source: str, notes: Notes) -> None:
    """Number the tags from 0 if one of them is out of the simulator's range."""
    if max((max(block.tag, default=0) for block in blocks.values()), default=0) < TAG_RANGE:
        return
    distinct = sorted({tag for block in blocks.values() for tag in block.tag})
    place = {tag: at for at, tag in enumerate(distinct)}
    for block in blocks.values():
        block.tag = [place[tag] for tag in block.tag]
    notes.warn(f"{source}: {len(distinct):,} tags are numbered anew, because some are {TAG_RANGE:,} or more")


# -- the trace ---------------------------------------------------------------------------------------------------------


def block_trace(block: Block, source: str) -> Trace:
    """A rank's operations as a trace, whose metadata say `FORMAT`. Raises InputError for a circle."""
    order = _order(block, source)
    place = [0] * len(order)
    for at, node in enumerate(order):
        place[node] = at
    data: list[list[int]] = [[] for _ in order]
    begun: list[list[int]] = [[] for _ in order]
    for edges, lists in ((block.ends, data), (block.starts, begun)):
        for later, earlier in edges:
            lists[place[later]].append(place[earlier])
    control = _inherited(data, begun, block, source)
    strings = Strings()
    name = np.array([strings.add(block.label[node]) for node in order], np.int32)
    # What takes no time only ties dependencies together, and holds no stream up.
    nothing = int(NodeType.METADATA_NODE)
    kinds = (
        nothing if block.kind[node] == NodeType.COMP_NODE and not block.amount[node] else block.kind[node]
        for node in order
    )
    types = np.array(list(kinds), np.int32)
    kept, lists_of = _lists(begun)
    columns = _columns(block, np.array(order, np.int64), types)
    if len(kept):
        columns.append(Column(STARTS, INT64 + 1, kept, np.arange(len(kept))))
    meta, lists_of = metadata({"format": FORMAT}, strings, lists_of)
    amount = np.array([block.amount[node] for node in order], np.uint64)
    none = np.full((len(order), 3), -1, np.int32)
    return Trace(
        ids=np.arange(len(order), dtype=np.uint64),
        types=types,
        name_index=name,
        start_micros=np.zeros(len(order), np.uint64),
        duration_micros=np.where(types == NodeType.COMP_NODE, (amount + np.uint64(500)) // np.uint64(1000), 0).astype(
            np.uint64
        ),
        ctrl_deps=_csr(control),
        data_deps=_csr(data),
        inputs=none,
        outputs=none,
        attrs=attributes(len(order), columns, strings),
        lists=lists_of,
        strings=strings.build(),
        version="",
        meta=meta,
        source=source if block.rank < 0 else f"{source}, rank {block.rank}",
    )


def _columns(block: Block, order: NDArray[np.int64], types: NDArray[np.int32]) -> list[Column]:
    calc, send = np.flatnonzero(types == NodeType.COMP_NODE), types == NodeType.COMM_SEND_NODE
    messages = np.flatnonzero(types >= int(NodeType.COMM_SEND_NODE))
    amount, peer, tag, cpu, nic = (
        np.array(column, np.int64)[order] for column in (block.amount, block.peer, block.tag, block.cpu, block.nic)
    )
    own = np.full(len(order), block.rank, np.int64)
    source, target = np.where(send, own, peer), np.where(send, peer, own)
    there, card = np.flatnonzero((types != NodeType.COMP_NODE) & (cpu > 0)), messages[nic[messages] > 0]
    aside = calc[cpu[calc] > 0]
    return [
        Column("is_cpu_op", BOOL, None, np.zeros(len(order), np.bool_)),
        Column(COMPUTE_NS, INT64, calc, amount[calc]),
        Column(STREAM, INT64, aside, cpu[aside]),
        Column("comm_size", INT64, messages, amount[messages]),
        Column("comm_src", INT64, messages, source[messages]),
        Column("comm_dst", INT64, messages, target[messages]),
        Column("comm_tag", INT64, messages, tag[messages]),
        Column(CPU, INT64, there, cpu[there]),
        Column(NIC, INT64, card, nic[card]),
    ]


def _order(block: Block, source: str) -> list[int]:
    """Operations so that dependencies go back: the file's order as far as that goes."""
    edges = [*block.ends, *block.starts]
    count = len(block.kind)
    if all(earlier < later for later, earlier in edges):
        return list(range(count))
    left, after = [0] * count, [[] for _ in range(count)]  # type: tuple[list[int], list[list[int]]]
    for later, earlier in edges:
        left[later] += 1
        after[earlier].append(later)
    free = [node for node in range(count) if not left[node]]
    heapify(free)
    order = []
    while free:
        node = heappop(free)
        order.append(node)
        for later in after[node]:
            left[later] -= 1
            if not left[later]:
                heappush(free, later)
    if len(order) < count:
        stuck = next(node for node in range(count) if left[node])
        message = "operations wait for each other in a circle"
        where = f"line {block.line[stuck]}, rank {block.rank}"
        raise InputError(message, file=source, place=where, found=block.label[stuck])
    return order


def _inherited(data: list[list[int]], begun: list[list[int]], block: Block, source: str) -> list[list[int]]:
    """What each node waits for because another had to begin before it."""
    control: list[list[int]] = [[] for _ in data]
    total = 0
    for node, earlier in enumerate(begun):
        if not earlier:
            continue
        control[node] = sorted({dep for one in earlier for dep in (*data[one], *control[one])} - set(data[node]))
        total += len(control[node])
        if total > _MAX_INHERITED:
            message = "dependencies on beginnings (irequires) stand for too many others"
            raise InputError(message, file=source, place=f"rank {block.rank}", expected=f"at most {_MAX_INHERITED:,}")
    return control


def _csr(lists: list[list[int]]) -> Csr:
    counts = np.array([len(one) for one in lists], np.int64)
    return Csr(offsets_of(counts), np.array([node for one in lists for node in one], np.uint64))


def _lists(begun: list[list[int]]) -> tuple[NDArray[np.int64], Csr]:
    """Nodes that wait for beginnings, and for whose."""
    kept = [node for node, earlier in enumerate(begun) if earlier]
    return np.array(kept, np.int64), _csr([begun[node] for node in kept])

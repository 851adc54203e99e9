"""Reading of MSCCL algorithm files (XML): thread blocks of steps per GPU.

DTDs and entities are refused, and sizes are bounded, so that a hostile file cannot take memory or time.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from chakrasim.errors import InputError
from chakrasim.files.inputs import open_input, take

STEP_TYPES = ("s", "r", "rcs", "rrc", "rrs", "rrcs", "re", "cpy", "nop")
"""Send; receive; receive-copy-send; receive-reduce-copy; receive-reduce-send (result not kept);
receive-reduce-copy-send; local reduction; local copy; nothing but a dependency."""

MAX_BYTES = 256 << 20
MAX_STEPS = 5_000_000
_MAX_NUMBER_DIGITS = 9
_PARENT = {"algo": None, "gpu": "algo", "tb": "gpu", "step": "tb"}


@dataclass(frozen=True)
class Step:
    """One instruction of a thread block: works on ``count`` chunks after step ``wait_step`` of block ``wait_block``.

    ``wait_block`` is -1 where the step waits only for the one before it in its own block. ``line`` is that of the file.
    """

    kind: str
    count: int
    wait_block: int
    wait_step: int
    line: int


@dataclass(frozen=True)
class Block:
    """A thread block: steps that run one after the other, a peer to send to and one to receive from (-1: none)."""

    number: int
    send_peer: int
    receive_peer: int
    channel: int
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class MscclAlgorithm:
    """An MSCCL algorithm: ``gpus[i]`` holds the blocks of member i; ``chunks`` is into how many the data are cut."""

    collective: str
    chunks: int
    gpus: tuple[tuple[Block, ...], ...]
    source: str


def read_msccl(path: str | Path) -> MscclAlgorithm:
    """Read an algorithm file. Raises `InputError`, with the line, for whatever is wrong in it."""
    try:
        with open_input(path, "an MSCCL algorithm") as file:
            large = os.fstat(file.fileno()).st_size > MAX_BYTES
            data = take(file, 0 if large else MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError("cannot read the MSCCL algorithm", file=path, found=reason) from None
    if large:
        raise _too_large(str(path))
    return parse_msccl(data, str(path))


def _too_large(source: str) -> InputError:
    return InputError("MSCCL algorithm too large", file=source, expected=f"at most {MAX_BYTES} bytes")


def parse_msccl(data: bytes, source: str) -> MscclAlgorithm:
    """The algorithm in the bytes of a file named ``source``; see `read_msccl`."""
    if len(data) > MAX_BYTES:
        raise _too_large(source)
    return _Reader(source).read(data)


class _Reader:
    """Collects elements as expat reports them."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.StartDoctypeDeclHandler = self.refuse_doctype
        self.open: list[str] = []
        self.algo: dict[str, str] = {}
        self.gpus: dict[int, dict[int, Block]] = {}
        self.gpu: dict[int, Block] = {}
        self.block: Block | None = None
        self.chunks = 0
        self.steps = 0

    def read(self, data: bytes) -> MscclAlgorithm:
        try:
            self.parser.Parse(data, True)
        except expat.ExpatError as error:
            raise self.error(f"no well-formed XML: {expat.errors.messages[error.code]}") from None
        except (LookupError, ValueError) as error:
            raise self.error(f"no readable XML: {error}") from None
        ranks = self.number(self.algo, "ngpus", low=1) if "ngpus" in self.algo else len(self.gpus)
        if len(self.gpus) != ranks or max(self.gpus, default=-1) != ranks - 1:
            raise InputError(
                "the <gpu> elements do not fit ngpus",
                file=self.source,
                found=f"{len(self.gpus)} GPUs, ids {_shown(self.gpus)}",
                expected=f"ids 0 to {ranks - 1}, each once",
            )
        return MscclAlgorithm(
            collective=self.algo.get("coll", ""),
            chunks=self.number(self.algo, "nchunksperloop", low=1) if "nchunksperloop" in self.algo else self.chunks,
            gpus=tuple(tuple(self.gpus[rank].values()) for rank in range(ranks)),
            source=self.source,
        )

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name not in _PARENT or (self.open[-1] if self.open else None) != _PARENT[name]:
            raise self.error(
                "unexpected element",
                found=f"<{name}> in <{self.open[-1]}>" if self.open else f"<{name}>",
                expected="<algo> of <gpu> of <tb> of <step>",
            )
        self.open.append(name)
        {"algo": self.start_algo, "gpu": self.start_gpu, "tb": self.start_block, "step": self.start_step}[name](
            attributes
        )

    def end(self, name: str) -> None:
        self.open.pop()

    def start_algo(self, attributes: dict[str, str]) -> None:
        self.algo = attributes

    def start_gpu(self, attributes: dict[str, str]) -> None:
        rank = self.number(attributes, "id", low=0)
        if rank in self.gpus:
            raise self.error("two GPUs with the same id", found=f"id {rank}")
        self.gpu = self.gpus[rank] = {}
        for key in ("i_chunks", "o_chunks"):
            self.chunks = max(self.chunks, self.number(attributes, key, low=0, default=0))

    def start_block(self, attributes: dict[str, str]) -> None:
        number = self.number(attributes, "id", low=0)
        if number in self.gpu:
            raise self.error("two thread blocks of a GPU with the same id", found=f"id {number}")
        self.block = self.gpu[number] = Block(
            number=number,
            send_peer=self.number(attributes, "send", low=-1, default=-1),
            receive_peer=self.number(attributes, "recv", low=-1, default=-1),
            channel=self.number(attributes, "chan", low=0, default=0),
        )

    def start_step(self, attributes: dict[str, str]) -> None:
        assert self.block is not None
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise self.error("too many steps", expected=f"at most {MAX_STEPS}")
        number = self.number(attributes, "s", low=0)
        if number != len(self.block.steps):
            raise self.error("steps are out of order", found=f"s={number}", expected=f"s={len(self.block.steps)}")
        kind = attributes.get("type", "")
        if kind not in STEP_TYPES:
            raise self.error("unknown step type", found=repr(kind), expected=f"one of {', '.join(STEP_TYPES)}")
        wait_block = self.number(attributes, "depid", low=-1, default=-1)
        wait_step = self.number(attributes, "deps", low=-1, default=-1)
        if (wait_block < 0) != (wait_step < 0):
            said = f"depid={_stated(attributes, 'depid')}, deps={_stated(attributes, 'deps')}"
            raise self.error("half a dependency", found=said, expected="depid and deps from 0, or both -1 or left out")
        self.block.steps.append(
            Step(
                kind=kind,
                count=self.number(attributes, "cnt", low=0 if kind == "nop" else 1, default=1),
                wait_block=wait_block,
                wait_step=wait_step,
                line=self.parser.CurrentLineNumber,
            )
        )

    def refuse_doctype(self, *_: object) -> None:
        raise self.error(
            "a document type declaration is not accepted", expected="an MSCCL algorithm without <!DOCTYPE>"
        )

    def number(self, attributes: dict[str, str], key: str, *, low: int, default: int | None = None) -> int:
        text = attributes.get(key)
        if text is None:
            if default is not None:
                return default
            raise self.error(f"attribute {key} is missing", expected=f"a whole number from {low}")
        if not re.fullmatch(rf"\s*-?[0-9]{{1,{_MAX_NUMBER_DIGITS}}}\s*", text) or int(text) < low:
            raise self.error(
                f"attribute {key} is out of range", found=repr(text[:40]), expected=f"a whole number from {low}"
            )
        return int(text)

    def error(self, message: str, *, found: str | None = None, expected: str | None = None) -> InputError:
        line = f"line {self.parser.CurrentLineNumber}"
        return InputError(message, file=self.source, place=line, found=found, expected=expected)


def _stated(attributes: dict[str, str], key: str) -> str:
    return repr(attributes[key]) if key in attributes else "none"


def _shown(numbers: dict[int, dict[int, Block]]) -> str:
    listed = sorted(numbers)
    return ", ".join(map(str, listed[:8])) + (", ..." if len(listed) > 8 else "") if listed else "none"

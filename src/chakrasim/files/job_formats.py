"""Which other maker's job format a text has, told by its beginning."""

from __future__ import annotations

import os
import re
from typing import Final

from chakrasim.errors import InputError
from chakrasim.files.signatures import NSYS_REPORT, PARQUET, ROCPROF_TABLE, ROCPROFV3_TABLE
from chakrasim.files.storage import head_of

GOAL: Final = "a GOAL schedule (LogGOPSim, ATLAHS)"
SIMAI: Final = "a SimAI workload"
EARLY: Final = "a workload of an early SimAI or of ASTRA-sim 1.0"
"""Its first line is the same in both: SimAI's times are ns."""
AICB: Final = "an AICB workload table"
TEXT: Final = "a text workload of ASTRA-sim 1.0"
OTF2: Final = "an OTF2 archive of an MPI program, by its anchor file"
JOBS: Final = (GOAL, SIMAI, EARLY, AICB, OTF2)
"""Those that are read as jobs."""
_REMEDIES: Final = {
    **dict.fromkeys(JOBS, "name it to chakrasim simulate or info, or convert it: chakrasim convert FILE -o PREFIX"),
    NSYS_REPORT: "export it: nsys export --type sqlite REPORT, and name the file that comes out",
    ROCPROFV3_TABLE: "record with rocprofv3 --output-format json, and name that file",
    ROCPROF_TABLE: "record with rocprof --hip-trace, and name results.json",
    PARQUET: "straggler traces are for: chakrasim what-if FILE --meta JOB.yaml",
    TEXT: "convert it: chakrasim convert Text --input FILE --output PREFIX --num-npus N --num-passes P",
}
HEAD_BYTES: Final = 1 << 16
"""Enough of a file to tell."""

TRANSFORMERS: Final = ("HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD")
_TEXT_LOOPS: Final = (
    *("MICRO", "DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA", "HYBRID_DLRM", "HYBRID_DLRM_ENHANCED"),
    *("HYBRID_CUSTOMIZED", "DISTRIBUTED_INFERENCE"),
)
_OWN_WORDS: Final = frozenset({b"ep:", b"pp:", b"vpp:", b"ga:", b"all_gpus:", b"expert_parallel_npu_group:"})
"""Of a SimAI workload's first line, not of ASTRA-sim's."""
_SPACE: Final = re.compile(rb"(?:\s|//[^\n]*\n|/\*.*?\*/)*", re.DOTALL)
_GOAL: Final = re.compile(rb"num_ranks[ \t]+[0-9]+\s*(?:\Z|[;r/])|rank[ \t]+[0-9]+[ \t]*\{")
_STAGE: Final = re.compile(rb"\[.*rank[ ]?[0-9]+.*\]")


def remedy_of(kind: str, other: str | None = None) -> str | None:
    """What to do with a file of a kind (these, or those of `signatures`), or ``other`` for any other file."""
    return _REMEDIES.get(kind, other)


def refuse_job(data: bytes, source: str, expected: str) -> None:
    """Raise InputError if ``data``, which should be something else, are a job in one of these formats."""
    kind = kind_of(data)
    if kind:
        raise InputError(f"this is no {expected}", file=source, found=kind, expected=expected, remedy=remedy_of(kind))


def kind_of(head: bytes) -> str:
    """GOAL, SIMAI, EARLY, AICB, OTF2, TEXT, or "" for anything else; ``head``: the first bytes, unpacked."""
    if head[1:6] == b"BOTF2":
        return OTF2
    plain = head[:HEAD_BYTES].removeprefix(b"\xef\xbb\xbf")
    spaces = _SPACE.match(plain)
    if _GOAL.match(plain, spaces.end() if spaces else 0):
        return GOAL
    lines = [line.strip() for line in plain.split(b"\n", 3)]
    if any(line.startswith(b"comm_type,comm_group,") for line in lines[:1]) or (
        len(lines) > 1 and _STAGE.fullmatch(lines[0]) and lines[1].startswith(b"comm_type,")
    ):
        return AICB
    words = lines[0].split()
    if not words or not words[0].isascii():
        return ""
    if words[0].decode() in TRANSFORMERS and b"model_parallel_NPU_group:" in words:
        return EARLY if _OWN_WORDS.isdisjoint(words) else SIMAI
    counted = len(lines) > 1 and lines[1].isdigit()
    return TEXT if counted and words[0].decode() in (*_TEXT_LOOPS, *TRANSFORMERS) else ""


def foreign_kind(path: str | os.PathLike[str]) -> str:
    """Which format of `JOBS` a file has; "" for others and what is no file."""
    found = kind_of(head_of(path, HEAD_BYTES))
    return found if found in JOBS else ""

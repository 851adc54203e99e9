"""The marks that inference servers leave around their iterations, and what these state.

An iteration is one pass of the model over a batch of requests. What marks do not state is NaN, and a kind that they do
not state is "unknown".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from typing import Final

import numpy as np

from chakrasim.analysis.table.nesting import threads_of
from chakrasim.trace.intervals import running_maximum
from chakrasim.trace.kineto.columns import HAS_DUR, HAS_TS, Ints, KinetoTrace

PREFILL, DECODE, MIXED, IDLE, UNKNOWN = "prefill", "decode", "mixed", "idle", "unknown"
KINDS: Final = (PREFILL, DECODE, MIXED, IDLE, UNKNOWN)
#: Kinds in which requests get their next token.
DECODING: Final = (DECODE, MIXED)


@dataclass(frozen=True)
class Stated:
    """What a mark states: the kind, requests (of all kinds, in prefill, in decode) and tokens computed for them."""

    kind: str = UNKNOWN
    requests: float = nan
    prefill_requests: float = nan
    decode_requests: float = nan
    prefill_tokens: float = nan
    decode_tokens: float = nan


@dataclass(frozen=True, eq=False)
class Iterations:
    """The iterations of one rank, by start: ``row`` int64[i] of their marks; ``start_ns``, ``end_ns`` of these;
    ``source``: which marks they are; ``inside``: marks that lie within others, which count once."""

    row: Ints
    start_ns: Ints
    end_ns: Ints
    stated: tuple[Stated, ...]
    source: str
    inside: int

    def __len__(self) -> int:
        return len(self.row)

    @property
    def until_ns(self) -> Ints:
        """int64[i]: when the next iteration begins; of the last, when its mark ends."""
        return np.append(self.start_ns[1:], self.end_ns[-1:])

    def holding(self, times_ns: Ints) -> Ints:
        """int64[k]: the iteration that began last at each time, -1: none had."""
        return np.searchsorted(self.start_ns, times_ns, "right") - 1


_COUNT = r"(\d{1,15})(?!\d)"
_VLLM = re.compile(
    rf"execute_(?:\d+_)?context_{_COUNT}\((?:sq)?{_COUNT}[^)]*\)_generation_{_COUNT}\((?:sq)?{_COUNT}[^)]*\)$"
)
_VLLM_OLD = re.compile(rf"execute_new_{_COUNT}_cached_{_COUNT}$")
_SGLANG = re.compile(rf"step\[(\w+) bs={_COUNT}((?: \w+=\d{{1,18}})*)\]$")
_FUNCTION = re.compile(
    r".*vllm/.*model_runner\.py\(\d+\): execute_model$|.*sglang/.*/model_runner\.py\(\d+\): forward$"
)
_STEP = re.compile(r"ProfilerStep\s*#\s*\d+$")


def _vllm(match: re.Match[str]) -> Stated:
    prefill, prefill_tokens, decode, decode_tokens = (int(text) for text in match.groups())
    kind = (IDLE, DECODE, PREFILL, MIXED)[2 * (prefill > 0) + (decode > 0)]
    return Stated(kind, prefill + decode, prefill, decode, prefill_tokens, decode_tokens)


def _vllm_old(match: re.Match[str]) -> Stated:
    # Requests that were there before decode, or go on with a prefill that was cut: which, these marks do not say.
    new, cached = int(match[1]), int(match[2])
    if not cached:
        return Stated(PREFILL, new, new, 0, decode_tokens=0) if new else Stated(IDLE, 0, 0, 0, 0, 0)
    return Stated(requests=new + cached)


def _sglang(match: re.Match[str]) -> Stated:
    batch = int(match[2])
    values = {key: float(value) for key, value in (pair.split("=") for pair in match[3].split())}
    if match[1] == "IDLE":
        return Stated(IDLE, 0, 0, 0, 0, 0)
    if match[1] == "DECODE":
        return Stated(DECODE, batch, 0, batch, 0, values.get("g_sq", batch))
    if match[1] == "EXTEND":
        return Stated(PREFILL, batch, batch, 0, values.get("toks", values.get("c_sq", nan)), 0)
    if match[1] == "MIXED":
        return Stated(MIXED, batch, *(values.get(key, nan) for key in ("c", "g", "c_sq", "g_sq")))
    return Stated(requests=batch)


def _silent(match: re.Match[str]) -> Stated:
    return Stated()


#: Marks from the most telling down; those of the first that a trace has are taken: what they are, the category of
#: their events, and what each form states.
_SOURCES: Final[tuple[tuple[str, str, tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Stated]], ...]], ...]] = (
    ("annotations of the server", "user_annotation", ((_VLLM, _vllm), (_VLLM_OLD, _vllm_old), (_SGLANG, _sglang))),
    ("calls of the model runner", "python_function", ((_FUNCTION, _silent),)),
    ("steps of the profiler", "user_annotation", ((_STEP, _silent),)),
)
ANNOTATED: Final = _SOURCES[0][0]


def find_iterations(kineto: KinetoTrace) -> Iterations | None:
    """The iterations of a trace by the best marks that it has; None: it has none."""
    timed = kineto.has(HAS_DUR) & kineto.has(HAS_TS)
    for source, category, forms in _SOURCES:
        rows = np.flatnonzero(timed & kineto.where(kineto.category, category))
        stated: dict[int, Stated] = {}
        for index in np.unique(kineto.name[rows]).tolist():
            name = kineto.strings[index]
            match = next(((form.match(name), states) for form, states in forms if form.match(name)), None)
            if match is not None and match[0] is not None:
                stated[index] = match[1](match[0])
        rows = rows[np.isin(kineto.name[rows], list(stated))]
        if len(rows):
            outer = _outermost(kineto, rows)
            start = kineto.ts_ns[outer]
            end = start + np.maximum(kineto.dur_ns[outer], 0)
            said = tuple(stated[index] for index in kineto.name[outer].tolist())
            return Iterations(outer, start, end, said, source, len(rows) - len(outer))
    return None


def _outermost(kineto: KinetoTrace, rows: Ints) -> Ints:
    """The rows that do not begin within another of them on their thread, by start."""
    thread, start = threads_of(kineto, rows), kineto.ts_ns[rows]
    end = start + np.maximum(kineto.dur_ns[rows], 0)
    order = np.lexsort((-end, start, thread))
    thread, start, end = thread[order], start[order], end[order]
    first = np.append(True, thread[1:] != thread[:-1])
    reach = np.roll(running_maximum(end, first), 1)
    outer = rows[order[first | (start >= reach)]]
    return outer[np.argsort(kineto.ts_ns[outer], kind="stable")]

"""Memory over time: of simulated ranks whose tensors are tracked, and of recorded traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from chakrasim.analysis.memory import HOST, MemorySeries, by_device
from chakrasim.errors import InputError
from chakrasim.report.picture.course import Course, course_svg
from chakrasim.report.tables.simulation import class_members
from chakrasim.report.timeline.simulation import chosen_ranks
from chakrasim.simulator.outcome.local_memory import tensors_of, usage
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.text.amounts import plural, ranks_text

MOST_LINES: Final = 6


def memory_of(result: SimulationResult, ranks: Sequence[int] | None = None) -> str:
    """Live tensors of ranks over time: those named, or of each kind of ranks one, the fullest first. Raises InputError
    for a run that did not track local memory, or kept no times, and for ranks that are not there."""
    if result.peak_memory_bytes is None or not result.records:
        raise InputError(
            "local memory was not tracked", remedy="set 'track-local-mem' to 1 in the system configuration"
        )
    shown = chosen_ranks(result, ranks)
    peak = result.peak_memory_bytes
    drawn = shown if ranks is not None else sorted(shown, key=lambda rank: -int(peak[rank]))[:MOST_LINES]
    members = class_members(result, len(result.class_ranks))
    courses = []
    for rank in drawn:
        like = members[int(result.classes[rank])]
        name = f"rank {rank}" if ranks is not None or len(like) == 1 else f"ranks {ranks_text(like.tolist(), 2)}"
        courses.append(Course(name, *usage(tensors_of(result.records[int(result.classes[rank])]))))
    if not any(len(one.times_ns) for one in courses):
        raise InputError("there is nothing to draw: no node of these ranks names a tensor")
    left = len(shown) - len(drawn)
    return course_svg(courses, result.makespan_ns, "live tensors, the fullest first"
                      + (f"; {plural(left, 'kind')} of ranks with less left out" if left else ""))  # fmt: skip


def recorded_memory_svg(series: MemorySeries) -> str:
    """What tensors take on each device of each rank, the fullest first, from the first event of each rank on."""
    courses = []
    for rank, device, after_ns, own in by_device(series):
        name = f"rank {rank} {'host' if device == HOST else f'device {device}'}"
        courses.append(Course(name, after_ns, series.allocated_bytes[own]))
    if not courses:
        raise InputError("there is nothing to draw", found="no events of memory")
    drawn = sorted(courses, key=lambda one: -int(one.values.max()))[:MOST_LINES]
    left = len(courses) - len(drawn)
    end_ns = max(int(one.times_ns[-1]) for one in courses)
    return course_svg(drawn, end_ns, "bytes of tensors as recorded, the fullest first"
                      + (f"; {plural(left, 'device')} with less left out" if left else ""))  # fmt: skip

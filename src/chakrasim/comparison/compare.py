"""``chakrasim.compare``: two runs, before and after, and the causes of the difference."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from chakrasim.comparison.figures import estimate_side, is_estimate, is_simulation, simulation_side
from chakrasim.comparison.parts import COMMUNICATION, GROUPS, OPERATORS, WAITING, WHOLE, Part, Told
from chakrasim.comparison.result import Cause, Comparison, CountedBoth
from chakrasim.comparison.sides import Side
from chakrasim.config.section import Section, open_section
from chakrasim.errors import InputError
from chakrasim.estimation.result import StepEstimate
from chakrasim.notes import Notes, lists_too
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.trace.kineto.columns import KinetoTrace
from chakrasim.trace.linked.columns import LinkedTrace

if TYPE_CHECKING:
    from chakrasim.analysis.table.traces import RankTrace

Run = str | os.PathLike[str] | SimulationResult | StepEstimate | KinetoTrace | LinkedTrace
"""What can be compared: a file, a folder of device traces, or what is in memory."""

KINDS: Final = (
    "a result of simulate --json or of estimate --json, a device trace of PyTorch (or a folder of them), a linked trace"
)
_TOGETHER: Final = f"{COMMUNICATION} and {WAITING}"


@lists_too
def compare(
    a: Run,
    b: Run,
    *,
    rank_a: int | None = None,
    rank_b: int | None = None,
    step_a: int | None = None,
    step_b: int | None = None,
    lenient: bool = False,
    notes: Notes | None = None,
) -> Comparison:
    """Why ``b`` takes longer than ``a``, or less long: causes in order, which sum to the whole difference.

    Each is a simulation's result or its JSON, an estimate or its JSON, a device trace of PyTorch or a folder of them,
    or a linked trace. Recorded runs are compared by operator, whatever kernels they launch, so that the devices may be
    of different makers; two simulations by kind of work and role of communication; what two different kinds of runs do
    not both tell apart is compared as a whole, which the notes say.

    Parameters
    ----------
    rank_a, rank_b:
        The rank; of a simulation that which computes longest unless given, of recorded traces the lowest.
    step_a, step_b:
        The profiler step of a recorded trace; the mean over complete steps unless given, or the whole of both traces if
        one has none.
    lenient:
        Of damaged traces use what is intact.
    notes:
        Receives warnings.

    Raises InputError for what cannot be read or has nothing to compare.
    """
    said = Notes() if notes is None else notes
    asked = ((a, rank_a, step_a), (b, rank_b, step_b))
    opened = [_open(run, rank, lenient, said) for run, rank, _ in asked]
    remarks = Notes()
    whole = _without_steps(opened, remarks)
    first, second = (_side(one, rank, step, whole, remarks) for one, (_, rank, step) in zip(opened, asked, strict=True))
    causes = sorted(_causes(first, second, remarks), key=lambda one: (-abs(one.difference_ns), one.group, one.name))
    kept = tuple(one for one in causes if one.a_ns or one.b_ns or one.count_a or one.count_b)
    return Comparison(first, second, kept, tuple(_counted(first, second)), (*remarks,))


# -- what is given -----------------------------------------------------------------------------------------------------


def _open(run: Run | RankTrace, rank: int | None, lenient: bool, notes: Notes) -> Section | LinkedTrace:
    """Figures as JSON has them, or a linked trace."""
    if isinstance(run, LinkedTrace):
        return run
    if isinstance(run, SimulationResult):
        return replace(open_section(json.loads(run.to_json()), "result", "json", notes), file="the result")
    if isinstance(run, StepEstimate):
        return replace(open_section(run.to_json(), "estimate", "json", notes), file="the estimate")
    if isinstance(run, str | os.PathLike) and not os.path.isdir(run):
        from chakrasim.diagnosis.files.sniff import FileKind, sniff

        path = os.fspath(run)
        facts = sniff(Path(path))
        if facts.kind is FileKind.JOINED:
            from chakrasim.trace.linked.file import read_linked

            return read_linked(path)
        if facts.kind is not FileKind.DEVICE:
            return _figures(path, facts.kind.value, facts.members is not None, notes)
    from chakrasim.analysis.table.traces import open_traces
    from chakrasim.linker.api import link

    # What cannot be linked is told by the doctor, and counted in the trace; here it would only hide what matters.
    found = open_traces(run, rank=rank, lenient=lenient, notes=notes)[0]
    return link(None, found.kineto, rank=found.rank, lenient=lenient, notes=Notes())


def _figures(path: str, kind: str, is_json: bool, notes: Notes) -> Section:
    remedy = "simulate the trace and compare the results: chakrasim simulate PREFIX --machine NAME --json FILE"
    if not os.path.exists(path):
        raise InputError("there is no such file or folder", file=path, expected=KINDS)
    if not is_json:
        raise InputError("this cannot be compared", file=path, found=kind, expected=KINDS, remedy=remedy)
    section = open_section(path, "result", "json", notes)
    if not is_simulation(section.entries) and not is_estimate(section.entries):
        section.fail(None, "this cannot be compared", found=section.entries, expected=KINDS)
    return section


def _without_steps(opened: list[Section | LinkedTrace], notes: Notes) -> bool:
    """Whether whole traces are compared, since one of two has no steps."""
    from chakrasim.comparison.pieces import has_steps

    marked = [has_steps(one) for one in opened if isinstance(one, LinkedTrace)]
    if len({*marked}) > 1:
        notes.note("one of the traces has no steps: whole traces are compared")
    return not all(marked)


def _side(one: Section | LinkedTrace, rank: int | None, step: int | None, whole: bool, notes: Notes) -> Side:
    if isinstance(one, Section):
        if step is not None:
            raise InputError("a result has no steps to choose from", file=one.file, remedy="leave the step out")
        return simulation_side(one, rank) if is_simulation(one.entries) else estimate_side(one)
    from chakrasim.comparison.recorded import recorded_side

    return recorded_side(one, -1 if whole and step is None else step, notes)


# -- causes ------------------------------------------------------------------------------------------------------------


def _causes(a: Side, b: Side, notes: Notes) -> Iterator[Cause]:
    """Every part of both runs once."""
    groups = [dict(a.groups), dict(b.groups)]
    if (WAITING in groups[0]) != (WAITING in groups[1]):
        notes.note(f"one of the runs does not tell {WAITING} for other ranks from {COMMUNICATION}: both are one part")
        groups = [_joined(each) for each in groups]
    nothing = Told(WHOLE, ())
    for name in dict.fromkeys([*GROUPS, *groups[0], *groups[1]]):
        in_a, in_b = (each.get(name, nothing) for each in groups)
        if in_a.by == in_b.by == OPERATORS:
            from chakrasim.comparison.recorded import operator_causes

            yield from operator_causes(a, b, name)
        elif in_a.by == in_b.by or not in_a.ns or not in_b.ns:
            yield from _by_name(name, in_a, in_b)
        else:
            notes.note(f"{name} is compared as a whole: A has it {_by(in_a)}, B {_by(in_b)}")
            yield Cause(name, name, in_a.ns, in_b.ns)


def _by(told: Told) -> str:
    return "as a whole" if told.by == WHOLE else f"by {told.by}"


def _joined(groups: Mapping[str, Told]) -> dict[str, Told]:
    both = [groups[name] for name in (COMMUNICATION, WAITING) if name in groups]
    rest = {name: told for name, told in groups.items() if name not in (COMMUNICATION, WAITING)}
    return {**rest, _TOGETHER: Told(_TOGETHER, (Part(_TOGETHER, sum(told.ns for told in both)),))}


def _by_name(group: str, a: Told, b: Told) -> Iterator[Cause]:
    parts = [{part.name: part for part in told.parts} for told in (a, b)]
    for name in dict.fromkeys([*parts[0], *parts[1]]):
        in_a, in_b = (each.get(name) for each in parts)
        yield Cause(
            group, name, in_a.ns if in_a else 0, in_b.ns if in_b else 0,
            in_a.count if in_a else None, in_b.count if in_b else None,
        )  # fmt: skip


def _counted(a: Side, b: Side) -> Iterator[CountedBoth]:
    """What differs between runs of a kind, the largest difference of time first."""
    if a.kind != b.kind:
        return
    sides = [{one.name: one for one in side.counted} for side in (a, b)]
    found = []
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        in_a, in_b = (each.get(name) for each in sides)
        if in_a != in_b:
            found.append(CountedBoth(
                name, in_a.count if in_a else 0, in_b.count if in_b else 0,
                in_a.mean_ns if in_a else None, in_b.mean_ns if in_b else None,
            ))  # fmt: skip
    times = {one.name: (one.count_a * (one.mean_a_ns or 0), one.count_b * (one.mean_b_ns or 0)) for one in found}
    yield from sorted(found, key=lambda one: (-abs(times[one.name][1] - times[one.name][0]), one.name))

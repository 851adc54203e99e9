"""Model files: JSON, the same bytes for the same model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from chakrasim.errors import InputError
from chakrasim.files import storage
from chakrasim.files.outputs import write_whole
from chakrasim.synthesis.expressions import Expression, check
from chakrasim.synthesis.grammar.durations import Scatter
from chakrasim.synthesis.groups import Grid
from chakrasim.synthesis.loops import Loop, places
from chakrasim.synthesis.model import Learned, Model
from chakrasim.synthesis.reasons import check_rule
from chakrasim.synthesis.roles import Role, Said
from chakrasim.synthesis.search.buckets import Bucket, Enough
from chakrasim.synthesis.search.meters import Meter, Part
from chakrasim.trace.job.file import checked_parameters
from chakrasim.trace.kinds import BYTES
from chakrasim.trace.recognise import what_is

FORMAT: Final = "chakrasim-model/1"
MAX_BYTES: Final = 256 << 20


def write_model(path: str | os.PathLike[str], learned: Learned) -> int:
    """Write a model file, whole or not at all, and say how many bytes it has. Raises InputError."""
    data = model_bytes(learned)
    write_whole(os.fspath(path), data)
    return len(data)


def model_bytes(learned: Learned) -> bytes:
    """What a model file holds."""
    model = learned.model
    content = {
        "format": FORMAT,
        "jobs": learned.jobs,
        "parameters": learned.parameters,
        "lost": learned.lost,
        "roles": [asdict(role) for role in model.roles],
        "loops": _plain(model.loop),
        "counts": model.counts,
        "marks": model.marks,
        "present": model.present,
        "numbers": model.numbers,
        "reasons": list(model.reasons),
        "counters": sorted(model.counters),
        "grid": model.grid.to_json(),
        "metadata": model.metadata,
        "rank_columns": model.rank_columns,
        "meters": [asdict(meter) for meter in model.meters],
        "left_out": model.left_out,
        "by_few": model.by_few,
        "scatter": model.scatter and model.scatter.to_json(),
        **({"device": model.device} if model.device else {}),
    }
    return json.dumps(content, separators=(",", ":"), default=bytes.hex).encode() + b"\n"


def read_model(path: str | os.PathLike[str]) -> Learned:
    """The model of a file. Raises InputError for a file that is none."""
    name = os.fspath(path)
    raw = storage.read_bytes(name, MAX_BYTES, "a model file")
    expected = "a file that chakrasim learn has written"
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as fault:
        if raw.startswith(b'{"format":"chakrasim-model'):
            raise InputError(
                "the model is damaged", file=name, found=str(fault)[:80], remedy="learn it again"
            ) from None
        raise InputError("this is no model of jobs", file=name, found=what_is(name), expected=expected) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise InputError(
            "this is no model of jobs", file=name, found=repr(found)[:60], expected=f'"format": "{FORMAT}"'
        )
    try:
        return _learned(content)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, OverflowError) as fault:
        raise InputError("the model is damaged", file=name, found=f"{type(fault).__name__}: {str(fault)[:80]}",
                         expected=expected, remedy="learn it again") from None  # fmt: skip


def _learned(content: Mapping[str, Any]) -> Learned:
    loop = _loop(content["loops"])
    roles = tuple(
        Role(
            int(each["type"]),
            str(each["name"]),
            tuple(_said(one) for one in each["attributes"]),
            bool(each["timed"]),
            str(each["place"]),
        )
        for each in content["roles"]
    )
    if {*places(loop)} - {*range(len(roles))}:
        raise ValueError("a loop holds a role that is not there")
    known = {*range(len(roles))}, {*content["counts"]}
    control, data = (
        {int(role): [check_rule(rule, *known) for rule in rules] for role, rules in each.items()}
        for each in content["reasons"]
    )
    grid = content["grid"]
    model = Model(
        roles,
        loop,
        {int(number): check(each) for number, each in content["counts"].items()},
        {int(number): [check(one) for one in each] for number, each in content["marks"].items()},
        {int(role): check(each) for role, each in content["present"].items()},
        {int(role): {name: check(each) for name, each in own.items()} for role, own in content["numbers"].items()},
        (control, data),
        frozenset(content["counters"]),
        Grid(
            check(grid["ranks"]),
            {role: check(each) for role, each in grid["size"].items()},
            {role: check(each) for role, each in grid["step"].items()},
            {role: str(each) for role, each in grid["ends"].items()},
        ),
        [(_said(said), [check(each) for each in laws]) for said, laws in content["metadata"]],
        tuple(content["rank_columns"]),
        tuple((_bucket if "enough" in each else _meter)(each) for each in content["meters"]),
        tuple(str(each) for each in content["left_out"]),
        tuple(str(each) for each in content["by_few"]),
        None if content["scatter"] is None else Scatter.of(content["scatter"]),
        str(content.get("device", "")),
    )
    _check_names(model)
    jobs, lost = [str(each) for each in content["jobs"]], {str(w): float(e) for w, e in content["lost"].items()}
    parameters = [checked_parameters(each, "parameters") for each in content["parameters"]]
    if len(jobs) != len(parameters) or not jobs or any({*own} != {*parameters[0]} for own in parameters):
        raise ValueError("the jobs do not have the same parameters")
    if any(len({isinstance(own[name], str) for own in parameters}) > 1 for name in parameters[0]):
        raise ValueError("a parameter is a word in some jobs and a number in others")
    return Learned(model, jobs, parameters, lost)


def _check_names(model: Model) -> None:
    """Raise ValueError for roles without a law for each of their numbers, and for columns without a name."""
    if not all(isinstance(name, str) for name in model.rank_columns):
        raise ValueError("a column of ranks has no name")
    for number, role in enumerate(model.roles):
        if number not in model.present or {*role.numbers()} != {*model.numbers[number]}:
            raise ValueError(f"the laws of {role.title} are not those of its numbers")


def _meter(content: Mapping[str, Any]) -> Meter:
    start, limit, flush, active = (check(content[name]) for name in ("start", "limit", "flush", "active"))
    weights = tuple(map(check, content["weights"]))
    parts = tuple(Part(check(each["start"]), check(each["weight"])) for each in content["parts"])
    if not weights or (parts and len(weights) > 1):
        raise ValueError("parts of what adds up are those of one place")
    return Meter(int(content["number"]), int(content["loop"]), start, weights, limit, flush, active, parts,
                 _gap(content["gap"]))  # fmt: skip


def _bucket(content: Mapping[str, Any]) -> Bucket:
    before, along, behind = (tuple(map(check, content[name])) for name in ("before", "along", "behind"))
    first, later = (Enough(check(each["law"]), _gap(each["gap"])) for each in content["enough"])
    if not (before and along and behind):
        raise ValueError("a bucket lacks what is added behind its places")
    return Bucket(int(content["number"]), int(content["loop"]), before, along, behind, (first, later),
                  bool(content["flush"]))  # fmt: skip


def _gap(content: Sequence[Any]) -> tuple[Expression, Expression]:
    low, high = map(check, content)
    return low, high


def _plain(loop: Loop) -> list[Any]:
    return [loop.number, [_plain(one) if isinstance(one, Loop) else one for one in loop.body]]


def _loop(content: Sequence[Any]) -> Loop:
    number, body = content
    return Loop(int(number), tuple(_loop(one) if isinstance(one, list) else int(one) for one in body))


def _said(content: Sequence[Any]) -> Said:
    name, kind, value = content
    if kind in (BYTES, BYTES + 1):
        value = [bytes.fromhex(one) for one in value] if kind > BYTES else bytes.fromhex(value)
    return str(name), int(kind), tuple(value) if isinstance(value, list) else value

"""Results of simulations and estimates, by their JSON, as sides of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from chakrasim.comparison.parts import COMMUNICATION, COMPUTE, COPIES, IDLE, WAITING, WHOLE, Part, Told, shared_out
from chakrasim.comparison.sides import ESTIMATE, SIMULATION, Counted, Side
from chakrasim.config.section import Section
from chakrasim.text.amounts import percent_text, size_text

_MOST: Final = 2**62
_OF_ESTIMATE: Final = {"host": IDLE, "waiting": WAITING, "bubble": WAITING}
"""Groups of an estimate's parts; ``comm_ROLE`` is communication, all others are compute."""


def is_simulation(members: Mapping[str, object]) -> bool:
    """Whether these are the figures of `SimulationResult.to_json`."""
    return str(members.get("format", "")).startswith("chakrasim-result/")


def is_estimate(members: Mapping[str, object]) -> bool:
    """Whether these are those of `StepEstimate.to_json`."""
    return "parts_s" in members and "step_s" in members


# -- simulations -------------------------------------------------------------------------------------------------------


def simulation_side(figures: Section, rank: int | None) -> Side:
    """The rank that computes longest, for which the others wait, or the one asked for. Raises InputError."""
    if figures.entries.get("simulated") is False:
        figures.fail("simulated", "nothing was simulated, only checked", remedy="run simulate without --check")
    busy = _times(figures, "gpu_ns")
    if not busy:
        figures.fail("gpu_ns", "the result has no ranks", expected="times of at least one rank")
    slowest = rank is None
    chosen = busy.index(max(busy)) if rank is None else rank
    if chosen >= len(busy):
        figures.fail("ranks", f"there is no rank {chosen}", found=len(busy), expected=f"0 to {len(busy) - 1}")
    parts = _parts(figures, chosen)
    roles = _roles(figures, chosen)
    groups = {
        COMPUTE: _computation(figures, chosen, parts["compute"] + parts["overlap"]),
        COPIES: Told("memory", (Part("remote memory", parts["memory"]),)),
        IDLE: Told("what the rank does", tuple(Part(label, parts[name]) for name, label in _IDLE.items())),
    }
    exposed, waits = parts["exposed_comm"], parts["waiting"]
    if roles or waits or parts["bubble"]:
        groups[COMMUNICATION] = Told("roles", _by_role(exposed, {role: one[0] for role, one in roles.items()}))
        waiting = _by_role(waits, {role: one[1] for role, one in roles.items()}, "for other ranks, ")
        bubble = Part("bubble: messages that have not been sent", parts["bubble"])
        groups[WAITING] = Told("roles", (*waiting, bubble))
    else:
        groups[COMMUNICATION] = Told(WHOLE, (Part("communication, waiting for other ranks included", exposed),))
    return Side(
        source=figures.file,
        kind=SIMULATION,
        what=f"rank {chosen}{', which computes longest' if slowest else ''}",
        rank=chosen,
        groups=groups,
        facts=_facts_of_simulation(figures, len(busy)),
        counted=tuple(_collectives(figures)),
    )


_IDLE: Final = {"cpu": "host only", "idle": "idle", "done": "after the rank's end"}
_PARTS: Final = ("compute", "overlap", "exposed_comm", "waiting", "bubble", "memory", "cpu", "idle", "done")


def _parts(figures: Section, rank: int) -> dict[str, int]:
    below = figures.below("parts_ns", _PARTS)
    found = {}
    for name in _PARTS:
        listed = _times(below, name)
        if rank >= len(listed):
            below.fail(name, "a list by rank is too short", found=len(listed), expected=f"more than {rank}")
        found[name] = listed[rank]
    return found


def _roles(figures: Section, rank: int) -> dict[str, tuple[int, int]]:
    """By role: exposed and waiting ns."""
    if figures.entries.get("roles") is None:
        return {}
    found = {}
    for one in _records(figures, "roles"):
        exposed, waits = (_at(one, name, rank) for name in ("exposed_ns", "waiting_ns"))
        found[str(one.entries.get("role"))] = (exposed, waits)
    return found


def _by_role(whole: int, weights: Mapping[str, int], prefix: str = "") -> tuple[Part, ...]:
    """The whole shared out by role; as one part where no role is known."""
    if not sum(weights.values()):
        return (Part(f"{prefix}role unknown", whole),) if whole else ()
    shares = shared_out(whole, list(weights.values()))
    return tuple(Part(f"{prefix}{role}", share) for role, share in zip(weights, shares, strict=True))


def _computation(figures: Section, rank: int, busy: int) -> Told:
    """What is computed, by kind of work; kinds that ran at one time share it by how long they ran."""
    if figures.entries.get("computation") is None:
        return Told(WHOLE, (Part("compute", busy),))
    found = {}
    for one in _records(figures, "computation"):
        found[str(one.entries.get("kind"))] = (_at(one, "time_ns", rank), _at(one, "nodes", rank))
    shares = shared_out(busy, [time for time, _ in found.values()])
    if sum(shares) != busy:
        return Told(WHOLE, (Part("compute", busy),))
    parts = zip(found.items(), shares, strict=True)
    return Told("kinds of work", tuple(Part(kind, share, count) for (kind, (_, count)), share in parts))


def _collectives(figures: Section) -> list[Counted]:
    found = []
    for one in _records(figures, "collectives"):
        said = one.entries
        count, mean = said.get("calls"), said.get("mean_ns")
        if not isinstance(count, int) or not isinstance(mean, int | float):
            one.fail(None, "not a collective", found=said, expected="calls and mean_ns")
        size = said.get("size_bytes")
        size = size_text(size) if isinstance(size, int) else "?"
        found.append(Counted(f"{said.get('type')}, {size} on {said.get('members')} ranks", count, float(mean)))
    return found


def _facts_of_simulation(figures: Section, ranks: int) -> dict[str, str]:
    said = figures.entries
    algorithms = {str(one.entries.get("algorithm")) for one in _records(figures, "collectives")}
    moved = said.get("message_bytes")
    return {
        "ranks": f"{ranks:,}",
        "network model": str(said.get("network_model") or said.get("congestion")),
        "algorithms of collectives": ", ".join(sorted(algorithms)) or "none",
        "messages": f"{said.get('messages'):,}" if isinstance(said.get("messages"), int) else "?",
        "bytes moved": size_text(moved) if isinstance(moved, int) else "?",
        "replayed": str(said.get("replay") or "no"),
    }


# -- estimates ---------------------------------------------------------------------------------------------------------


def estimate_side(figures: Section) -> Side:
    """The parts of the slowest rank. Raises InputError."""
    below = figures.below("parts_s", ("matrices", "comm_dp", "..."))
    groups: dict[str, list[Part]] = {name: [] for name in (COMPUTE, COMMUNICATION, WAITING, IDLE)}
    for name in below.entries:
        ns = _seconds(below, name)
        moving = name.startswith(("comm_", "exposed_comm"))
        group = COMMUNICATION if moving else _OF_ESTIMATE.get(name, COMPUTE)
        groups[group].append(Part(name.removeprefix("comm_") if moving else _SPELT.get(name, name), ns))
    said = figures.entries
    facts = {label: _fact(name, said[name]) for name, label in _FACTS.items() if said.get(name) is not None}
    rank = said.get("slowest_rank")
    return Side(
        source=figures.file,
        kind=ESTIMATE,
        what=f"rank {rank}, which computes longest" if isinstance(rank, int) else "the rank that computes longest",
        rank=rank if isinstance(rank, int) else 0,
        groups={name: Told(_ESTIMATED_BY.get(name, "roles"), tuple(parts)) for name, parts in groups.items()},
        facts=facts,
    )  # fmt: skip


_SPELT: Final = {
    "waiting": "for other ranks, role unknown",
    "bubble": "bubble: messages that have not been sent",
    "other_compute": "other compute",
    "state_space": "state space",
    "host": "host only",
}
_ESTIMATED_BY: Final = {COMPUTE: "parts of a layer", WAITING: "reasons", IDLE: "what the host does"}
_FACTS: Final = {"model": "model", "machine": "machine", "split": "split", "gpus": "ranks", "tokens": "tokens",
                 "mfu": "MFU", "memory_bytes": "memory"}  # fmt: skip


def _fact(name: str, value: Any) -> str:
    if isinstance(value, float):
        return percent_text(value)
    if isinstance(value, int):
        return size_text(value) if name.endswith("_bytes") else f"{value:,}"
    return str(value)


# -- values ------------------------------------------------------------------------------------------------------------


def _times(section: Section, key: str) -> list[int]:
    """A list of times by rank."""
    if key not in section:
        section.fail(key, "the key is missing", expected="times by rank, in ns", remedy="write the JSON again")
    listed = section.sequence(key, "times by rank, in ns")
    for index, value in enumerate(listed):
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST:
            section.fail((key, index), "not a time", found=value, expected="nanoseconds, 0 or more")
    return [int(value) for value in listed]  # type: ignore[call-overload]


def _seconds(section: Section, key: str) -> int:
    """Seconds as ns."""
    value = section.entries[key]
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value * 1e9 < _MOST:
        section.refuse(key, "not a time", "seconds, 0 or more")
    return round(value * 1e9)


def _records(section: Section, key: str) -> list[Section]:
    """A list of mappings; none where there is nothing."""
    if section.entries.get(key) is None:
        return []
    below = section.listing(key, "a list")
    return [below.below(index, ("...",)) for index in below.entries]


def _at(section: Section, key: str, rank: int) -> int:
    listed = _times(section, key)
    if rank >= len(listed):
        section.fail(key, "a list by rank is too short", found=len(listed), expected=f"more than {rank}")
    return listed[rank]

"""Which host trace belongs to which device trace, and to which rank. Pure: works on facts about files."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from chakrasim.diagnosis.checks.findings import Finding, Severity
from chakrasim.diagnosis.files.names import NameFacts, read_name
from chakrasim.diagnosis.files.sniff import FileFacts, FileKind, tail_rank


@dataclass(frozen=True)
class RankFiles:
    """The traces of one rank. At least one of ``host`` and ``device`` is there.

    ``paired_by`` and ``rank_from`` say how it is known: "process id", "the names", "distributedInfo", "the order", "the
    map file"; ``paired_by`` is "" where one side is missing.
    """

    rank: int
    host: Path | None
    device: Path | None
    paired_by: str = ""
    rank_from: str = ""


@dataclass(frozen=True)
class _Known:
    """A trace file with what its content and its name say."""

    facts: FileFacts
    name: NameFacts

    @property
    def path(self) -> Path:
        return self.facts.path


Pair = tuple[_Known | None, _Known | None, str]


def as_rank(rank: int, host: FileFacts | None, device: FileFacts | None, paired_by: str, rank_from: str) -> RankFiles:
    """`RankFiles` of facts."""
    paired = paired_by if host is not None and device is not None else ""
    return RankFiles(rank, host.path if host else None, device.path if device else None, paired, rank_from)


def pair(facts: Iterable[FileFacts]) -> tuple[list[RankFiles], list[Finding]]:
    """The ranks, ascending, and what is doubtful about them."""
    known = [_Known(fact, read_name(fact.path.name)) for fact in facts if fact.kind in (FileKind.HOST, FileKind.DEVICE)]
    known = [_without_pid_as_rank(file) for file in known]
    findings = [finding for file in known for finding in _misnamed(file)]
    hosts = _numbered_series([file for file in known if file.facts.kind is FileKind.HOST])
    devices = _numbered_series([file for file in known if file.facts.kind is FileKind.DEVICE])
    if len(devices) > 1:
        devices = [_with_tail(file) for file in devices]
    pairs = _pairs(hosts, devices, findings)
    ranks = _ranks(pairs, findings)
    return _unique(ranks, findings), findings


def _without_pid_as_rank(file: _Known) -> _Known:
    if file.name.rank >= 0 and file.name.rank == file.facts.pid and file.name.rank > 999:
        return replace(file, name=replace(file.name, rank=-1, pid=file.facts.pid))
    return file


def _numbered_series(files: list[_Known]) -> list[_Known]:
    """Take a number at the end of a name for the rank where several names differ in nothing else."""
    series = Counter(file.name.series for file in files if file.name.number >= 0)
    return [
        replace(file, name=replace(file.name, rank=file.name.number))
        if file.name.number >= 0 and series[file.name.series] > 1
        else file
        for file in files
    ]


def _with_tail(file: _Known) -> _Known:
    """Look behind the events for the rank, if neither the head nor the name has it."""
    if file.facts.rank >= 0 or file.name.rank >= 0:
        return file
    return replace(file, facts=tail_rank(file.facts))


def _misnamed(file: _Known) -> list[Finding]:
    """A finding for a host trace named as a device trace, or the other way round."""
    side = "host" if file.facts.kind is FileKind.HOST else "device"
    if file.name.side in ("", side):
        return []
    rank = file.name.rank
    host, device = (file.facts, None) if file.name.side == "host" else (None, file.facts)
    return [swapped(rank, host, device)]


def swapped(rank: int, host: FileFacts | None, device: FileFacts | None) -> Finding:
    """The finding for files given (or named) as the other side; ``host`` is what was given as the host trace."""
    parts = [f"{fact.path.name} is a {fact.kind.value}" for fact in (host, device) if fact is not None]
    return Finding(
        "swapped",
        Severity.WARNING,
        f"{' and '.join(parts)}, unlike what its name or the map says",
        "host and device trace are swapped; they are taken for what they are",
        "rename the files (or correct the map): host traces come from ExecutionTraceObserver, device traces from "
        "export_chrome_trace",
        ranks=(rank,) if rank >= 0 else (),
        files=tuple(fact.path.name for fact in (host, device) if fact is not None),
    )


# -- pairs -------------------------------------------------------------------------------------------------------------


def _pairs(hosts: list[_Known], devices: list[_Known], findings: list[Finding]) -> list[Pair]:
    pairs: list[Pair] = []
    left = (hosts, devices)
    for how, keys in (
        ("process id", (lambda host: host.facts.pid, lambda device: device.facts.pid)),
        ("process id", (lambda host: host.facts.pid, lambda device: device.name.pid)),
        ("the names", (lambda host: host.name.rank, lambda device: device.name.rank)),
        ("the names", (lambda host: host.name.rank, lambda device: device.facts.rank)),
    ):
        found, left = _match(*left, *keys, how)
        pairs += found
    found, left = _in_order(*left, findings)
    pairs += found
    findings += [finding for host, device, how in pairs for finding in _contradicted(host, device, how)]
    rest_hosts, rest_devices = left
    return pairs + [(host, None, "") for host in rest_hosts] + [(None, device, "") for device in rest_devices]


def _match(
    hosts: list[_Known],
    devices: list[_Known],
    host_key: Callable[[_Known], int],
    device_key: Callable[[_Known], int],
    how: str,
) -> tuple[list[Pair], tuple[list[_Known], list[_Known]]]:
    """Pairs of equal keys that occur once on either side; the rest."""
    by_key: dict[int, tuple[list[_Known], list[_Known]]] = defaultdict(lambda: ([], []))
    for host in hosts:
        by_key[host_key(host)][0].append(host)
    for device in devices:
        by_key[device_key(device)][1].append(device)
    pairs: list[Pair] = [
        (mine[0], theirs[0], how)
        for key, (mine, theirs) in by_key.items()
        if key >= 0 and len(mine) == 1 and len(theirs) == 1
    ]
    taken = {id(file) for host, device, _ in pairs for file in (host, device)}
    return pairs, ([f for f in hosts if id(f) not in taken], [f for f in devices if id(f) not in taken])


def _in_order(
    hosts: list[_Known], devices: list[_Known], findings: list[Finding]
) -> tuple[list[Pair], tuple[list[_Known], list[_Known]]]:
    """Pair what is left by order where as many hosts as devices are left and nothing speaks against it."""
    one = len(hosts) == len(devices) == 1
    silent = all(file.name.rank < 0 for file in hosts) or all(
        file.name.rank < 0 and file.facts.rank < 0 for file in devices
    )
    if not hosts or len(hosts) != len(devices) or not (one or silent):
        return [], (hosts, devices)
    if not one:
        findings.append(
            Finding(
                "paired-by-order",
                Severity.WARNING,
                f"nothing tells which of {len(hosts)} host traces belongs to which device trace",
                "they are paired in the order of their names, which may be wrong",
                "name them host.RANK.json and device.RANK.json, or give a map",
                files=tuple(file.path.name for file in (*hosts, *devices)),
            )
        )
    how = "being the only ones" if one else "the order"
    return [(host, device, how) for host, device in zip(hosts, devices, strict=True)], ([], [])


def _contradicted(host: _Known | None, device: _Known | None, how: str) -> list[Finding]:
    """A finding if the names of a pair state different ranks."""
    if host is None or device is None:
        return []
    ranks = host.name.rank, device.name.rank
    if min(ranks) < 0 or ranks[0] == ranks[1]:
        return []
    return [
        Finding(
            "pair-contradicts-names",
            Severity.WARNING,
            f"{host.path.name} and {device.path.name} belong together by {how}, but their names state ranks "
            f"{ranks[0]} and {ranks[1]}",
            f"they are paired by {how}",
            "rename the files, or give a map",
            files=(host.path.name, device.path.name),
            evidence={"host_name_rank": ranks[0], "device_name_rank": ranks[1]},
        )
    ]


# -- ranks -------------------------------------------------------------------------------------------------------------


def _ranks(pairs: list[Pair], findings: list[Finding]) -> list[tuple[RankFiles, Pair]]:
    stated = [device.facts.rank if device else -1 for _, device, _ in pairs]
    named = [_named_rank(host, device) for host, device, _ in pairs]
    # One rank stated by several files while their names differ: the statement was copied along, the names count.
    repeated = {rank for rank, count in Counter(stated).items() if rank >= 0 and count > 1}
    chosen: list[tuple[int, str]] = []
    for pair_, info, name in zip(pairs, stated, named, strict=True):
        trusted = info >= 0 and not (info in repeated and name >= 0)
        if info >= 0 and name >= 0 and info != name:
            findings.append(_rank_contradiction(pair_, info, name, trusted))
        rank = info if trusted else name
        chosen.append((rank, "distributedInfo" if trusted else "the names" if name >= 0 else ""))
    free = iter(sorted(set(range(len(pairs))) - {rank for rank, _ in chosen}))
    order = sorted(range(len(pairs)), key=lambda number: _order_key(pairs[number]))
    unknown = [number for number in order if chosen[number][0] < 0]
    for number in unknown:
        chosen[number] = (next(free), "the order")
    if unknown and len(pairs) > 1:
        findings.append(_rank_guessed([pairs[number] for number in unknown]))
    return [
        (as_rank(rank, _facts(host), _facts(device), how, source), (host, device, how))
        for (rank, source), (host, device, how) in zip(chosen, pairs, strict=True)
    ]


def _facts(file: _Known | None) -> FileFacts | None:
    return None if file is None else file.facts


def _named_rank(host: _Known | None, device: _Known | None) -> int:
    for file in (device, host):
        if file is not None and file.name.rank >= 0:
            return file.name.rank
    return -1


def _order_key(pair_: Pair) -> str:
    host, device, _ = pair_
    return str((device or host).path) if device or host else ""  # type: ignore[union-attr]


def _rank_contradiction(pair_: Pair, info: int, name: int, trusted: bool) -> Finding:
    device = pair_[1]
    assert device is not None
    file = device.path.name
    return Finding(
        "rank-contradiction",
        Severity.WARNING,
        f"the name of {file} says rank {name}, its distributedInfo says rank {info}",
        f"rank {info if trusted else name} is taken"
        + ("" if trusted else ", because several files state the same rank but are named differently"),
        "rename the file, or give a map",
        ranks=(info if trusted else name,),
        files=(file,),
        evidence={"name_rank": name, "stated_rank": info},
    )


def _rank_guessed(pairs: list[Pair]) -> Finding:
    files = tuple(file.path.name for host, device, _ in pairs for file in (host, device) if file is not None)
    return Finding(
        "rank-guessed",
        Severity.WARNING,
        f"neither the files nor their names say the rank of {len(pairs)} of the traces",
        "they are numbered in the order of their names, which may be wrong",
        "export after torch.distributed.init_process_group, name the files host.RANK.json and device.RANK.json, or "
        "give a map",
        files=files,
    )


def _unique(ranks: list[tuple[RankFiles, Pair]], findings: list[Finding]) -> list[RankFiles]:
    """One entry for each rank: the fullest, then the first by name; the others become findings."""
    by_rank: dict[int, list[tuple[RankFiles, Pair]]] = defaultdict(list)
    for entry in ranks:
        by_rank[entry[0].rank].append(entry)
    kept: list[RankFiles] = []
    for rank in sorted(by_rank):
        entries = sorted(by_rank[rank], key=lambda entry: (entry[0].paired_by == "", _order_key(entry[1])))
        merged = _merge_halves(entries)
        kept.append(merged or entries[0][0])
        if merged is None and len(entries) > 1:
            findings.append(_duplicate(rank, [entry[0] for entry in entries]))
    return kept


def _merge_halves(entries: list[tuple[RankFiles, Pair]]) -> RankFiles | None:
    """A lone host and a lone device trace of the same rank are a pair after all."""
    if len(entries) != 2 or any(entry[0].paired_by for entry in entries):
        return None
    (first, _), (second, _) = entries
    host, device = first.host or second.host, first.device or second.device
    if host is None or device is None:
        return None
    return RankFiles(first.rank, host, device, "the rank", f"{second.rank_from or first.rank_from}")


def _duplicate(rank: int, entries: list[RankFiles]) -> Finding:
    files = tuple(path.name for entry in entries for path in (entry.host, entry.device) if path is not None)
    used = " and ".join(path.name for path in (entries[0].host, entries[0].device) if path is not None)
    return Finding(
        "duplicate-rank",
        Severity.ERROR,
        f"{len(entries)} traces are of rank {rank}: {', '.join(files[:6])}{', ...' if len(files) > 6 else ''}",
        f"only {used} would be used, and which one is meant is a guess",
        "leave one trace of each rank in the folder, or give a map",
        ranks=(rank,),
        files=files,
        evidence={"traces": len(entries)},
    )

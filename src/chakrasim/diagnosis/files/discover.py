"""Finding the host and the device trace of every rank in a folder."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chakrasim.diagnosis.checks.findings import Finding, Severity
from chakrasim.diagnosis.files import pairing
from chakrasim.diagnosis.files.names import copies_of_profiles
from chakrasim.diagnosis.files.pairing import RankFiles
from chakrasim.diagnosis.files.sniff import FileFacts, FileKind, sniff
from chakrasim.errors import InputError
from chakrasim.files.storage import read_bytes
from chakrasim.notes import Notes, lists_too
from chakrasim.text.amounts import some_of

__all__ = ["RankFiles", "Survey", "discover", "require_ranks", "survey"]

_MOST_FILES = 100_000
_MOST_MAP_BYTES = 1 << 25


@dataclass(frozen=True)
class Survey:
    """What a folder holds.

    Attributes
    ----------
    directory: the folder.
    ranks: the files of each rank, ascending.
    ignored: files that are no traces of the profiler, and why, in order of their names.
    findings: what is doubtful about ranks and pairs.
    """

    directory: Path
    ranks: tuple[RankFiles, ...]
    ignored: tuple[tuple[Path, str], ...]
    findings: tuple[Finding, ...]


@lists_too
def discover(
    directory: str | os.PathLike[str],
    *,
    map_file: str | os.PathLike[str] | None = None,
    notes: Notes | None = None,
) -> list[RankFiles]:
    """The host and device trace of every rank in ``directory`` (a folder with its sub-folders, or one file), by rank.

    Files are told apart by what is in them. A host and a device trace belong together by their process id, else by
    their names, else by their order; the rank is that of ``distributedInfo``, else of the names, else the order.
    ``map_file`` (JSON, ``{"0": {"host": "h.json", "device": "d.json"}}``, paths from ``directory``) says it instead.
    What is doubtful is appended to ``notes``.

    Raises InputError for a folder without traces, one that cannot be listed, and for a wrong ``map_file``.
    """
    found = survey(directory, map_file=map_file)
    if notes is not None:
        notes.warn(*(str(finding) for finding in found.findings if finding.severity > Severity.NOTE))
    return list(require_ranks(found, directory))


def require_ranks(found: Survey, directory: str | os.PathLike[str]) -> tuple[RankFiles, ...]:
    """The ranks that were found in ``directory``. Raises InputError where there are none."""
    if not found.ranks:
        raise InputError(
            "this is no trace of the PyTorch profiler"
            if Path(directory).is_file()
            else "there are no traces of the PyTorch profiler in this folder",
            file=directory,
            found=_listed(found.ignored),
            expected="host traces (ExecutionTraceObserver) or device traces (Kineto), plain or gzip",
            remedy="name the folder of the traces; unpack archives first",
        )
    return found.ranks


def survey(directory: str | os.PathLike[str], *, map_file: str | os.PathLike[str] | None = None) -> Survey:
    """As `discover`, with everything that was seen; a folder without traces gives no ranks. ``directory`` may also be
    one file, which is then all that there is."""
    root = Path(directory)
    alone = root.is_file()
    if map_file is not None and alone:
        raise InputError("a map is for a folder of traces", file=root, found="a file", remedy="name the folder")
    if map_file is not None:
        return _mapped(root, Path(map_file))
    listed = [root] if alone else _listing(root)
    copies = copies_of_profiles(listed)
    facts = [sniff(path) for path in listed if path not in copies]
    ranks, findings = pairing.pair(facts)
    why_not = {fact.path: _why(fact) for fact in facts if fact.kind not in (FileKind.HOST, FileKind.DEVICE)}
    why_not |= dict.fromkeys(copies, "the events of the *.xplane.pb beside it")
    ignored = tuple((path, why_not[path]) for path in listed if path in why_not)
    archives = [path.name for path, why in ignored if "unpack" in why]
    if archives:
        findings.append(
            Finding(
                "archive",
                Severity.WARNING,
                f"{some_of(archives, 3)}: packed files are not looked into",
                "traces in them are left out",
                "unpack them first",
                files=tuple(archives),
            )
        )
    return Survey(root.parent if alone else root, tuple(ranks), ignored, tuple(findings))


def _listing(root: Path) -> list[Path]:
    """The files of the folder and of its sub-folders, in order of their names; hidden ones left out."""
    try:
        entries = sorted(root.iterdir())
        folders = [entry for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
        entries += [path for folder in folders for path in sorted(folder.iterdir())]
    except (OSError, ValueError) as fault:
        text = getattr(fault, "strerror", None) or str(fault)
        remedy = "name a folder of traces"
        raise InputError(f"the folder cannot be listed: {text}", file=root, remedy=remedy) from None
    files = [path for path in entries if path.is_file() and not path.name.startswith(".")]
    if len(files) > _MOST_FILES:
        raise InputError(
            "there are too many files", file=root, found=f"{len(files):,}", remedy="name the folder of the traces"
        )
    return files


def _why(fact: FileFacts) -> str:
    reasons = {
        FileKind.LINKED: "a linked trace, an output of linking",
        FileKind.JOINED: "a linked trace, an output of linking",
        FileKind.CHAKRA: "a Chakra trace, an output of converting",
    }
    return reasons.get(fact.kind) or fact.note or "no trace"


def _listed(ignored: tuple[tuple[Path, str], ...]) -> str:
    if not ignored:
        return "no files"
    shown = "; ".join(f"{path.name} ({why})" for path, why in ignored[:4])
    return shown + (f" and {len(ignored) - 4} more" if len(ignored) > 4 else "")


# -- the map file ------------------------------------------------------------------------------------------------------


def _mapped(root: Path, map_file: Path) -> Survey:
    ranks: list[RankFiles] = []
    findings: list[Finding] = []
    for rank, sides in _read_map(map_file):
        given = {side: sniff(_given(root, name, map_file, rank, side)) for side, name in sides.items()}
        host, device = given.get("host"), given.get("device")
        if _swapped(host, device):
            findings.append(pairing.swapped(rank, host, device))
            host, device = device, host
        for fact, kind, side in ((host, FileKind.HOST, "host"), (device, FileKind.DEVICE, "device")):
            if fact is not None and fact.kind is not kind:
                raise InputError(
                    f"this is no {kind.value}",
                    file=map_file,
                    place=f'$["{rank}"].{side}',
                    found=f"{fact.path}: {_why(fact) if fact.kind is FileKind.OTHER else f'a {fact.kind.value}'}",
                    expected=f"a {kind.value}",
                    remedy="name another file",
                )
        ranks.append(pairing.as_rank(rank, host, device, "the map file", "the map file"))
    return Survey(root, tuple(sorted(ranks, key=lambda files: files.rank)), (), tuple(findings))


def _swapped(host: FileFacts | None, device: FileFacts | None) -> bool:
    return (host is not None and host.kind is FileKind.DEVICE and (device is None or device.kind is FileKind.HOST)) or (
        device is not None and device.kind is FileKind.HOST and host is None
    )


def _given(root: Path, name: str, map_file: Path, rank: int, side: str) -> Path:
    path = root / name
    if "\0" in name or not path.is_file():
        raise InputError(
            "there is no such file",
            file=map_file,
            place=f'$["{rank}"].{side}',
            found=repr(name),
            expected=f"a file, as seen from {root}",
            remedy="correct the name",
        )
    return path


def _read_map(map_file: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        document = json.loads(read_bytes(str(map_file), _MOST_MAP_BYTES, "a map of ranks to files"))
    except (ValueError, RecursionError) as fault:
        raise InputError(f"the map is no JSON: {fault}", file=map_file, expected=_MAP_FORM) from None
    if not isinstance(document, dict) or not document:
        raise _wrong(map_file, "$", document, "an object with a key for each rank")
    ranks: list[tuple[int, dict[str, str]]] = []
    for key, sides in document.items():
        if not (key.isascii() and key.isdigit() and len(key) < 10) or (len(key) > 1 and key[0] == "0"):
            raise _wrong(map_file, "$", key, "ranks as keys: 0, 1, 2, ...")
        place = f'$["{key}"]'
        if not isinstance(sides, dict) or not sides or not sides.keys() <= {"host", "device"}:
            raise _wrong(map_file, place, sides, "an object with host, device or both")
        for side, name in sides.items():
            if not isinstance(name, str) or not name:
                raise _wrong(map_file, f"{place}.{side}", name, "the name of a file")
        ranks.append((int(key), dict(sides)))
    return ranks


_MAP_FORM = '{"0": {"host": "HOST.json", "device": "DEVICE.json"}, "1": ...}'


def _wrong(map_file: Path, place: str, found: Any, expected: str) -> InputError:
    shown = json.dumps(found)
    shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
    remedy = f"write {_MAP_FORM}"
    return InputError("the map is wrong", file=map_file, place=place, found=shown, expected=expected, remedy=remedy)

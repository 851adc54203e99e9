"""Jobs on disk: ``PREFIX.ranks.json`` says which rank runs which of the traces ``PREFIX.class-I.et``, and who is in
which process group; or, expanded for other tools, one trace per rank and the groups in ASTRA-sim's form.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.files import storage
from chakrasim.files.outputs import write_together
from chakrasim.notes import Notes, lists_too
from chakrasim.text.amounts import some_of
from chakrasim.trace.chakra.encode import encode_trace
from chakrasim.trace.chakra.files import read_trace
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.expand import expanded
from chakrasim.trace.job.groups import check_groups, check_job, number_groups, wrong
from chakrasim.trace.job.job import Job, Parameter

FORMAT: Final = "chakrasim-ranks-1"
RANKS_ENDING: Final = ".ranks.json"
GROUPS_ENDING: Final = ".comm_group.json"
PARAMETERS_ENDING: Final = ".parameters.json"
_MEANS_A_JOB: Final = (RANKS_ENDING, ".0.et", ".0.et.gz")
MAX_PARAMETERS_BYTES: Final = 1 << 22
_TRACE_NAME: Final = re.compile(r"(class-)?[0-9]+\.et(\.gz)?")
"""Of a job's traces, behind the prefix and a dot."""
_OF_RANKS: Final = re.compile(rf"(.+)({re.escape(RANKS_ENDING)}|\.[0-9]+\.et(\.gz)?)", re.DOTALL)
MAX_RANKS_BYTES: Final = 256 << 20
"""The ranks file of a million ranks in four roles has some 40 MB."""


def ranks_file(prefix: str | os.PathLike[str]) -> str:
    """The name of a job's ranks file; the file itself may be given in place of the prefix."""
    name = os.fspath(prefix)
    return name if name.endswith(RANKS_ENDING) else name + RANKS_ENDING


def is_job(prefix: str | os.PathLike[str]) -> bool:
    """Whether a ranks file lies under this prefix."""
    return os.path.isfile(ranks_file(prefix))


def prefixes_of(given: str | os.PathLike[str]) -> list[str]:
    """The job that a path means, or in order the jobs of a folder and those below it. Raises InputError for a folder
    without any."""
    path = os.fspath(given)
    if not os.path.isdir(path):
        return [path.removesuffix(RANKS_ENDING)]
    found = {
        os.path.join(folder, name.removesuffix(end)) for folder, _, files in os.walk(path, onerror=_unlisted)
        for name in files for end in _MEANS_A_JOB if name.endswith(end)
    }  # fmt: skip
    if not found:
        raise InputError("there is no job in the folder", file=path,
                         found=some_of(sorted(os.listdir(path)), 5) or "an empty folder",
                         expected="PREFIX.ranks.json or PREFIX.0.et, PREFIX.1.et, ...",
                         remedy="name the folder of the jobs, or a prefix")  # fmt: skip
    return sorted(found)


def _unlisted(fault: OSError) -> None:
    raise InputError(f"the folder cannot be listed: {fault.strerror}", file=fault.filename,
                     remedy="name the folder of the jobs, or a prefix")  # fmt: skip


# -- reading -----------------------------------------------------------------------------------------------------------


@lists_too
def read_job(
    prefix: str | os.PathLike[str],
    *,
    ranks: int | None = None,
    lenient: bool = False,
    notes: Notes | None = None,
    max_bytes: int | None = None,
) -> Job:
    """The job of ``PREFIX.ranks.json``, each of its traces read once.

    ``ranks`` is the expected number of ranks. ``max_bytes`` bounds the memory that reading each trace takes;
    ``lenient`` is as in `parse_trace`. An InputError names the place in the ranks file, or the node of a trace, that is
    at fault.
    """
    notes = Notes() if notes is None else notes
    source = ranks_file(prefix)
    content = _load(source)
    if ranks is not None and ranks != content["ranks"]:
        raise wrong(source, "$.ranks", "not the number of ranks that was asked for", content["ranks"], f"{ranks}")
    ranks = int(content["ranks"])
    files = _file_names(content["files"], ranks, source)
    which = _file_of_rank(content["file_of_rank"], ranks, len(files), source)
    groups = _process_groups(content["process_groups"], ranks, source)
    unused = sorted(set(range(len(files))) - set(np.unique(which).tolist()))
    if unused:
        notes.warn(f"{source}: no rank runs {files[unused[0]]}" + (f" and {len(unused) - 1} more" * (len(unused) > 1)))
    first = source[: -len(RANKS_ENDING)] + ".0.et"
    if os.path.exists(first) or os.path.exists(first + ".gz"):
        notes.warn(f"{source} is used; the traces by rank under the same prefix ({first}, ...) are not")
    traces = []
    for index, name in enumerate(files):
        path = os.path.join(os.path.dirname(source), name)
        if not os.path.isfile(path):
            raise wrong(source, f"$.files[{index}]", "there is no such file", path, "the trace beside the ranks file")
        traces.append(read_trace(path, lenient=lenient, notes=notes, max_bytes=max_bytes))
    job = Job(tuple(traces), which, groups, checked_parameters(content.get("parameters", {}), source, "$.parameters"))
    check_job(job, source)
    return job


def read_expanded(
    prefix: str | os.PathLike[str], ranks: int | None, lenient: bool, notes: Notes, max_bytes: int | None
) -> list[Trace]:
    """One trace per rank of a job, for those that know nothing of shared traces: what `chakrasim.trace.read` gives."""
    job = read_job(prefix, lenient=lenient, notes=notes, max_bytes=max_bytes)
    if ranks is not None and ranks > job.ranks:
        message = "the job has fewer ranks than were asked for"
        raise InputError(message, file=ranks_file(prefix), found=f"{job.ranks} ranks", expected=f"{ranks}")
    if ranks is not None and ranks < job.ranks:
        notes.warn(f"{ranks_file(prefix)}: left out {job.ranks - ranks} ranks: only {ranks} were asked for")
    return list(islice(expanded(job, number_groups(job)), ranks))


def _load(source: str) -> dict[str, Any]:
    """The ranks file's content with its fields' types checked."""
    raw = storage.read_bytes(source, MAX_RANKS_BYTES, "a ranks file")
    try:
        content = json.loads(raw, object_pairs_hook=_no_repeats)
    except RecursionError:
        raise wrong(source, None, "the ranks file is nested too deeply", None, "a ranks file") from None
    except _Repeated as repeated:
        raise wrong(source, None, "a key is there twice", str(repeated), "every key once") from None
    except UnicodeDecodeError as fault:
        raise wrong(source, f"byte {fault.start}", "the ranks file is no text", None, "JSON in UTF-8") from None
    except json.JSONDecodeError as fault:
        place, message = f"line {fault.lineno} column {fault.colno}", f"the ranks file is no JSON: {fault.msg}"
        raise wrong(source, place, message, None, "a ranks file") from None
    except ValueError as fault:
        raise wrong(source, None, f"the ranks file is no JSON: {str(fault)[:80]}", None, "a ranks file") from None
    if not isinstance(content, dict):
        raise wrong(source, "$", "not a ranks file", _shown(content), "an object")
    if content.get("format") != FORMAT:
        raise wrong(source, "$.format", "not the format of ranks files", _shown(content.get("format")), repr(FORMAT))
    content.setdefault("process_groups", {})
    for key, kind, name in (
        ("ranks", int, "a number of ranks"),
        ("files", list, "a list of file names"),
        ("file_of_rank", list, "a list of indices in files"),
        ("process_groups", dict, "an object"),
    ):
        if key not in content:
            raise wrong(source, f"$.{key}", "the field is missing", ", ".join(map(repr, content)), name)
        if not isinstance(content[key], kind) or isinstance(content[key], bool):
            raise wrong(source, f"$.{key}", f"not {name}", _shown(content[key]), name)
    if not 1 <= content["ranks"] < 1 << 31:
        raise wrong(source, "$.ranks", "not a number of ranks", content["ranks"], "1 to 2^31 - 1")
    return content


class _Repeated(Exception):
    """A key that an object has twice."""


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        seen: set[str] = set()
        raise _Repeated(repr(next(key for key, _ in pairs if key in seen or seen.add(key))))  # type: ignore[func-returns-value]
    return content


def _file_names(files: list[Any], ranks: int, source: str) -> list[str]:
    """Names of files in the folder of the ranks file, or below it."""
    for index, name in enumerate(files):
        place = f"$.files[{index}]"
        if not isinstance(name, str) or not name or "\0" in name:
            raise wrong(source, place, "not a file's name", _shown(name), "text")
        if os.path.isabs(name) or ".." in Path(name).parts:
            raise wrong(source, place, "the file is not beside the ranks file", name, "a name in its folder")
    if len(files) > ranks:
        raise wrong(source, "$.files", "there are more traces than ranks", len(files), f"at most {ranks}")
    if not files:
        raise wrong(source, "$.files", "there are no traces", "[]", "at least one file")
    return files


def _file_of_rank(values: list[Any], ranks: int, files: int, source: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    if len(values) != ranks:
        expected = f"{ranks} indices, as many as ranks"
        raise wrong(source, "$.file_of_rank", "the list has the wrong length", len(values), expected)
    for rank, index in enumerate(values):
        if type(index) is not int or not 0 <= index < files:
            place = f"$.file_of_rank[{rank}]"
            raise wrong(source, place, "there is no such file", _shown(index), f"an index from 0 to {files - 1}")
    return np.array(values, np.int64)


def _process_groups(content: dict[str, Any], ranks: int, source: str) -> dict[str, tuple[tuple[int, ...], ...]]:
    for role, groups in content.items():
        place = f"$.process_groups.{role}"
        if not isinstance(groups, list):
            raise wrong(source, place, "not a list of groups", _shown(groups), "a list of lists of ranks")
        for index, members in enumerate(groups):
            if not isinstance(members, list):
                raise wrong(source, f"{place}[{index}]", "not a group", _shown(members), "a list of ranks")
    check_groups(content, ranks, source)
    return {role: tuple(tuple(members) for members in groups) for role, groups in content.items()}


def checked_parameters(content: object, source: str, place: str = "$") -> dict[str, Parameter]:
    """What a job was made with, objects in objects by dotted names. Raises InputError for what is none."""
    if not isinstance(content, dict):
        raise wrong(source, place, "not the parameters of a job", _shown(content), "an object")
    found: dict[str, Parameter] = {}
    for name, value in content.items():
        if not name:
            raise wrong(source, place, "a parameter has no name", _shown({name: value}), "a name for each")
        if isinstance(value, dict):
            found |= {f"{name}.{key}": one for key, one in checked_parameters(value, source, f"{place}.{name}").items()}
        elif isinstance(value, str) or (isinstance(value, (int, float)) and abs(value) < 1 << 62):
            found[name] = value
        elif value is not None:
            raise wrong(source, f"{place}.{name}", "not a parameter", _shown(value), "a number, true, false or a word")
    return found


def _shown(value: object) -> str:
    return repr(value)[:60]


def read_parameters(prefix: str | os.PathLike[str]) -> dict[str, Parameter]:
    """What ``PREFIX.parameters.json`` says that a job was made with; {} without such a file. Raises InputError."""
    path = os.fspath(prefix).removesuffix(RANKS_ENDING) + PARAMETERS_ENDING
    if not os.path.isfile(path):
        return {}
    try:
        content = json.loads(storage.read_bytes(path, MAX_PARAMETERS_BYTES, "a file of parameters"))
        return checked_parameters(content, path)
    except (ValueError, RecursionError) as fault:
        raise wrong(path, None, f"this is no JSON: {str(fault)[:80]}", None, "an object of parameters") from None


# -- writing -----------------------------------------------------------------------------------------------------------


def check_prefix(prefix: str | os.PathLike[str]) -> None:
    """Raise InputError for what cannot be the beginning of the names of a job's files."""
    name = os.fspath(prefix)
    if name.endswith(RANKS_ENDING):
        remedy = f"give {name.removesuffix(RANKS_ENDING)}"
        raise InputError("this is a ranks file's name, not a prefix", found=repr(name), remedy=remedy)
    if not os.path.basename(name) or "\0" in name:
        message = "this is no prefix of file names"
        raise InputError(message, found=repr(name), expected="a folder and the beginning of names, such as out/job")


def is_file_of_job(prefix: str | os.PathLike[str], path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` has the name of a file that `write_job` writes under this prefix, in the same folder."""
    if os.path.dirname(os.path.realpath(path)) != os.path.dirname(os.path.realpath(prefix)):
        return False
    rest = os.path.basename(path).removeprefix(f"{os.path.basename(prefix)}.")
    named = {ending[1:] for ending in (RANKS_ENDING, GROUPS_ENDING, PARAMETERS_ENDING)}
    return rest in named or _TRACE_NAME.fullmatch(rest) is not None


def write_job(prefix: str | os.PathLike[str], job: Job, *, expand: bool = False, compress: bool = False) -> list[str]:
    """Write a job's files, all or none; returns their names.

    Shared traces become ``PREFIX.class-I.et`` and ``PREFIX.ranks.json``. With ``expand`` every rank gets a trace of its
    own, ``PREFIX.RANK.et``, the groups stand in ``PREFIX.comm_group.json`` and the job's parameters, if it has any, in
    ``PREFIX.parameters.json``; a ranks file and traces of other ranks under that prefix are removed.
    ``compress`` makes ``.et.gz`` of the traces. Raises InputError for a job that makes no sense, or if writing fails.
    """
    (names,) = write_jobs([os.fspath(prefix)], [job], expand=expand, compress=compress)
    return names


def write_jobs(
    prefixes: Sequence[str], jobs: Iterable[Job], *, expand: bool = False, compress: bool = False
) -> list[list[str]]:
    """Write the files of several jobs, as `write_job` does, each under its prefix in one folder: those of all jobs or,
    where one makes no sense or ``jobs`` raises an error on the way, none. Returns the names of each job's."""
    ending, written = ".et.gz" if compress else ".et", _expanded_files if expand else _shared_files
    names: list[list[str]] = []

    def files() -> Iterator[tuple[str, bytes]]:
        for stem, job in zip(prefixes, jobs, strict=True):
            check_job(job)
            check_prefix(stem)
            names.append([])
            for name, data in written(stem, job, ending):
                names[-1].append(name)
                yield name, data

    stems = {os.path.basename(stem) for stem in prefixes}
    write_together(files(), (lambda name: _stem_of(name) in stems) if expand else None)
    return names


def _stem_of(name: str) -> str:
    """The prefix under which a file's name would be read as a job's ranks or as one of them, or ''."""
    found = _OF_RANKS.fullmatch(name)
    return found[1] if found else ""


def _shared_files(stem: str, job: Job, ending: str) -> Iterator[tuple[str, bytes]]:
    names = [f"{stem}.class-{index}{ending}" for index in range(len(job.traces))]
    for name, trace in zip(names, job.traces, strict=True):
        yield name, _encoded(trace, ending)
    content = {
        "format": FORMAT,
        "ranks": job.ranks,
        "files": [os.path.basename(name) for name in names],
        "file_of_rank": np.asarray(job.trace_of_rank).tolist(),
        "process_groups": {role: _listed(groups) for role, groups in job.process_groups.items()},
    }
    if job.parameters:
        content["parameters"] = dict(job.parameters)
    yield stem + RANKS_ENDING, _json(content)


def _expanded_files(stem: str, job: Job, ending: str) -> Iterator[tuple[str, bytes]]:
    groups = number_groups(job)
    last: tuple[Trace, bytes] | None = None
    for rank, trace in enumerate(expanded(job, groups)):
        if last is None or last[0] is not trace:
            last = (trace, _encoded(trace, ending))
        yield f"{stem}.{rank}{ending}", last[1]
    numbers = [str(number) for number in groups.members]
    if job.parameters:
        yield stem + PARAMETERS_ENDING, _json(dict(job.parameters))
    yield stem + GROUPS_ENDING, _json(dict(zip(numbers, _listed(groups.members.values()), strict=True)))


def _encoded(trace: Trace, ending: str) -> bytes:
    data = encode_trace(trace)
    return storage.pack(data) if ending.endswith(".gz") else data


def _listed(groups: Iterable[Sequence[int]]) -> list[list[int]]:
    return [[int(rank) for rank in members] for members in groups]


def _json(content: object) -> bytes:
    return (json.dumps(content) + "\n").encode()

"""Chrome's trace format, which ui.perfetto.dev and chrome://tracing open: JSON.

Times are microseconds with three decimals, which keep every nanosecond.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from chakrasim.report.timeline.events import ArrowEnds, Counter, Process, Track

BATCH = 20_000
"""Slices formatted at a time: what is in memory at once stays small."""


def write_events(processes: Iterable[Process], file: BinaryIO) -> None:
    """Write the document. Same processes, same bytes."""
    file.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
    first = True
    for text in chrome_events(processes):
        file.write((text if first else ",\n" + text).encode())
        first = False
    file.write(b"\n]}\n")


def chrome_events(processes: Iterable[Process]) -> Iterator[str]:
    """Events as JSON text, several to a piece with commas between."""
    named: set[int] = set()
    for process in processes:
        if process.pid not in named:
            named.add(process.pid)
            yield from _named(process.pid, 1, process.name, process.order, "process")
        for track in process.tracks:
            yield from _named(process.pid, track.tid, track.name, track.tid, "thread")
        quoted = {name: json.dumps(name) for name in {*process.names}}
        for track in process.tracks:
            for begin in range(0, len(track.at), BATCH):
                yield _slices(process, track, quoted, begin)
        for counter in process.counters:
            yield from _counts(process.pid, counter)
        for arrows in process.arrows:
            yield from _arrows(process, arrows)


def _named(pid: int, tid: int, name: str, order: int, what: str) -> Iterator[str]:
    """Name and place of a process or a thread."""
    for kind, args in (("name", {"name": name}), ("sort_index", {"sort_index": order})):
        event = {"ph": "M", "name": f"{what}_{kind}", "pid": pid, "tid": tid, "args": args}
        yield json.dumps(event, separators=(",", ":"))


def _slices(process: Process, track: Track, quoted: dict[str, str], begin: int) -> str:
    at = track.at[begin : begin + BATCH]
    start, duration = process.start_ns[at], process.duration_ns[at]
    places = at.tolist()
    args = [process.args[i] for i in places]
    if process.ids is None:
        args = [text[1:] for text in args]
    else:
        args = [f'"id":{id_}{text}' for id_, text in zip(process.ids[at].tolist(), args, strict=True)]
    columns = zip(
        (start // 1000).tolist(),
        (start % 1000).tolist(),
        (duration // 1000).tolist(),
        (duration % 1000).tolist(),
        [quoted[process.names[i]] for i in places],
        args,
        strict=True,
    )
    head = f'{{"ph":"X","pid":{process.pid},"tid":{track.tid},"ts":'
    return ",\n".join(
        f'{head}{us}.{ns:03d},"dur":{dur_us}.{dur_ns:03d},"name":{name},"args":{{{text}}}}}'
        for us, ns, dur_us, dur_ns, name, text in columns
    )


def _counts(pid: int, counter: Counter) -> Iterator[str]:
    head = f'{{"ph":"C","pid":{pid},"tid":1,"ts":'
    name, key = json.dumps(counter.name), json.dumps(counter.unit)
    for time, value in zip(counter.times_ns.tolist(), counter.values.tolist(), strict=True):
        yield f'{head}{micros(time)},"name":{name},"args":{{{key}: {value}}}}}'


def _arrows(process: Process, arrows: ArrowEnds) -> Iterator[str]:
    tid = {int(at): track.tid for track in process.tracks for at in track.at}
    name = json.dumps(arrows.name)
    columns = (arrows.entry, process.start_ns[arrows.entry], arrows.number, arrows.target)
    for entry, start, number, target in zip(*(column.tolist() for column in columns), strict=True):
        phase, bind = ("f", ',"bp":"e"') if target else ("s", "")
        yield (
            f'{{"ph":"{phase}","pid":{process.pid},"tid":{tid[entry]},"ts":{micros(start)},"id":{number},'
            f'"cat":{name},"name":{name}{bind}}}'
        )


def micros(ns: int) -> str:
    """Nanoseconds as microseconds with three decimals."""
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"

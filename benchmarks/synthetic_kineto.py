"""Large Kineto traces for measuring: a real one, repeated with later times and other ids.

Run: ``python benchmarks/synthetic_kineto.py SOURCE TARGET MEGABYTES``.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

#: Arguments that hold ids, and whose number space each is of. 0 means none and stays.
_IDS = {
    "correlation": "correlation",
    "wait_on_cuda_event_record_corr_id": "correlation",
    "External id": "external",
    "external id": "external",
    "Record function id": "function",
}
_ID, _WHOLE, _DECIMAL = range(3)
_HOLE = "\0%d\0"


def write_repeated(source: Path, target: Path, megabytes: float) -> int:
    """Write the trace ``source`` (plain or gzip) to ``target``, plain, again and again until it has so many megabytes.

    Each time ``ts`` is later by the trace's span, and correlation, external, record-function and flow ids are larger by
    their maximum + 1. Returns the number of events.
    """
    raw = source.read_bytes()
    document = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw, parse_float=Decimal)
    events = document.pop("traceEvents")
    template, holes, shifts = _template(events)
    written = 0
    with target.open("w", encoding="utf-8") as file:
        file.write(
            "{\n" + "".join(f'"{name}": {json.dumps(value, default=float)},\n' for name, value in document.items())
        )
        file.write('"traceEvents": [\n')
        while not written or file.tell() < megabytes * 1e6:
            file.write(",\n" if written else "")
            numbers = [_text(value + written * shifts[space], form) for value, space, form in holes]
            file.write("".join(part for pair in zip(template, [*numbers, ""], strict=True) for part in pair))
            written += 1
        file.write("\n]}\n")
    return written * len(events)


def _template(events: list[dict[str, Any]]) -> tuple[list[str], list[tuple[int, str, int]], dict[str, int]]:
    """The text between the numbers that change; each number (times in ns), its space and form; the spaces' shifts."""
    holes: list[tuple[int, str, int]] = []
    largest = {"correlation": 0, "external": 0, "function": 0, "flow": 0}
    first, last = min(event["ts"] for event in events), max(event["ts"] + event.get("dur", 0) for event in events)

    def hole(value: int, space: str, form: int = _ID) -> str:
        holes.append((value, space, form))
        return _HOLE % (len(holes) - 1)

    texts = []
    for event in events:
        event = dict(event)
        form = _DECIMAL if isinstance(event["ts"], Decimal) else _WHOLE
        event["ts"] = hole(int(event["ts"] * 1000), "time", form)
        if isinstance(event.get("id"), int):
            largest["flow"] = max(largest["flow"], event["id"])
            event["id"] = hole(event["id"], "flow")
        args = dict(event.get("args") or {})
        for name, space in _IDS.items():
            if isinstance(args.get(name), int) and args[name] > 0:
                largest[space] = max(largest[space], args[name])
                args[name] = hole(args[name], space)
        if args:
            event["args"] = args
        texts.append(json.dumps(event, default=float))
    parts = re.split(r'"\\u0000(\d+)\\u0000"', ",\n".join(texts))
    ordered = [holes[int(number)] for number in parts[1::2]]
    shifts = {space: value + 1 for space, value in largest.items()}
    shifts["time"] = (int((last - first) * 1000) // 1000 + 1000) * 1000
    return parts[::2], ordered, shifts


def _text(value: int, form: int) -> str:
    """An id as it is; a time as microseconds with three decimals, or with none where the source has none."""
    if form == _ID:
        return str(value)
    return str(value // 1000) if form == _WHOLE else f"{value // 1000}.{value % 1000:03d}"


if __name__ == "__main__":
    print(write_repeated(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])), "events")

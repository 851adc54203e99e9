"""A trace with counters added: queue lengths and copy rates, for trace viewers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from typing import Any

from chakrasim.analysis.bandwidth import bandwidth_series
from chakrasim.analysis.queue_length import queue_series
from chakrasim.analysis.table.traces import RankTrace
from chakrasim.errors import InputError
from chakrasim.files.outputs import write_whole
from chakrasim.files.storage import read_unpacked
from chakrasim.trace.profiles.kinds import refuse_profile


def counter_events(one: RankTrace) -> list[dict[str, Any]]:
    """Counter events ("ph": "C"), in the time of the trace: "Queue Length" with the stream as id, and one counter for
    each kind of copy."""
    events: list[dict[str, Any]] = []
    for row in queue_series([one]).records():
        events.append({"ph": "C", "name": "Queue Length", "pid": row["device"], "id": row["stream"],
                       "ts": row["ts_ns"] / 1000, "args": {"Queue Length": row["length"]}})  # fmt: skip
    for row in bandwidth_series([one]).records():
        events.append({"ph": "C", "name": row["copy"], "pid": row["device"], "ts": row["ts_ns"] / 1000,
                       "args": {"Memcpy BW": row["gbps"]}})  # fmt: skip
    return events


def write_with_counters(traces: Sequence[RankTrace], path: str) -> None:
    """Write the file of a trace, as it is, with the counters at its end; compressed if ``path`` ends with .gz.

    Raises InputError if there are several traces, for another maker's profile, and for a file that is not whole.
    """
    if len(traces) != 1:
        raise InputError("counters are written for one trace", found=f"{len(traces)} traces", remedy="give --rank")
    source = traces[0].kineto.source
    refuse_profile(source, "counters")
    try:
        document = json.loads(read_unpacked(source, expected="a Kineto trace", held=8))
        events = document if isinstance(document, list) else document["traceEvents"]
        events.extend(counter_events(traces[0]))
        text = json.dumps(document, allow_nan=False).encode()
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise InputError("the trace cannot be copied: it is damaged", file=source, found=str(fault)) from None
    write_whole(path, gzip.compress(text, 6, mtime=0) if path.endswith(".gz") else text)

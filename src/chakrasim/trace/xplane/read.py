"""`read_xplane`: a profile of JAX or XLA (an XSpace) as a `KinetoTrace`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from chakrasim.files.inputs import bound
from chakrasim.files.storage import read_bytes, unpack
from chakrasim.notes import Notes
from chakrasim.totals import checked, total
from chakrasim.trace.kineto import columns as k
from chakrasim.trace.kineto.columns import KinetoTrace, RareColumn
from chakrasim.trace.profiles.kinds import XPLANE
from chakrasim.trace.xplane import plane as xp
from chakrasim.trace.xplane import take
from chakrasim.trace.xplane.messages import Decoder, Fields
from chakrasim.trace.xplane.plane import Plane
from chakrasim.trace.xplane.take import Taker

FORMAT: Final = "JAX/XLA profile (xplane)"
_SAID: Final = {
    take.BAD_TIMES: "left out {} events whose times are negative or too large",
    take.TIMELESS: "left out {} events that the profiler counted and did not time",
    take.NAMELESS: "{} events refer to a name that the profile does not have",
    take.OTHERS: "{} events of planes that are neither a host's nor a device's count neither as the host's work nor as "
    "the device's",
}
_NOTED: Final = {
    take.ROUNDED: "{} times finer than a nanosecond were rounded down",
    take.AROUND: "{} operations have others inside (loops, conditions, calls): they name what they contain, and are "
    "not counted as work again",
}


def read_xplane(path: str, *, lenient: bool, notes: Notes) -> KinetoTrace:
    """The events of the profile ``path``, plain or gzip, in the order of the file.

    Begin and end of each event are rounded down to ns: order and nesting stay, and what does not overlap in ps does not
    in ns. All planes are taken as one process, whose number they do not say. Raises InputError for
    damage; ``lenient`` reads each damaged message up to its first fault, and says so.
    """
    raw = read_bytes(path, expected=XPLANE)
    limit = bound(len(raw))
    data = unpack(raw, path, limit, lenient, notes)
    decoder = Decoder(data, path, limit, lenient)
    space = decoder.fields(np.zeros(1, np.int64), np.full(1, len(data), np.int64))
    taker = Taker()
    names = []
    for begin, end in zip(*space.parts(xp.PLANES)[1:], strict=True):
        plane = Plane(decoder, decoder.fields(np.array([begin]), np.array([end])))
        names.append(plane.name)
        taker.take(plane)
    notes.warn(*(f"{path}: the profiler says: {text}" for text in _texts(decoder, space, xp.ERRORS, xp.WARNINGS)))
    if decoder.damaged:
        taker.counts["damaged messages"] = decoder.damaged
        notes.warn(f"{path}: {decoder.damaged} damaged messages were read up to their first fault")
    header: dict[str, Any] = {"format": FORMAT, "hostnames": _texts(decoder, space, xp.HOSTNAMES), "planes": names}
    return _build(taker, path, header, notes)


def _texts(decoder: Decoder, space: Fields, *fields: int) -> list[str]:
    return [decoder.text(a, b) for one in fields for a, b in zip(*space.parts(one)[1:], strict=True)]


def _build(taker: Taker, path: str, header: dict[str, Any], notes: Notes) -> KinetoTrace:
    counts = {name: count for name, count in taker.counts.items() if count}
    notes.warn(*(f"{path}: {text.format(counts[name])}" for name, text in _SAID.items() if name in counts))
    notes.note(*(f"{path}: {text.format(counts[name])}" for name, text in _NOTED.items() if name in counts))
    columns = {
        name: np.concatenate([np.zeros(0, kind), *(part.pop(name) for part in taker.parts)])
        for name, kind in k.COLUMNS.items()
    }
    checked(total(columns["dur_ns"]), "the durations of all events together, in ns,", path)
    nothing = (np.zeros(0, np.int64),) * 2
    at, size = (np.concatenate(side) for side in zip(nothing, *taker.copied, strict=True))
    copied = RareColumn(at.astype(np.int32), np.full(len(at), k.INTEGER, np.uint8), size)
    return KinetoTrace(
        path, taker.texts.table(), rare={"bytes": copied} if len(at) else {}, header=header,
        event_count=taker.events, counts=counts, **columns,
    )  # fmt: skip

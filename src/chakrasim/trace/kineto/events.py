"""Compiled: from the tokens of events (`trace/json/scan.py`) to the rows of a `KinetoTrace`."""

# mypy: disable-error-code="assignment"
# Compiled code knows one integer, of 64 bits; a checker sees Python's and NumPy's.

from __future__ import annotations

from typing import Any, Final

import numpy as np

from chakrasim.jit import inner, kernel, leaf
from chakrasim.trace.json import tokens as js
from chakrasim.trace.json import values as jv
from chakrasim.trace.json.rare import PENDING
from chakrasim.trace.kineto import columns as k

# The keys of the vocabulary, in its order: of the document (the list first), of an event, of its arguments.
DOCUMENT_KEYS: Final = (
    *("traceEvents", "traceName", "displayTimeUnit", "baseTimeNanoseconds", "schemaVersion", "deviceProperties"),
    *("distributedInfo", "record_shapes", "trace_id", "host_name", "otherData", "metadata"),
)
EVENT_KEYS: Final = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args", "")
ARGS_KEYS: Final = (
    *("device", "stream", "correlation", "External id", "external id", "Record function id"),
    *(name for name in k.RARE_ARGS if name not in ("id", "ts text", "dur text")),
)
_FIRST: Final = len(DOCUMENT_KEYS)
PH, CAT, NAME, PID, TID, TS, DUR, ID, ARGS, EVENT_END = range(10)
DEVICE, STREAM, CORRELATION, EXTERNAL, EXTERNAL_SMALL, RF_ID = range(10, 16)
_FIRST_RARE: Final = 16
KEYS: Final = 10 + len(ARGS_KEYS)
_TOP: Final = (1 << DEVICE) - 1

# What becomes of the value of each key: nothing more, its first character, a text, a pid or tid, an integer, a time, a
# rare value.
_NOTHING, _PHASE, _TEXT, _IDENTITY, _WHOLE, _TIME, _RARE = range(7)
_USE: Final = np.full(KEYS, _RARE, np.int64)
_USE[PH], _USE[ARGS], _USE[[CAT, NAME]], _USE[[PID, TID]], _USE[[TS, DUR]] = _PHASE, _NOTHING, _TEXT, _IDENTITY, _TIME
_USE[DEVICE:_FIRST_RARE] = _WHOLE
_FLAG: Final = np.zeros(KEYS, np.int64)
_FLAG[[CAT, NAME, TID, TS, DUR, ARGS]] = k.HAS_CATEGORY, k.HAS_NAME, k.HAS_TID, k.HAS_TS, k.HAS_DUR, k.HAS_ARGS
_FLOAT: Final = np.zeros(KEYS, np.int64)
_FLOAT[[TS, DUR]] = k.TS_IS_FLOAT, k.DUR_IS_FLOAT
#: The rare column of each key.
_RARE_OF: Final = np.zeros(KEYS, np.uint8)
_RARE_OF[[ID, TS, DUR]] = [k.RARE_ARGS.index(name) for name in ("id", "ts text", "dur text")]
for _key, _name in enumerate(ARGS_KEYS[_FIRST_RARE - DEVICE :], _FIRST_RARE):
    _RARE_OF[_key] = k.RARE_ARGS.index(_name)

# Parts of the columns, of the rare values.
(INDEX, PHASE, CATEGORY, NAME_COLUMN, PID_COLUMN, TID_COLUMN, TS_COLUMN, DUR_COLUMN, FLAGS, DEVICE_COLUMN,
 STREAM_COLUMN, CORRELATION_COLUMN, EXTERNAL_COLUMN, RF_COLUMN) = range(14)  # fmt: skip
ROW, RARE_KEY, RARE_KIND, BITS = range(4)

# Slots of ``count`` behind those of the strings: where taking stands, and what is counted.
(ROWS, RARES, TAKEN, SEEN, WORK_ONLY, STRICT_TIMES, BAD_TIMES, ROUNDED, NO_WORK, PYTHON, ODD_VALUES, NO_OBJECT,
 BAD_PLACE, LARGE, NO_CATEGORY) = range(3, 18)  # fmt: skip
COUNT_SIZE: Final = 18

DONE, GROW, BAD_TIME = 0, 1, -50
_PYTHON_FUNCTION: Final = np.frombuffer(b"python_function", np.uint8)


@inner
def _is_python(buf: Any, start: Any, stop: Any) -> Any:
    i = 0
    while i < 15 and stop - start == 15 and buf[start + i] == _PYTHON_FUNCTION[i]:
        i += 1
    return i == 15


@leaf
def _add_rare(row: Any, name: Any, kind: Any, bits: Any, rare: Any, count: Any) -> Any:
    at = count[RARES]
    rare[ROW][at], rare[RARE_KEY][at], rare[RARE_KIND][at], rare[BITS][at] = row, name, kind, bits
    count[RARES] = at + 1


@leaf
def _first_character(buf: Any, kind: Any, start: Any, stop: Any, strings: Any, count: Any) -> Any:
    """The first byte of a text that is not empty."""
    if kind == js.ODD_TEXT:
        jv.decode(buf, start, stop, np.bool_(True), strings[jv.BLOB], count[jv.BYTES])
        return np.int64(strings[jv.BLOB][count[jv.BYTES]])
    return np.int64(buf[start])


@leaf
def _real(buf: Any, kind: Any, start: Any, stop: Any) -> Any:
    """(kind, bits) of a number that is no integer; where Python has to make it of its text, PENDING and its place."""
    number, fine = jv.real(buf, start, stop)
    if kind == js.NON_NUMBER or not fine:
        return np.int64(PENDING), start << 31 | (stop - start)
    return kind, jv.as_bits(number)


@leaf
def _take_values(
    buf: Any, tok: Any, first: Any, last: Any, present: Any, at: Any, vals: Any, rare: Any, strings: Any, count: Any
) -> Any:
    """Put the values of an event into ``vals`` and the rare columns; its flags. ``present``: which keys it has.

    Of several values of a key the last counts, whose token is ``at[key]``.
    """
    row = count[ROWS]
    flags = 0
    for token in range(first, last):
        key = np.int64(tok[js.TOKEN * token + js.KEY]) - _FIRST
        if at[key] != token or present >> key & 1 == 0:
            continue
        kind = np.int64(tok[js.TOKEN * token + js.KIND])
        start, stop = tok[js.TOKEN * token + js.START], tok[js.TOKEN * token + js.STOP]
        use = _USE[key]
        flags |= _FLAG[key]
        is_text = kind in (js.TEXT, js.ODD_TEXT)
        fine, bits = False, 0
        # first without making a text of it
        if use == _TIME:
            flags |= _FLOAT[key] if kind == js.REAL else 0
            fine = vals[key + KEYS] != 0
            count[ROUNDED] += not fine
        elif use == _PHASE:
            fine = True
            if is_text and stop > start:
                bits = _first_character(buf, kind, start, stop, strings, count)
        elif use == _NOTHING:
            fine = True
        elif (kind == js.INTEGER and use != _TEXT) or (use == _WHOLE and kind == js.TEXT):
            bits, fine = jv.integer(buf, start, stop)
            if use == _RARE and not fine:
                count[LARGE] += 1
                is_text = True
        elif use == _RARE and kind in (js.REAL, js.NON_NUMBER):
            kind, bits = _real(buf, kind, start, stop)
            fine = True
        if use == _WHOLE:
            flags |= k.STREAM_IS_TEXT if key == STREAM and is_text else 0
            if not fine or (key == DEVICE and bits > 2147483647):
                count[ODD_VALUES] += 1
                bits = -1
        elif not fine:
            odd = kind in (js.ODD_TEXT, js.ODD_JSON)
            bits = jv.intern_text(buf, start, stop, odd, kind == js.ODD_TEXT, strings, count)
            if use == _IDENTITY:
                count[ODD_VALUES] += kind != js.INTEGER and not is_text
                bits = -2 - bits
                flags |= k.PID_IS_TEXT if key == PID else k.TID_IS_TEXT
            kind = js.TEXT if is_text or use == _TIME else js.JSON
        if use == _RARE or (use == _TIME and not fine):
            _add_rare(row, _RARE_OF[key], kind, bits, rare, count)
        elif use != _TIME:
            vals[key] = bits
    return flags


@inner
def _take_times(buf: Any, tok: Any, present: Any, at: Any, vals: Any) -> Any:
    """Put the nanoseconds of ``ts`` and ``dur`` into ``vals``, and whether they are exact behind; False if one of them
    cannot be used."""
    for key in range(TS, DUR + 1):
        vals[key] = 0
        if present >> key & 1 != 0:
            kind = tok[js.TOKEN * at[key] + js.KIND]
            start, stop = tok[js.TOKEN * at[key] + js.START], tok[js.TOKEN * at[key] + js.STOP]
            if kind != js.INTEGER and kind != js.REAL and not (kind == js.TEXT and jv.is_number(buf, start, stop)):
                return False
            time, exact = jv.nanoseconds(buf, start, stop)
            vals[key] = time
            vals[key + KEYS] = exact
            if time < 0:
                return False
    return True


@leaf
def _write(present: Any, flags: Any, vals: Any, cols: Any, count: Any) -> Any:
    """Write the row of an event."""
    row = count[ROWS]
    cols[INDEX][row] = count[SEEN]
    cols[PHASE][row] = vals[PH] if present >> PH & 1 != 0 else 0
    cols[CATEGORY][row] = vals[CAT] if present >> CAT & 1 != 0 else 0
    cols[NAME_COLUMN][row] = vals[NAME] if present >> NAME & 1 != 0 else 0
    cols[PID_COLUMN][row] = vals[PID] if present >> PID & 1 != 0 else 0
    cols[TID_COLUMN][row] = vals[TID] if present >> TID & 1 != 0 else 0
    cols[TS_COLUMN][row] = vals[TS]
    cols[DUR_COLUMN][row] = vals[DUR]
    cols[FLAGS][row] = flags
    cols[DEVICE_COLUMN][row] = vals[DEVICE] if present >> DEVICE & 1 != 0 else -1
    cols[STREAM_COLUMN][row] = vals[STREAM] if present >> STREAM & 1 != 0 else -1
    cols[CORRELATION_COLUMN][row] = vals[CORRELATION] if present >> CORRELATION & 1 != 0 else -1
    external = EXTERNAL if present >> EXTERNAL & 1 != 0 else EXTERNAL_SMALL
    cols[EXTERNAL_COLUMN][row] = vals[external] if present >> external & 1 != 0 else -1
    cols[RF_COLUMN][row] = vals[RF_ID] if present >> RF_ID & 1 != 0 else -1
    count[ROWS] = row + 1


@leaf
def _has_room(values: Any, size: Any, cols: Any, rare: Any, strings: Any, count: Any) -> Any:
    """Whether the arrays take another event of so many values and bytes."""
    return (
        count[ROWS] < len(cols[INDEX])
        and count[RARES] + values <= len(rare[ROW])
        and 2 * (count[jv.STRINGS] + values) <= len(strings[jv.HASHES])
        and count[jv.STRINGS] + values < len(strings[jv.ENDS])
        and count[jv.BYTES] + 3 * size <= len(strings[jv.BLOB])
    )


@kernel
def take_events(buf: Any, st: Any, tok: Any, cols: Any, rare: Any, strings: Any, count: Any, scratch: Any) -> Any:
    """Append the events that ``tok`` holds, from token ``count[TAKEN]`` on.

    DONE, GROW (an array is too small for the next event), or BAD_TIME (its ``ts`` or ``dur``, at ``count[BAD_PLACE]``,
    cannot be used; only if ``count[STRICT_TIMES]``). ``scratch`` is int64[2, 2 * KEYS].
    """
    at, vals = scratch[0], scratch[1]
    total, first, present = st[js.TOKENS], count[TAKEN], np.int64(0)
    for token in range(first, total):
        key = np.int64(tok[js.TOKEN * token + js.KEY]) - _FIRST
        if key != EVENT_END:
            if key == ARGS:  # the last of several counts
                present &= _TOP
            if (
                key == CAT
                and tok[js.TOKEN * token + js.KIND] != js.TEXT
                and tok[js.TOKEN * token + js.KIND] != js.ODD_TEXT
            ):
                count[ODD_VALUES] += 1
                continue
            present |= 1 << key
            at[key] = token
            continue
        if tok[js.TOKEN * token + js.KIND] != js.RECORD:
            count[NO_OBJECT] += 1
        elif count[WORK_ONLY] != 0 and (present >> DUR & 1 == 0 or present >> CAT & 1 == 0):
            count[NO_WORK] += 1
        elif count[WORK_ONLY] != 0 and _is_python(
            buf, tok[js.TOKEN * at[CAT] + js.START], tok[js.TOKEN * at[CAT] + js.STOP]
        ):
            count[PYTHON] += 1
        else:
            size = tok[js.TOKEN * token + js.STOP] - tok[js.TOKEN * token + js.START]
            if not _has_room(token - first + 4, size, cols, rare, strings, count):
                return GROW
            if _take_times(buf, tok, present, at, vals):
                flags = _take_values(buf, tok, first, token, present, at, vals, rare, strings, count)
                _write(present, flags, vals, cols, count)
            else:
                count[BAD_TIMES] += 1
                if count[STRICT_TIMES] != 0:
                    count[BAD_PLACE] = tok[js.TOKEN * token + js.START]
                    return BAD_TIME
        count[NO_CATEGORY] += present >> DUR & 1 != 0 and present >> CAT & 1 == 0
        count[SEEN] += 1
        first = token + 1
        count[TAKEN] = first
        present = np.int64(0)
    return DONE

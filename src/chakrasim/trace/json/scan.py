"""Compiled scanning of JSON text whose bulk is one list of records (``traceEvents``, ``nodes``).

``scan`` goes over the text once and writes the tokens of its records (`tokens.py`). What they mean is up to the
caller's own kernel. The text may come in windows: a record that is not complete is begun again when there is more.

The grammar is that of JSON. Faults that are known of the profilers and leave no doubt are repaired and counted: a
missing or superfluous comma between records or their members, a control character or a lone backslash in a text. For
any other fault the record is left out and the next one is looked for.
"""

# mypy: disable-error-code="assignment"
# Compiled code knows one integer, of 64 bits; a checker sees Python's and NumPy's.

from __future__ import annotations

from typing import Any

import numpy as np

from chakrasim.jit import inner, kernel
from chakrasim.trace.json import tokens as js
from chakrasim.trace.json.values import index


@inner
def _try_record(buf: Any, pos: Any, end: Any, limit: Any, st: Any, voc: Any, tok: Any, stack: Any) -> Any:
    """As `record`; what it counted stays only if it succeeds."""
    commas, controls, escapes, numbers = st[js.COMMAS], st[js.CONTROLS], st[js.ESCAPES], st[js.NON_FINITE]
    after = js.record(buf, pos, end, limit, st, voc, tok, stack)
    if after < 0:
        st[js.COMMAS], st[js.CONTROLS], st[js.ESCAPES], st[js.NON_FINITE] = commas, controls, escapes, numbers
    elif st[js.REPAIR_POS] < 0 and st[js.COMMAS] + st[js.CONTROLS] + st[js.ESCAPES] != commas + controls + escapes:
        st[js.REPAIR_POS] = st[js.BASE] + pos
    return after


@inner
def _find_record(buf: Any, pos: Any, end: Any, st: Any, voc: Any, tok: Any, stack: Any) -> Any:
    """The position from ``pos`` on where a record begins that can be read and has what every record needs; ``end`` if
    there is none, or where more text is needed to tell. Mode DOCUMENT if the list ends before that.
    """
    while pos < end:
        byte = buf[index(pos)]
        if byte != 123 and byte != 93:
            pos += 1
            continue
        after = js.skip_space(buf, pos + 1)
        if after >= end and st[js.FINAL] == 0:
            return pos
        if byte == 123 and buf[after] == 34:
            count, repair = st[js.TOKENS], st[js.REPAIR_POS]
            commas, controls, escapes, numbers = st[js.COMMAS], st[js.CONTROLS], st[js.ESCAPES], st[js.NON_FINITE]
            after = js.record(buf, pos, end, np.int64(js.PROBE_DEPTH), st, voc, tok, stack)
            found = after == js.NO_ROOM
            for token in range(count, st[js.TOKENS] if after >= 0 else count):
                found = found or voc[js.NEEDED + tok[js.TOKEN * token + js.KEY]] != 0
            st[js.TOKENS], st[js.REPAIR_POS] = count, repair
            st[js.COMMAS], st[js.CONTROLS], st[js.ESCAPES], st[js.NON_FINITE] = commas, controls, escapes, numbers
            if found:
                st[js.MODE] = js.LIST
                return pos
            if after == js.BAD_END and st[js.FINAL] == 0 and end - pos < js.MAX_RECORD_BYTES:
                return pos
        elif byte == 93 and buf[after] == 44:
            after = js.skip_space(buf, after + 1)
            stop = after + 1
            while after < end and js.CLASS[buf[stop]] == 0:
                stop += 1
            if stop >= end and st[js.FINAL] == 0 and stop - pos < 1000:
                return pos
            if after < end and buf[after] == 34 and js.find_key(buf, after + 1, stop, np.int64(0), voc) >= 0:
                st[js.MODE] = js.DOCUMENT
                return pos + 1
        pos += 1
    return end


@inner
def _find_list(buf: Any, pos: Any, end: Any, st: Any, voc: Any) -> Any:
    """The position from ``pos`` on behind the opening bracket of the list of records; ``end`` if there is none."""
    size = np.int64(voc[js.OFFSETS + 1])
    while pos < end:
        if buf[index(pos)] == 34:
            stop = pos + 1 + size
            if stop >= end and st[js.FINAL] == 0:
                return pos
            if stop < end and buf[stop] == 34 and js.find_key(buf, pos + 1, stop, np.int64(0), voc) == 0:
                after = js.skip_space(buf, stop + 1)
                if buf[after] == 58:
                    after = js.skip_space(buf, after + 1)
                if after >= end and st[js.FINAL] == 0:
                    return pos
                if buf[after] == 91:
                    st[js.MODE] = js.LIST
                    return after + 1
        pos += 1
    return end


@inner
def _lose(pos: Any, code: Any, mode: Any, st: Any) -> Any:
    """Note that the text from ``pos`` on is damaged; GO_ON unless the caller of `scan` is to be told."""
    st[js.POS] = pos
    if code == js.BAD_END and st[js.FINAL] == 0:
        if st[js.END] - pos < js.MAX_RECORD_BYTES:
            return js.MORE
        code = js.BAD_SIZE
    if st[js.STRICT] == 0:
        st[js.DAMAGES] += 1
        st[js.LOST_FROM] = st[js.BASE] + pos
        st[js.MODE] = mode
        if mode == js.LOST_RECORD:
            st[js.POS] = min(pos + 1, st[js.END])
    return code if st[js.STRICT] != 0 or st[js.DAMAGES] == 1 else js.GO_ON


@inner
def _repair_comma(pos: Any, wrong: Any, st: Any) -> Any:
    if wrong:
        st[js.COMMAS] += 1
        if st[js.REPAIR_POS] < 0:
            st[js.REPAIR_POS] = st[js.BASE] + pos


@inner
def _document(buf: Any, pos: Any, end: Any, st: Any, voc: Any, stack: Any) -> Any:
    """One step through the members of the document: a code for the caller of `scan`, or GO_ON."""
    byte = buf[index(pos)]
    lost = np.int64(js.LOST_DOCUMENT if st[js.LISTS] == 0 else js.LOST_RECORD)
    if byte == 44:
        if st[js.COMMA] != 0 and st[js.STRICT] != 0:
            return js.BAD_COMMA
        _repair_comma(pos, st[js.COMMA] != 0, st)
        st[js.COMMA] = 1
        st[js.POS] = pos + 1
        return js.GO_ON
    if byte == 125:
        if st[js.COMMA] == 1 and st[js.STRICT] != 0:
            return js.BAD_COMMA
        _repair_comma(pos, st[js.COMMA] == 1, st)
        st[js.MODE] = js.BEHIND
        st[js.POS] = pos + 1
        return js.GO_ON
    if byte != 34:
        return _lose(pos, np.int64(js.BAD_KEY), lost, st)
    if st[js.COMMA] == 0 and st[js.STRICT] != 0:
        return js.BAD_COMMA
    controls, escapes, numbers = st[js.CONTROLS], st[js.ESCAPES], st[js.NON_FINITE]
    start, stop, after, _ = js.value_at(buf, pos, end, stack, np.int64(js.MAX_DEPTH), st)
    key = np.int64(-1)
    if after >= 0:
        key = js.find_key(buf, start, stop, np.int64(0), voc)
        after = js.skip_space(buf, after)
        st[js.ERR_POS] = after
        if buf[after] != 58:
            after = js.BAD_END if after >= end else js.BAD_COLON
    if after >= 0:
        after = js.skip_space(buf, after + 1)
        if key == 0 and buf[after] == 91:
            _repair_comma(pos, st[js.COMMA] == 0, st)
            st[js.MODE], st[js.POS], st[js.COMMA] = js.LIST, after + 1, 2
            st[js.LISTS] += 1
            return js.AGAIN if st[js.LISTS] > 1 else js.GO_ON
        _, _, after, _ = js.value_at(buf, after, end, stack, np.int64(js.MAX_DEPTH), st)
    if after < 0:
        st[js.CONTROLS], st[js.ESCAPES], st[js.NON_FINITE] = controls, escapes, numbers
        return _lose(pos, np.int64(after), lost, st)
    _repair_comma(pos, st[js.COMMA] == 0, st)
    st[js.COMMA] = 0
    st[js.PAIR_START], st[js.PAIR_STOP], st[js.POS] = pos, after, after
    return js.PAIR


@inner
def _element(buf: Any, pos: Any, end: Any, st: Any, voc: Any, tok: Any, stack: Any) -> Any:
    """One step through the list of records: a code for the caller of `scan`, or GO_ON."""
    byte = buf[index(pos)]
    if byte == 44 or byte == 93:
        wrong = st[js.COMMA] == 1 or (byte == 44 and st[js.COMMA] == 2)
        if wrong and st[js.STRICT] != 0:
            return js.BAD_COMMA
        _repair_comma(pos, wrong, st)
        st[js.COMMA] = 1
        st[js.POS] = pos + 1
        if byte == 93:
            st[js.COMMA] = 0
            st[js.MODE] = js.BEHIND if st[js.BARE] != 0 else js.DOCUMENT
        return js.GO_ON
    if byte != 123:
        return _no_object(buf, pos, end, st, voc, tok, stack)
    if st[js.COMMA] == 0 and st[js.STRICT] != 0:
        return js.BAD_COMMA
    after = _try_record(buf, pos, end, np.int64(js.MAX_DEPTH), st, voc, tok, stack)
    if after == js.NO_ROOM:
        return js.FULL if st[js.TOKENS] != 0 else js.GROW
    if after < 0:
        return _lose(pos, np.int64(after), np.int64(js.LOST_RECORD), st)
    _repair_comma(pos, st[js.COMMA] == 0, st)
    st[js.POS] = after
    st[js.COMMA] = 0
    st[js.RECORDS] += 1
    return js.GO_ON


@inner
def _no_object(buf: Any, pos: Any, end: Any, st: Any, voc: Any, tok: Any, stack: Any) -> Any:
    """As `_element`, for an element that is no object: a token that says so."""
    controls, escapes, numbers = st[js.CONTROLS], st[js.ESCAPES], st[js.NON_FINITE]
    _, _, after, _ = js.value_at(buf, pos, end, stack, np.int64(js.MAX_DEPTH), st)
    if after >= 0 and st[js.COMMA] == 0:
        after = js.BAD_COMMA
        st[js.ERR_POS] = pos
    count = st[js.TOKENS]
    is_full = js.TOKEN * (count + 4) >= len(tok)
    if after < 0 or is_full:
        st[js.CONTROLS], st[js.ESCAPES], st[js.NON_FINITE] = controls, escapes, numbers
    if after < 0:
        return _lose(pos, np.int64(after), np.int64(js.LOST_RECORD), st)
    if is_full:
        return js.FULL
    js.put(tok, js.TOKEN * count, np.int64(voc[js.CLOSING + 1]), np.int64(js.OTHER), pos, after)
    st[js.TOKENS] = count + 1
    st[js.RECORDS] += 1
    st[js.POS] = after
    st[js.COMMA] = 0
    return js.GO_ON


@inner
def _find_again(buf: Any, pos: Any, end: Any, mode: Any, st: Any, voc: Any, tok: Any, stack: Any) -> Any:
    """Look for where reading can go on behind damage: MORE or GO_ON."""
    if mode == js.LOST_RECORD:
        st[js.POS] = _find_record(buf, pos, end, st, voc, tok, stack)
        if st[js.MODE] == mode and (st[js.POS] != end or st[js.FINAL] == 0):
            return js.MORE
        st[js.COMMA] = 0 if st[js.MODE] == js.DOCUMENT else 1
    else:
        st[js.POS] = _find_list(buf, pos, end, st, voc)
        if st[js.MODE] == mode and st[js.FINAL] == 0:
            return js.MORE
        if st[js.MODE] == js.LIST:
            st[js.LISTS], st[js.COMMA] = 1, 2
    st[js.LOST] += st[js.BASE] + st[js.POS] - st[js.LOST_FROM]
    if st[js.MODE] == mode:
        st[js.MODE] = js.BEHIND
    return js.GO_ON


@inner
def _begin(byte: Any, pos: Any, st: Any) -> Any:
    """The first byte of the document: BAD_DOCUMENT or GO_ON."""
    if byte == 123:
        st[js.MODE], st[js.COMMA] = js.DOCUMENT, 2
    elif byte == 91:
        st[js.MODE], st[js.BARE], st[js.COMMA], st[js.LISTS] = js.LIST, 1, 2, 1
    else:
        return js.BAD_DOCUMENT
    st[js.POS] = pos + 1
    return js.GO_ON


@kernel
def scan(buf: Any, st: Any, voc: Any, tok: Any, stack: Any) -> Any:
    """Go on with the text in ``buf[st[POS]:st[END]]``, behind which there are zeros; DONE and its neighbours, or a
    code of damage (which is also returned once where damage is left out and reading can go on).
    """
    end = st[js.END]
    code = np.int64(js.GO_ON)
    while code == js.GO_ON:
        mode, pos = st[js.MODE], st[js.POS]
        if mode == js.LOST_RECORD or mode == js.LOST_DOCUMENT:
            st[js.ERR_POS] = pos
            code = _find_again(buf, pos, end, mode, st, voc, tok, stack)
            continue
        pos = js.skip_space(buf, pos)
        byte = buf[index(pos)]
        st[js.ERR_POS] = st[js.POS] = pos
        if mode == js.LIST and pos < end:
            code = _element(buf, pos, end, st, voc, tok, stack)
        elif pos >= end:
            if st[js.FINAL] == 0 or mode == js.BEHIND:
                return js.MORE if st[js.FINAL] == 0 else js.DONE
            code = _lose(pos, np.int64(js.BAD_END), np.int64(js.BEHIND), st)
        elif mode == js.DOCUMENT:
            code = _document(buf, pos, end, st, voc, stack)
        elif mode == js.BEGIN:
            code = _begin(byte, pos, st)
        elif st[js.STRICT] != 0 or byte == 123 or byte == 91 or st[js.LISTS] == 0:
            code = js.BAD_BEHIND
        else:
            code = _lose(pos, np.int64(js.BAD_CLOSE), np.int64(js.LOST_RECORD), st)
    return code

"""Compiled tokenising of JSON: the grammar of values, and the members of one record that somebody wants.

A token says which key, what kind of value, where its text begins and ends; it is written for each value whose key is in
the vocabulary. All else is checked and skipped. `scan` goes through the whole text; here are also the numbers by
which it, its caller and the kernels that use the tokens understand each other.
"""

# mypy: disable-error-code="assignment"
# Compiled code knows one integer, of 64 bits; a checker sees Python's and NumPy's.

from __future__ import annotations

from typing import Any, Final

import numpy as np

from chakrasim.jit import inner, leaf
from chakrasim.trace.json.values import decode, index

# (A constant given to an inner kernel is made an np.int64 first: Numba compiles the kernel anew for each literal.)

# Slots of the state array ``st``. Positions are in the window, which begins at byte BASE of the text.
POS, END, BASE, FINAL, STRICT, BARE, MODE, COMMA, LISTS = range(9)
TOKENS, PAIR_START, PAIR_STOP, ERR_POS = range(9, 13)
RECORDS, DAMAGES, LOST, LOST_FROM, COMMAS, CONTROLS, ESCAPES, REPAIR_POS, NON_FINITE = range(13, 22)
STATE_SIZE: Final = 22

# Where scanning stands: before the text's first byte, in the document, in the list of records, looking for the next
# record or for the list after a fault, behind the document.
BEGIN, DOCUMENT, LIST, LOST_RECORD, LOST_DOCUMENT, BEHIND = range(6)

# Sections of a vocabulary, an int16 array. Of each level: whether it is a list of objects, which level it lies in, the
# key of the token that is written where it ends (-1: none). Of each key: where its name begins, the level that it
# belongs to and that its value opens (0: none), whether a record is known by it after a fault. A hash table of keys, -1
# where free. The names, end to end.
LISTED, AROUND, CLOSING, OFFSETS, LEVELS, ENTERS, NEEDED, TABLE, NAMES = 0, 8, 16, 24, 153, 281, 409, 537, 1049
MAX_KEYS: Final = 128
_MASK: Final = 511
# Parts of a token, all int64.
KEY, KIND, START, STOP = range(4)
TOKEN: Final = 4

# What `scan` returns: the end was reached; more text is wanted; the token arrays are full, or too small for a record;
# a member of the document lies at PAIR_START to PAIR_STOP; the list of records begins a second time. GO_ON is for its
# own parts.
DONE, MORE, FULL, GROW, PAIR, AGAIN, GO_ON = range(7)
(BAD_END, BAD_KEY, BAD_COLON, BAD_VALUE, BAD_NUMBER, BAD_CONTROL, BAD_ESCAPE, BAD_COMMA, BAD_CLOSE, BAD_DEPTH,
 BAD_DOCUMENT, BAD_BEHIND, BAD_SIZE, NO_ROOM) = range(-1, -15, -1)  # fmt: skip

# Kinds of values. ODD texts hold escapes or other bytes than ASCII, CLEAN ones neither.
INTEGER, REAL, TEXT, JSON, ODD_TEXT, ODD_JSON, NON_NUMBER, OPENED, RECORD, OTHER = range(1, 11)

MAX_DEPTH: Final = 100_000
MAX_RECORD_BYTES: Final = 1 << 28
PROBE_DEPTH: Final = 64  # nesting that is believed in while the next record is looked for

# Classes of bytes in a text: ordinary, quote, backslash, control, not ASCII.
_QUOTE, _BACKSLASH, _CONTROL, _HIGH = 1, 2, 3, 4
CLASS: Final = np.zeros(256, np.uint8)
CLASS[:32] = _CONTROL
CLASS[128:] = _HIGH
CLASS[34], CLASS[92] = _QUOTE, _BACKSLASH
_SPACE: Final = np.zeros(256, np.uint8)
_SPACE[[32, 9, 10, 13]] = 1
_DIGIT: Final = np.zeros(256, np.uint8)
_DIGIT[48:58] = 1
_HEX: Final = np.zeros(256, np.uint8)
_HEX[48:58] = _HEX[65:71] = _HEX[97:103] = 1
_ESCAPED: Final = np.zeros(256, np.uint8)
_ESCAPED[[ord(letter) for letter in '"\\/bfnrtu']] = 1

_WORDS: Final = (b"true", b"false", b"null", b"NaN", b"Infinity", b"-Infinity", b"nan", b"-nan", b"inf", b"-inf")
_STRICT_WORDS: Final = 6  # those that Python's parser knows as well
_WORD_OFFSETS: Final = np.cumsum([0, *(len(word) for word in _WORDS)])
_WORD_BYTES: Final = np.frombuffer(b"".join(_WORDS), np.uint8)
_WORD_COUNT: Final = len(_WORDS)


@leaf
def skip_space(buf: Any, pos: Any) -> Any:
    while _SPACE[buf[index(pos)]] != 0:
        pos += 1
    return pos


@inner
def _odd_text(buf: Any, pos: Any, end: Any, st: Any) -> Any:
    """The position of the closing quote of a text that has something unusual at ``pos``, or a code."""
    while True:
        kind = CLASS[buf[pos]]
        if kind == _QUOTE:
            return pos
        if kind == _CONTROL:
            st[ERR_POS] = pos
            if pos >= end:
                return BAD_END
            if buf[pos] == 0 or st[STRICT] != 0:
                return BAD_CONTROL
            st[CONTROLS] += 1
        elif kind == _BACKSLASH:
            if pos + 6 > end and st[FINAL] == 0:
                return BAD_END
            fine = _ESCAPED[buf[pos + 1]] != 0
            if buf[pos + 1] == 117:
                for i in range(2, 6):
                    fine = fine and _HEX[buf[pos + i]] != 0
            if fine:
                pos += 1
            else:
                st[ERR_POS] = pos
                if pos + 1 >= end:
                    return BAD_END
                if st[STRICT] != 0:
                    return BAD_ESCAPE
                st[ESCAPES] += 1
        pos += 1


@leaf
def _number(buf: Any, pos: Any, st: Any) -> Any:
    """(position after the number at ``pos`` or a code, INTEGER or REAL)."""
    kind = INTEGER
    pos += buf[pos] == 45
    first = pos
    while _DIGIT[buf[index(pos)]] != 0:
        pos += 1
    if pos == first or (buf[first] == 48 and pos > first + 1):
        st[ERR_POS] = pos
        return BAD_NUMBER, kind
    if buf[pos] == 46:
        kind = REAL
        pos += 1
        first = pos
        while _DIGIT[buf[index(pos)]] != 0:
            pos += 1
        if pos == first:
            st[ERR_POS] = pos
            return BAD_NUMBER, kind
    if buf[pos] == 101 or buf[pos] == 69:
        kind = REAL
        pos += 1
        pos += buf[pos] == 43 or buf[pos] == 45
        first = pos
        while _DIGIT[buf[index(pos)]] != 0:
            pos += 1
        if pos == first:
            st[ERR_POS] = pos
            return BAD_NUMBER, kind
    return pos, kind


@inner
def _word(buf: Any, pos: Any, words: Any) -> Any:
    """(position after ``true``, ``null``, ``NaN``, ... or a code, JSON or NON_NUMBER)."""
    for word in range(words):
        begin, size = _WORD_OFFSETS[word], _WORD_OFFSETS[word + 1] - _WORD_OFFSETS[word]
        same = True
        for i in range(size):
            same = same and _WORD_BYTES[begin + i] == buf[pos + i]
        if same:
            return pos + size, JSON if word < 3 else NON_NUMBER
    return BAD_VALUE, JSON


@inner
def _scalar(buf: Any, pos: Any, end: Any, words: Any, st: Any) -> Any:
    """(position after the number or word at ``pos`` or a code, its kind)."""
    start = pos
    if _DIGIT[buf[pos]] != 0 or (buf[pos] == 45 and _DIGIT[buf[pos + 1]] != 0):
        pos, kind = _number(buf, pos, st)
        cut = pos >= end or (pos < 0 and st[ERR_POS] >= end)
    else:
        pos, kind = _word(buf, pos, words)
        cut = pos >= end or (pos < 0 and end - start < 10)
    st[ERR_POS] = start
    if cut and st[FINAL] == 0:  # more of it may follow
        pos = BAD_END
    return pos, kind


@leaf
def _text_inside(buf: Any, pos: Any, end: Any, st: Any) -> Any:
    """(position after the text whose quote stands before ``pos``, or a code; whether it has something unusual) of a
    text in an object or list that is kept as it stands: so there is nothing to be repaired in it."""
    while CLASS[buf[index(pos)]] == 0:
        pos += 1
    if CLASS[buf[index(pos)]] == _QUOTE:
        return pos + 1, False
    faults = st[CONTROLS] + st[ESCAPES]
    pos = _odd_text(buf, pos, end, st)
    if pos >= 0 and st[CONTROLS] + st[ESCAPES] != faults:
        pos = BAD_ESCAPE
    return pos + 1 if pos >= 0 else pos, True


@inner
def _container(buf: Any, pos: Any, end: Any, stack: Any, limit: Any, st: Any) -> Any:
    """(position after the object or list at ``pos`` or a code, JSON or ODD_JSON). Checked, without recursion."""
    kind, depth, due = JSON, 1, 0  # due: 0 an entry or the end, 1 a comma or the end, 2 an entry
    stack[0] = buf[pos]
    pos += 1
    while depth > 0:
        pos = skip_space(buf, pos)
        byte = buf[index(pos)]
        st[ERR_POS] = pos
        if byte == 0 and pos >= end:
            return BAD_END, kind
        if byte == 125 or byte == 93:
            if due == 2 or byte != stack[depth - 1] + 2:
                return BAD_CLOSE, kind
            depth -= 1
            due = 1
            pos += 1
            continue
        if due == 1:
            if byte != 44:
                return BAD_COMMA, kind
            due = 2
            pos += 1
            continue
        for part in range(2):  # a key, then a value; or a value only
            if byte == 34:
                pos, odd = _text_inside(buf, pos + 1, end, st)
                kind = ODD_JSON if odd else kind
                if pos < 0:
                    return pos, kind
            elif part == 0 and stack[depth - 1] == 123:
                return BAD_KEY, kind
            elif byte == 123 or byte == 91:
                if depth >= limit:
                    return BAD_DEPTH, kind
                stack[depth] = byte
                depth += 1
                due = 0
                pos += 1
                break
            else:
                pos, _ = _scalar(buf, pos, end, np.int64(_STRICT_WORDS), st)
                if pos < 0:
                    return pos, kind
            due = 1
            if part == 1 or stack[depth - 1] == 91:
                break
            pos = skip_space(buf, pos)
            st[ERR_POS] = pos
            if buf[pos] != 58:
                return BAD_END if pos >= end else BAD_COLON, kind
            pos = skip_space(buf, pos + 1)
            byte = buf[index(pos)]
            st[ERR_POS] = pos
            if byte == 0 and pos >= end:
                return BAD_END, kind
    return pos, kind


@inner
def value_at(buf: Any, pos: Any, end: Any, stack: Any, limit: Any, st: Any) -> Any:
    """(start, stop, next position or a code, kind) of the value at ``pos``; a text without its quotes."""
    byte = buf[index(pos)]
    if byte == 34:
        kind = TEXT
        start = pos + 1
        pos = start
        while CLASS[buf[index(pos)]] == 0:
            pos += 1
        if CLASS[buf[index(pos)]] != _QUOTE:
            kind = ODD_TEXT
            pos = _odd_text(buf, pos, end, st)
            if pos < 0:
                return start, pos, pos, kind
        return start, pos, pos + 1, kind
    start = pos
    st[ERR_POS] = pos
    if byte == 0 and pos >= end:
        return pos, pos, BAD_END, JSON
    if byte == 123 or byte == 91:
        pos, kind = _container(buf, pos, end, stack, limit, st)
    else:
        pos, kind = _scalar(buf, pos, end, np.int64(_WORD_COUNT), st)
        if kind == NON_NUMBER:
            st[NON_FINITE] += 1
    return start, pos, pos, kind


def place_of(first: Any, middle: Any, last: Any, size: Any, level: Any) -> Any:
    """The place of a key in the vocabulary's hash table."""
    return (first * 7 + middle * 37 + last * 101 + size * 59 + level * 13) & _MASK


_place_of = leaf(place_of)


@inner
def find_key(buf: Any, start: Any, stop: Any, level: Any, voc: Any) -> Any:
    """The number of the key ``buf[start:stop]`` at this level, -1 if nobody wants it."""
    size = stop - start
    if size <= 0:
        return -1
    first, middle, last = np.int64(buf[start]), np.int64(buf[start + (size >> 1)]), np.int64(buf[stop - 1])
    at = _place_of(first, middle, last, size, level)
    while voc[TABLE + at] >= 0:
        key = np.int64(voc[TABLE + at])
        base = np.int64(voc[OFFSETS + key])
        if voc[OFFSETS + key + 1] - base == size and voc[LEVELS + key] == level:
            base += NAMES
            i = 0
            while i < size and voc[index(base + i)] == buf[index(start + i)]:
                i += 1
            if i == size:
                return key
        at = (at + 1) & _MASK
    return -1


@leaf
def put(tok: Any, at: Any, key: Any, kind: Any, start: Any, stop: Any) -> Any:
    tok[at + KEY], tok[at + KIND], tok[at + START], tok[at + STOP] = key, kind, start, stop


@leaf
def _key(buf: Any, pos: Any, end: Any, level: Any, st: Any, voc: Any, stack: Any) -> Any:
    """(number of the key whose quote stands before ``pos``, -1 if nobody wants it; its value's position or a code)."""
    start = pos
    while CLASS[buf[index(pos)]] == 0:
        pos += 1
    if CLASS[buf[index(pos)]] == _QUOTE:
        key = find_key(buf, start, pos, level, voc)
    else:
        pos = _odd_text(buf, pos, end, st)
        if pos < 0:
            return np.int64(-1), pos
        size = decode(buf, start, pos, np.bool_(True), stack, np.int64(0)) if pos - start < 1000 else 0
        key = find_key(stack, np.int64(0), np.int64(size), level, voc)
    pos = skip_space(buf, pos + 1)
    if buf[pos] != 58:
        st[ERR_POS] = pos
        return key, np.int64(BAD_END if pos >= end else BAD_COLON)
    return key, skip_space(buf, pos + 1)


@inner
def record(buf: Any, pos: Any, end: Any, limit: Any, st: Any, voc: Any, tok: Any, stack: Any) -> Any:
    """Write the tokens of the record that opens at ``pos``; the position after it, or a code.

    Members that open a level of their own are gone through in the same loop. It is long, because each of its steps
    changes several of position, level and what is due, which a function could only hand back one by one.
    """
    begin, count, room = pos, TOKEN * st[TOKENS], len(tok) - 4 * TOKEN
    level, due, listed = np.int64(1), 0, False  # due: 0 an entry or the end, 1 a comma or the end, 2 an entry
    if count >= room:  # an empty record has no entry that asks
        return NO_ROOM
    pos += 1
    while True:
        byte = buf[index(pos)]
        while _SPACE[byte] != 0:
            pos += 1
            byte = buf[index(pos)]
        if byte == 44:
            if due != 1:
                st[ERR_POS] = pos
                if st[STRICT] != 0:
                    return BAD_COMMA
                st[COMMAS] += 1
            due = 2
            pos += 1
            continue
        if byte == 125 or byte == 93:
            st[ERR_POS] = pos
            if (byte == 93) != listed:
                return BAD_CLOSE
            if due == 2:
                if st[STRICT] != 0:
                    return BAD_COMMA
                st[COMMAS] += 1
            pos += 1
            due = 1
            if voc[CLOSING + level] >= 0:
                put(tok, count, np.int64(voc[CLOSING + level]), np.int64(RECORD if level == 1 else OTHER), begin, pos)
                count += TOKEN
            if level == 1:
                st[TOKENS] = count // TOKEN
                return pos
            level = np.int64(voc[AROUND + level])
            listed = voc[LISTED + level] != 0
            continue
        if byte == 0 and pos >= end:
            st[ERR_POS] = pos
            return BAD_END
        if due == 1:
            st[ERR_POS] = pos
            if st[STRICT] != 0 or (byte != 34 and not listed):
                return BAD_COMMA
            st[COMMAS] += 1
        if count >= room:
            return NO_ROOM
        due = 1
        key = np.int64(-1)
        if not listed:
            if byte != 34:
                st[ERR_POS] = pos
                return BAD_KEY
            key, pos = _key(buf, pos + 1, end, level, st, voc, stack)
            if pos < 0:
                return pos
            byte = buf[index(pos)]
            inner_level = np.int64(voc[ENTERS + key]) if key >= 0 else 0
            if inner_level != 0 and byte == (91 if voc[LISTED + inner_level] != 0 else 123):
                put(tok, count, key, np.int64(OPENED), pos, pos)
                count += TOKEN
                level = inner_level
                listed = voc[LISTED + level] != 0
                due = 0
                pos += 1
                continue
        elif byte == 123:
            level, listed, due = level + 1, False, 0
            pos += 1
            continue
        start, stop, pos, kind = value_at(buf, pos, end, stack, limit, st)
        if pos < 0:
            return pos
        if key >= 0:
            put(tok, count, key, kind, start, stop)
            count += TOKEN

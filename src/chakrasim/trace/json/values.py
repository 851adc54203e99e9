"""Compiled reading of JSON's texts and numbers: escapes and UTF-8, interning, integers, decimal times, floats."""

# mypy: disable-error-code="assignment"
# Compiled code knows one integer, of 64 bits; a checker sees Python's and NumPy's.

from __future__ import annotations

from typing import Any, Final

import numpy as np

from chakrasim.jit import inner, leaf

#: Parts of a table of strings, and the slots of ``count``: how many strings and bytes there are, texts repaired.
HASHES, ENDS, BLOB = range(3)
STRINGS, BYTES, REPAIRED = range(3)

#: Unsigned positions spare compiled code the check for negative ones, at every byte.
index: Final = np.uint64

_SIMPLE: Final = np.zeros(256, np.uint8)  # what a letter behind a backslash stands for
for _letter, _meaning in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _SIMPLE[_letter] = _meaning
_NIBBLE: Final = np.full(256, -1, np.int64)
for _digit in range(16):
    _NIBBLE[ord(f"{_digit:x}")] = _NIBBLE[ord(f"{_digit:X}")] = _digit
_LARGEST: Final = 9223372036854775807
_POWERS: Final = np.array([10.0**i for i in range(23)])


@inner
def _hexadecimal(buf: Any, pos: Any, stop: Any) -> Any:
    """The code unit of ``\\uXXXX`` at ``pos``, -1 if there is none."""
    if pos + 6 > stop or buf[pos] != 92 or buf[pos + 1] != 117:
        return -1
    value = 0
    for i in range(2, 6):
        nibble = _NIBBLE[buf[pos + i]]
        if nibble < 0:
            return -1
        value = value * 16 + nibble
    return value


@inner
def _utf8_size(buf: Any, pos: Any, stop: Any) -> Any:
    """How many bytes the valid UTF-8 sequence at ``pos``, which is not ASCII, has; 0 if it is invalid."""
    lead = np.int64(buf[pos])
    low, high = 0x80, 0xBF
    if 0xC2 <= lead <= 0xDF:
        more = 1
    elif 0xE0 <= lead <= 0xEF:
        more = 2
        low = 0xA0 if lead == 0xE0 else 0x80
        high = 0x9F if lead == 0xED else 0xBF
    elif 0xF0 <= lead <= 0xF4:
        more = 3
        low = 0x90 if lead == 0xF0 else 0x80
        high = 0x8F if lead == 0xF4 else 0xBF
    else:
        return 0
    if pos + more >= stop or buf[pos + 1] < low or buf[pos + 1] > high:
        return 0
    for i in range(2, more + 1):
        if buf[pos + i] < 0x80 or buf[pos + i] > 0xBF:
            return 0
    return more + 1


@inner
def decode(buf: Any, pos: Any, stop: Any, escaped: Any, out: Any, base: Any) -> Any:
    """Write the text ``buf[pos:stop]`` to ``out[base:]`` as valid UTF-8, escapes resolved if ``escaped``.

    Returns its size, or -1 - size if bytes or surrogates that are no character had to become U+FFFD. It takes up to
    three times the bytes.
    """
    at, repaired = base, False
    while pos < stop:
        byte = np.int64(buf[pos])
        code = -1
        if escaped and byte == 92 and pos + 1 < stop and _SIMPLE[buf[pos + 1]] != 0:
            out[at] = _SIMPLE[buf[pos + 1]]
            at += 1
            pos += 2
            continue
        if escaped and byte == 92:
            code = _hexadecimal(buf, pos, stop)
        if code >= 0:
            pos += 6
            if 0xD800 <= code < 0xDC00:
                second = _hexadecimal(buf, pos, stop)
                if 0xDC00 <= second < 0xE000:
                    code = 0x10000 + ((code - 0xD800) << 10) + second - 0xDC00
                    pos += 6
        elif byte < 128:
            code = byte
            pos += 1
        else:
            size = _utf8_size(buf, pos, stop)
            if size == 0:
                code = 0xD800
                pos += 1
            for _ in range(size):
                out[at] = buf[pos]
                at += 1
                pos += 1
        if 0xD800 <= code < 0xE000:
            code = 0xFFFD
            repaired = True
        if code >= 0x10000:
            out[at] = 0xF0 | code >> 18
            out[at + 1] = 0x80 | ((code >> 12) & 63)
            out[at + 2] = 0x80 | ((code >> 6) & 63)
            out[at + 3] = 0x80 | (code & 63)
            at += 4
        elif code >= 0x800:
            out[at] = 0xE0 | code >> 12
            out[at + 1] = 0x80 | ((code >> 6) & 63)
            out[at + 2] = 0x80 | (code & 63)
            at += 3
        elif code >= 0x80:
            out[at] = 0xC0 | code >> 6
            out[at + 1] = 0x80 | (code & 63)
            at += 2
        elif code >= 0:
            out[at] = code
            at += 1
    return -1 - (at - base) if repaired else at - base


@inner
def _intern(buf: Any, pos: Any, stop: Any, strings: Any, count: Any) -> Any:
    """The index of the bytes ``buf[pos:stop]``, which may lie behind the strings' own; new or known.

    The hash table holds ``hash << 31 | index``, -1 where free. The hash takes four bytes at a time and never overflows
    64 bits.
    """
    hashed = (stop - pos) & 0x7FFFFFFF
    at = pos
    while at + 4 <= stop:
        word = (
            np.int64(buf[index(at)])
            | np.int64(buf[index(at + 1)]) << 8
            | np.int64(buf[index(at + 2)]) << 16
            | np.int64(buf[index(at + 3)]) << 24
        )
        hashed = ((hashed ^ word) * 1540483477) & 0xFFFFFFFFFFF
        hashed = (hashed ^ (hashed >> 17)) & 0xFFFFFFFF
        at += 4
    while at < stop:
        hashed = ((hashed ^ np.int64(buf[index(at)])) * 16777619) & 0xFFFFFFFF
        at += 1
    mask = len(strings[HASHES]) - 1
    slot = (hashed ^ (hashed >> 15)) & mask
    while strings[HASHES][slot] >= 0:
        found = strings[HASHES][slot] & 0x7FFFFFFF
        if strings[HASHES][slot] >> 31 == hashed:
            base = strings[ENDS][found]
            size = stop - pos
            if strings[ENDS][found + 1] - base == size:
                i = 0
                while i < size and strings[BLOB][index(base + i)] == buf[index(pos + i)]:
                    i += 1
                if i == size:
                    return found
        slot = (slot + 1) & mask
    new, base = count[STRINGS], count[BYTES]
    for i in range(stop - pos):
        strings[BLOB][base + i] = buf[pos + i]
    count[BYTES] = base + stop - pos
    count[STRINGS] = new + 1
    strings[ENDS][new + 1] = count[BYTES]
    strings[HASHES][slot] = hashed << 31 | new
    return new


@inner
def intern_text(buf: Any, pos: Any, stop: Any, odd: Any, escaped: Any, strings: Any, count: Any) -> Any:
    """The index of a text; an ``odd`` one is made plain first, ``escaped`` or as it stands."""
    if not odd:
        return _intern(buf, pos, stop, strings, count)
    base = count[BYTES]
    size = decode(buf, pos, stop, escaped, strings[BLOB], base)
    if size < 0:
        count[REPAIRED] += 1
        size = -1 - size
    return _intern(strings[BLOB], base, base + size, strings, count)


@inner
def integer(buf: Any, pos: Any, stop: Any) -> Any:
    """(value, whether ``buf[pos:stop]`` is an integer of 64 bits, with or without a sign)."""
    negative = pos < stop and buf[pos] == 45
    pos += pos < stop and (buf[pos] == 45 or buf[pos] == 43)
    value, fine = 0, pos < stop
    while pos < stop and fine:  # below zero, where there is one number more
        digit = np.int64(buf[index(pos)]) - 48
        last = 7 + negative
        fine = 0 <= digit <= 9 and (value > -922337203685477580 or (value == -922337203685477580 and digit <= last))
        if fine:
            value = value * 10 - digit
        pos += 1
    return value if negative else -value, fine


@inner
def word(buf: Any, pos: Any, stop: Any) -> Any:
    """(value, whether ``buf[pos:stop]`` is an integer of 64 bits): those from 2**63 on in two's complement."""
    value, fine = integer(buf, pos, stop)
    if not fine and stop - pos > 18:
        digit = np.int64(buf[stop - 1]) - 48
        high, fine = integer(buf, pos, stop - 1)
        most = 1844674407370955161  # 2**64 is this with a 6 behind it
        fine = fine and 0 <= digit <= 9 and high >= 922337203685477580 and (high < most or (high == most and digit < 6))
        value = (high - most) * 10 + digit - 6 if fine else 0
    return value, fine


@inner
def is_number(buf: Any, pos: Any, stop: Any) -> Any:
    """Whether the text ``buf[pos:stop]`` is a JSON number."""
    if pos < stop and buf[pos] == 45:
        pos += 1
    part, digits = 0, 0  # part: 0 before the point, 1 behind it, 2 in the exponent
    while pos < stop:
        byte = buf[index(pos)]
        if 48 <= byte <= 57:
            digits += 1
        elif digits == 0 or part == 2 or (part == 1 and byte == 46):
            return False
        elif byte == 46:
            part, digits = 1, 0
        elif byte == 101 or byte == 69:
            part, digits = 2, 0
            if pos + 1 < stop and (buf[pos + 1] == 43 or buf[pos + 1] == 45):
                pos += 1
        else:
            return False
        pos += 1
    return digits > 0


@inner
def nanoseconds(buf: Any, pos: Any, stop: Any) -> Any:
    """(nanoseconds, exact) of the JSON number of microseconds ``buf[pos:stop]``; -1 if negative or beyond 64 bits.

    Decimal arithmetic; what is finer than a nanosecond is rounded half to even.
    """
    value, digits, seen = 0, 0, 0  # seen: digits behind the point
    at, fraction = pos, False
    while at < stop and digits < 18:
        byte = np.int64(buf[index(at)])
        if byte == 46 and not fraction:
            fraction = True
        elif 48 <= byte <= 57 and seen < 3:
            value = value * 10 + byte - 48
            digits += value != 0
            seen += fraction
        else:
            break
        at += 1
    if at == stop and digits + 3 - seen <= 18:
        return value * (1000 if seen == 0 else 100 if seen == 1 else 10 if seen == 2 else 1), True
    return _any_nanoseconds(buf, pos, stop)


@inner
def _any_nanoseconds(buf: Any, pos: Any, stop: Any) -> Any:
    """The same for any number."""
    negative = buf[pos] == 45
    pos += negative
    behind, end = 0, pos  # digits between the point and the exponent; where the digits end
    fraction = False
    while end < stop and buf[end] != 101 and buf[end] != 69:
        behind += fraction
        fraction = fraction or buf[end] == 46
        end += 1
    exponent = 0
    if end < stop:
        exponent, fine = integer(buf, end + 1, stop)
        if not fine or exponent > 1000000000 or exponent < -1000000000:
            exponent = -1000000000 if buf[end + 1] == 45 else 1000000000
    drop = behind - exponent - 3  # how many of the last digits are finer than a nanosecond
    left = end - pos - fraction
    value, half, rest, over = 0, 0, False, False
    for at in range(pos, end):
        digit = np.int64(buf[at]) - 48
        if digit < 0:
            continue
        left -= 1
        if left >= drop:
            over = over or value > (_LARGEST - digit) // 10
            value = value if over else value * 10 + digit
        elif left == drop - 1:
            half = digit
        else:
            rest = rest or digit != 0
    while drop < 0 and value != 0 and not over:
        over = value > _LARGEST // 10
        value *= 1 if over else 10
        drop += 1
    exact = half == 0 and not rest
    if half > 5 or (half == 5 and (rest or value & 1 == 1)):
        over = over or value == _LARGEST
        value += 0 if over else 1
    if over or (negative and (value != 0 or not exact)):
        return -1, False
    return value, exact


@leaf
def as_bits(number: Any) -> Any:
    return np.float64(number).view(np.int64)


@inner
def real(buf: Any, pos: Any, stop: Any) -> Any:
    """(float64, whether it is surely the one nearest to the JSON number ``buf[pos:stop]``)."""
    negative = buf[pos] == 45
    at = pos + negative
    value, behind, fraction = 0, 0, False
    while at < stop and (buf[at] == 46 or 48 <= buf[at] <= 57) and value < 900719925474099:
        if buf[at] == 46:
            fraction = True
        else:
            value = value * 10 + np.int64(buf[at]) - 48
            behind += fraction
        at += 1
    number = np.float64(value) / _POWERS[min(behind, 22)]
    return -number if negative else number, at == stop and behind <= 22

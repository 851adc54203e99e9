"""Kernels: JSON's texts, numbers and lists as Python prints them.

What is not plain (an escape in a text, a number with many digits) is left to Python: then a function returns -1. Texts
end in a zero byte, which is in no JSON, so nothing looks beyond the end.
"""

from __future__ import annotations

from typing import Final

from chakrasim.converter.compat_columns import Bytes
from chakrasim.jit import inner, leaf

MOST_DIGITS: Final = 15
"""A decimal number of so many digits is the shortest one that stands for its double."""


@leaf
def byte(t: Bytes, p: int) -> int:
    """A byte as a signed number."""
    number: int = t[p] + 0
    return number


@leaf
def skip(t: Bytes, p: int) -> int:
    """Where white space ends."""
    while t[p] == 32 or t[p] == 10 or t[p] == 13 or t[p] == 9:
        p += 1
    return p


@leaf
def put(out: Bytes, o: int, value: int) -> int:
    out[o] = value
    return o + 1


@inner
def put_varint(out: Bytes, o: int, value: int) -> int:
    """A number (of 64 bits, two's complement) in groups of seven bits."""
    while value < 0 or value > 127:
        out[o] = (value & 127) | 128
        value = (value >> 7) & 0x01FFFFFFFFFFFFFF
        o += 1
    out[o] = value
    return o + 1


@leaf
def varint_size(value: int) -> int:
    """Bytes of a number that is not negative."""
    size = 1
    while value > 127:
        value >>= 7
        size += 1
    return size


@leaf
def copy(source: Bytes, begin: int, end: int, out: Bytes, o: int) -> int:
    for p in range(begin, end):
        out[o] = source[p]
        o += 1
    return o


@inner
def text_end(t: Bytes, p: int) -> int:
    """Where the text that begins at the quote ``p`` has its other quote; -1 if it is not plain ASCII."""
    if t[p] != 34:
        return -1
    p += 1
    while t[p] != 34:
        if t[p] < 32 or t[p] > 126 or t[p] == 92:
            return -1
        p += 1
    return p


@leaf
def is_digit(c: int) -> bool:
    return c >= 48 and c <= 57


@inner
def integer(t: Bytes, p: int) -> tuple[int, int]:
    """The integer at ``p`` and the position after it; -1 if it is none, or has more than 18 digits."""
    negative = t[p] == 45
    if negative:
        p += 1
    begin, value = p, 0
    while is_digit(t[p]) and p - begin < 19:
        value = value * 10 + byte(t, p) - 48
        p += 1
    size = p - begin
    if size < 1 or size > 18 or (t[begin] == 48 and (size > 1 or negative)):
        return 0, -1
    if t[p] == 46 or t[p] == 101 or t[p] == 69 or is_digit(t[p]):
        return 0, -1
    return -value if negative else value, p


@inner
def decimal(t: Bytes, p: int) -> tuple[int, int, int]:
    """The number at ``p`` with a fraction or an exponent: digits, power of ten, position after it (-1: not plain)."""
    begin, digits, power, seen = p, 0, 0, 0
    while is_digit(t[p]):
        digits = digits * 10 + byte(t, p) - 48
        seen += digits > 0
        p += 1
        if seen > MOST_DIGITS:
            return 0, 0, -1
    if p == begin or (t[begin] == 48 and p > begin + 1):
        return 0, 0, -1
    if t[p] == 46:
        p += 1
        begin = p
        while is_digit(t[p]):
            digits = digits * 10 + byte(t, p) - 48
            seen += digits > 0
            power -= 1
            p += 1
            if seen > MOST_DIGITS:
                return 0, 0, -1
        if p == begin:
            return 0, 0, -1
    if t[p] == 101 or t[p] == 69:
        p += 1
        sign = 1
        if t[p] == 45 or t[p] == 43:
            sign = -1 if t[p] == 45 else 1
            p += 1
        begin, exponent = p, 0
        while is_digit(t[p]) and p - begin < 3:
            exponent = exponent * 10 + byte(t, p) - 48
            p += 1
        if p == begin or is_digit(t[p]):
            return 0, 0, -1
        power += sign * exponent
    return digits, power, p


@inner
def put_digits(out: Bytes, o: int, digits: int, size: int) -> int:
    """``digits`` with leading zeros up to ``size``."""
    for at in range(size):
        out[o + size - 1 - at] = 48 + digits % 10
        digits //= 10
    return o + size


@inner
def put_float(out: Bytes, o: int, digits: int, power: int) -> int:
    """digits * 10 ** power as Python prints it: the shortest form, fixed from 1e-4 to below 1e16."""
    if digits == 0:
        o = put(out, o, 48)
        o = put(out, o, 46)
        return put(out, o, 48)
    while digits % 10 == 0:
        digits //= 10
        power += 1
    size, rest = 0, digits
    while rest:
        rest //= 10
        size += 1
    point = size + power  # digits before the decimal point
    if point > -4 and point <= 16:
        if point <= 0:
            o = put(out, o, 48)
            o = put(out, o, 46)
            return put_digits(out, o, digits, size - point)
        if power >= 0:
            o = put_digits(out, o, digits, size)
            o = put_digits(out, o, 0, power)
            o = put(out, o, 46)
            return put(out, o, 48)
        scale = 1
        for _ in range(-power):
            scale *= 10
        o = put_digits(out, o, digits // scale, point)
        o = put(out, o, 46)
        return put_digits(out, o, digits % scale, -power)
    scale = 1
    for _ in range(size - 1):
        scale *= 10
    o = put(out, o, 48 + digits // scale)
    if size > 1:
        o = put(out, o, 46)
        o = put_digits(out, o, digits % scale, size - 1)
    o = put(out, o, 101)
    exponent = point - 1
    o = put(out, o, 45 if exponent < 0 else 43)
    exponent = abs(exponent)
    return put_digits(out, o, exponent, 3 if exponent > 99 else 2)


@inner
def number(t: Bytes, p: int, out: Bytes, o: int) -> tuple[int, int]:
    """Print the number at ``p`` as Python does; both positions."""
    _, q = integer(t, p)
    if q > 0:
        return q, copy(t, p, q, out, o)
    if t[p] == 45:
        o = put(out, o, 45)
        p += 1
    digits, power, q = decimal(t, p)
    if q < 0 or power < -250 or power > 250:
        return -1, o
    # An integer comes here if it is "-0" or has many digits.
    fraction = False
    for at in range(p, q):
        fraction |= t[at] == 46 or t[at] == 101 or t[at] == 69
    return (q, put_float(out, o, digits, power)) if fraction else (-1, o)


@leaf
def letters(t: Bytes, p: int, a: int, b: int, c: int, d: int) -> bool:
    return bool(t[p] == a and t[p + 1] == b and t[p + 2] == c and t[p + 3] == d)


@inner
def atom(t: Bytes, p: int, out: Bytes, o: int) -> tuple[int, int]:
    """Print the text, number or constant at ``p`` as Python does; both positions."""
    c = t[p]
    if c == 34:
        end = text_end(t, p)
        o = put(out, o, 39)
        for q in range(p + 1, end):
            if t[q] == 39:
                return -1, o
            out[o] = t[q]
            o += 1
        return (end + 1, put(out, o, 39)) if end > 0 else (-1, o)
    if c == 45 or is_digit(c):
        return number(t, p, out, o)
    if letters(t, p, 116, 114, 117, 101) or letters(t, p, 110, 117, 108, 108):  # true, null
        size = 4
    elif letters(t, p, 102, 97, 108, 115) and t[p + 4] == 101:  # false
        size = 5
    else:
        return -1, o
    if c == 110:
        o = put(out, o, 78)
        o = put(out, o, 111)
        o = put(out, o, 110)
        return p + 4, put(out, o, 101)
    out[o] = c - 32
    return p + size, copy(t, p + 1, p + size, out, o + 1)


@inner
def listing(t: Bytes, p: int, out: Bytes, o: int) -> tuple[int, int]:
    """Print the list at ``p``, of lists and atoms, as Python does; both positions."""
    if t[p] != 91:
        return -1, o
    depth = 0
    while True:
        if t[p] == 91:
            depth += 1
            o = put(out, o, 91)
            p = skip(t, p + 1)
            if t[p] != 93:
                continue
        else:
            p, o = atom(t, p, out, o)
            if p < 0:
                return -1, o
            p = skip(t, p)
        while t[p] == 93:
            o = put(out, o, 93)
            depth -= 1
            if depth == 0:
                return p + 1, o
            p = skip(t, p + 1)
        if t[p] != 44:
            return -1, o
        o = put(out, o, 44)
        o = put(out, o, 32)
        p = skip(t, p + 1)


@inner
def digits_end(t: Bytes, p: int) -> int:
    """Where the digits at ``p`` end; -1 if there are none."""
    begin = p
    while is_digit(t[p]):
        p += 1
    return p if p > begin else -1


@inner
def number_end(t: Bytes, p: int) -> int:
    """Where the number at ``p`` ends, however many digits it has; -1 if it is none."""
    if t[p] == 45:
        p += 1
    if t[p] == 48 and is_digit(t[p + 1]):
        return -1
    p = digits_end(t, p)
    if p > 0 and t[p] == 46:
        p = digits_end(t, p + 1)
    if p > 0 and (t[p] == 101 or t[p] == 69):
        p += 2 if t[p + 1] == 45 or t[p + 1] == 43 else 1
        p = digits_end(t, p)
    return p


@inner
def whole_time(t: Bytes, p: int) -> tuple[int, int]:
    """The whole part of a time that is not negative, and the position after it; -1 if its double may be another."""
    begin, value = p, 0
    while is_digit(t[p]) and p - begin < 10:
        value = value * 10 + byte(t, p) - 48
        p += 1
    end = number_end(t, begin)
    if end < 0 or (t[p] != 46 and p != end) or p - begin > 9:
        return 0, -1
    nines = 1
    while nines <= 6 and t[p] == 46 and t[p + nines] == 57:
        nines += 1
    for at in range(begin, end):
        if t[at] == 101 or t[at] == 69:
            return 0, -1
    return value, (-1 if nines > 6 else end)

"""Laws as expressions of named columns: plain nested lists, which JSON keeps, evaluated exactly on whole numbers.

["const", p, q]                     p / q
["column", name]
[op, a, b]                          op one of `OPERATIONS`
["sum", [[p, q, {name: twice}]...]] products of columns to half-whole powers, each times p / q, added
["power", log, {name: exponent}]    e^log times columns to any powers: what is near, where no law was found
["if", test, a, b]                  test [column, comparison, other, offset]: column compared with other + offset;
                                    other "" stands for 0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from math import isqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Expression = list[Any]
Ints = NDArray[np.int64]
Numbers = NDArray[np.object_]
Columns = Mapping[str, Ints]
Limit = tuple[str, str, int]
"""A column, how it is compared, and with what number."""
MOST_TWICE: Final = 64
"""Of a column in a product, twice its power: those of laws that are found stay far below."""


OPERATIONS: Final[dict[str, Callable[[Numbers, Numbers], Numbers]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // _not_zero(b),
    "ceil": lambda a, b: -(-a // _not_zero(b)),
    "%": lambda a, b: a % _not_zero(b),
    "min": np.minimum,
    "max": np.maximum,
}
COMPARISONS: Final = {"==": np.equal, "<": np.less, ">": np.greater}


def value(expression: Expression, columns: Columns, rows: int, *, fits: bool = False) -> Ints:
    """int64[rows]: the nearest whole numbers, those beyond int64 at its ends. Raises KeyError for a column that is not
    there, and OverflowError for numbers beyond if they have to be ones that it ``fits``."""
    match expression:
        case ["column", name]:
            return columns[name]
        case ["const", over, 1] if abs(over) < 1 << 62:
            return np.full(rows, over, np.int64)
    asked = names(expression)
    found = _value(expression, {name: each.astype(object) for name, each in columns.items() if name in asked}, rows)
    return np.array([round(each) if fits else _whole(each) for each in found.tolist()], np.int64)


def test(one: list[Any], columns: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """bool[rows]: where a comparison holds."""
    name, comparison, other, offset = one
    right = columns[other] + offset if other else offset
    held: NDArray[np.bool_] = COMPARISONS[comparison](columns[name], right)
    return held.astype(np.bool_)


def check(content: Any) -> Expression:
    """The expression that plain values are. Raises ValueError, TypeError or IndexError for what is none."""
    if not isinstance(content, list):
        raise TypeError("a law is no list")
    match content:
        case ["const", int(), int(under)] if under > 0:
            pass
        case ["column", str()]:
            pass
        case ["sum", list(terms)]:
            for over, under, powers in terms:
                if not (isinstance(over, int) and isinstance(under, int) and under and isinstance(powers, dict)):
                    raise ValueError("a law has a term that is none")
                if not all(isinstance(twice, int) and abs(twice) <= MOST_TWICE for twice in powers.values()):
                    raise ValueError(f"a law has powers over {MOST_TWICE // 2}")
        case ["power", float() | int(), dict()]:
            pass
        case ["if", [str(), str(comparison), str(), int()], one, other] if comparison in COMPARISONS:
            check(one)
            check(other)
        case [str(operation), one, other] if operation in OPERATIONS:
            check(one)
            check(other)
        case _:
            raise ValueError(f"no law is called {str(content[:1])[:40]}")
    return content


def names(expression: Expression) -> set[str]:
    """The columns that it asks for."""
    match expression[0]:
        case "const":
            return set()
        case "column":
            return {expression[1]}
        case "sum":
            return {name for _, _, powers in expression[1] for name in powers}
        case "power":
            return {*expression[2]}
        case "if":
            own = {name for name in (expression[1][0], expression[1][2]) if name}
            return own | names(expression[2]) | names(expression[3])
        case _:
            return names(expression[1]) | names(expression[2])


def limits(expression: Expression) -> set[Limit]:
    """The columns that are compared with a number, how, and with which."""
    if expression[0] == "if":
        name, comparison, other, number = expression[1]
        own = set() if other else {(name, comparison, number)}
        return own | limits(expression[2]) | limits(expression[3])
    return set().union(*map(limits, expression[1:])) if expression[0] in OPERATIONS else set()


def all_limits(laws: Iterable[Expression]) -> list[Limit]:
    """Those of several, each once, in order."""
    return sorted(set[Limit]().union(*map(limits, laws)))


def put(expression: Expression, columns: Mapping[str, Expression]) -> Expression:
    """The same with expressions in place of columns, but for those in products and tests."""
    if expression[0] == "column":
        return columns.get(expression[1], expression)
    begin = {"if": 2, "const": len(expression), "sum": 2, "power": 3}.get(expression[0], 1)
    return [*expression[:begin], *(put(part, columns) for part in expression[begin:])]


def within(part: Expression, whole: Any) -> bool:
    """Whether an expression is another or stands in it."""
    return part == whole or (isinstance(whole, list) and any(within(part, each) for each in whole))


def cases(expression: Expression) -> int:
    """How many tests it has."""
    if expression[0] == "if":
        return 1 + cases(expression[2]) + cases(expression[3])
    return sum(map(cases, expression[1:])) if expression[0] in OPERATIONS else 0


def chooses(expression: Expression) -> bool:
    """Whether it is one of several numbers, by case."""
    own = expression[2:] if expression[0] == "if" else []
    return bool(own) and all(part[0] == "const" or chooses(part) for part in own)


def case_of(expression: Expression, columns: Columns, rows: int) -> Ints:
    """int64[rows]: equal where its tests go the same way."""
    if expression[0] != "if" and expression[0] not in OPERATIONS:
        return np.zeros(rows, np.int64)
    parts = [case_of(each, columns, rows) for each in expression[-2:]]
    if expression[0] == "if":
        held = test(expression[1], columns)
        return np.where(held, 2 * parts[0] + 1, 2 * parts[1])
    return np.unique(np.stack(parts), axis=1, return_inverse=True)[1].reshape(-1)


def text(expression: Expression) -> str:
    """As people write it."""
    match expression[0]:
        case "const":
            return str(Fraction(expression[1], expression[2]))
        case "column":
            return str(expression[1])
        case "sum":
            return " + ".join(_product(*term) for term in expression[1])
        case "power":
            return "about " + " ".join(f"{name}^{power:.2f}" for name, power in expression[2].items())
        case "if":
            name, comparison, other, offset = expression[1]
            right = f"{other}{offset:+d}" if other and offset else other or str(offset)
            return f"({text(expression[2])} if {name} {comparison} {right} else {text(expression[3])})"
        case "min" | "max" | "ceil" as name:
            return f"{name}({text(expression[1])}, {text(expression[2])})"
        case operation:
            return f"({text(expression[1])} {operation} {text(expression[2])})"


def times(expression: Expression, factor: Fraction) -> Expression:
    """So many times as much."""
    over, under = factor.numerator, factor.denominator
    match expression[0]:
        case "const":
            return ["const", expression[1] * over, expression[2] * under]
        case "sum":
            return ["sum", [[p * over, q * under, powers] for p, q, powers in expression[1]]]
        case "if":
            return ["if", expression[1], times(expression[2], factor), times(expression[3], factor)]
        case "+" | "-" as sign:
            return [sign, times(expression[1], factor), times(expression[2], factor)]
        case _:
            return ["*", expression, ["const", over, under]]


def _product(p: int, q: int, powers: Mapping[str, int]) -> str:
    factors = [str(Fraction(p, q))] if (p, q) != (1, 1) or not powers else []
    factors += [name if twice == 2 else f"{name}^{Fraction(twice, 2)}" for name, twice in powers.items()]
    return " ".join(factors)


def _value(expression: Expression, columns: Mapping[str, Numbers], rows: int) -> Numbers:
    match expression[0]:
        case "const":
            return np.full(rows, _plain(Fraction(expression[1], expression[2])), object)
        case "column":
            return columns[expression[1]]
        case "sum":
            found = np.zeros(rows, object)
            for p, q, powers in expression[1]:
                found = found + _term(p, q, powers, columns, rows)
            return found
        case "power":
            logs = sum(
                (
                    power * np.log(np.maximum(columns[name].astype(np.float64), 1e-9))
                    for name, power in expression[2].items()
                ),
                np.full(rows, float(expression[1])),
            )
            return np.asarray(np.exp(np.minimum(logs, 43.0)), object)
        case "if":
            held = test(expression[1], columns)
            found = np.zeros(rows, object)
            for part, of in ((held, expression[2]), (~held, expression[3])):
                own = {name: column[part] for name, column in columns.items()}
                found[part] = _value(of, own, int(part.sum()))
            return found
        case operation:
            left, right = (_value(each, columns, rows) for each in expression[1:])
            return np.asarray(OPERATIONS[operation](left, right), object)


def _term(p: int, q: int, powers: Mapping[str, int], columns: Mapping[str, Numbers], rows: int) -> Numbers:
    over, under, root = np.full(rows, p, object), np.full(rows, q, object), np.full(rows, 1, object)
    for name, twice in powers.items():
        base = columns[name]
        if twice % 2:
            root = root * base
        whole = (twice - twice % 2) // 2
        if whole > 0:
            over = over * base**whole
        elif whole < 0:
            under = under * _not_zero(base) ** -whole
    return np.array([_quotient(a, b, r) for a, b, r in zip(over, under, root, strict=True)], object)


def _quotient(over: int, under: int, root: int) -> int | float | Fraction:
    if root != 1:
        exact = isqrt(abs(root))
        scale = exact if exact * exact == root else max(root, 0) ** 0.5
        return over * scale / under
    return _plain(Fraction(over, under))


def _plain(number: Fraction) -> int | Fraction:
    return number.numerator if number.denominator == 1 else number


def _not_zero(numbers: Numbers) -> Numbers:
    return np.where(numbers == 0, 1, numbers)


def _whole(number: Any) -> int:
    return int(min(max(round(number), -(2**63)), 2**63 - 1))

"""The constants of a calibration as a machine file has them: keys, their reading, and the entries that are written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from chakrasim.collectives.kinds import KINDS_BY_NAME
from chakrasim.collectives.libraries.calibrated import CLASS_NAMES, MOST_CONSTANTS, Calibrated, Case
from chakrasim.collectives.libraries.model import SIZE_CLASSES, Constants, constant_of
from chakrasim.collectives.libraries.terms import CONSTANTS
from chakrasim.config.kinds import number, paragraph, text
from chakrasim.config.section import Section
from chakrasim.config.table import REQUIRED, Key, Kind, Table, Values, each, mapping
from chakrasim.machine.graph.families.family import listed

_CLASSES: Final = len(SIZE_CLASSES) + 1
_KINDS: Final = (*KINDS_BY_NAME, "message")
_CASE: Final = re.compile(r"([1-9][0-9]{0,8})(?: on ([1-9][0-9]{0,8}))?")
_LOG: Final = number(-20.0, 20.0, "a natural logarithm from -20 to 20", "number")
_SHARE: Final = number(0.0, 20.0, "a standard deviation of logarithms, 0 to 20", "number >= 0")
_COVARIANCE: Final = number(-1e3, 1e3, "a covariance of logarithms", "number")
_PERCENT: Final = number(0.0, 1e18, "per cent", "number >= 0")


def _case(section: Section, key: str) -> tuple[int, int]:
    match = _CASE.fullmatch(str(section.entries[key]))
    if match is None or int(match[2] or 1) > int(match[1]):
        section.refuse(key, "not a number of ranks", "such as 8, or 16 on 2 for 16 ranks on 2 nodes")
    return int(match[1]), int(match[2] or 1)


_RANKS: Final = Kind(_case, "ranks, such as `8`, or `16 on 2` nodes", {"type": ["string", "integer"]})


def _factors(section: Section, key: str) -> Mapping[str, float]:
    """Constants, and single terms of theirs after a slash."""
    given = section.entries[key]
    names = [str(name) for name in given] if isinstance(given, Mapping) else []
    below = section.strictly_below(key, (*CONSTANTS, *(name for name in names if constant_of(name) in CONSTANTS)))
    return {name: _LOG.read(below, name) for name in below.entries}


_NAMED: Final = f"^({'|'.join(map(re.escape, CONSTANTS))})(/.*)?$"
_FACTORS: Final = Kind(_factors, "mapping", {
    "type": "object", "propertyNames": {"pattern": _NAMED}, "additionalProperties": _LOG.schema,
})  # fmt: skip


def _made(section: Section, values: Values) -> Calibrated:
    constants: Mapping[str, float] = values["values"]
    if len(constants) > MOST_CONSTANTS:
        section.fail("values", "too many constants", found=len(constants), expected=f"at most {MOST_CONSTANTS}")
    for key in ("residual", "unseen"):
        if len(values[key]) not in (_CLASSES, 0):
            section.fail(key, "not one for each class of sizes", found=len(values[key]), expected=str(_CLASSES))
    measured: frozenset[Case] = frozenset(
        (kind, nodes, ranks) for kind, cases in values["measured"].items() for ranks, nodes in cases
    )
    fitted = Constants(constants, _checked(section, values["covariance"], len(constants)), values["residual"],
                       values["source"])  # fmt: skip
    return Calibrated(fitted, values["unseen"], measured, values["library"], values["error"], values["weights"])


def _checked(section: Section, rows: tuple[tuple[float, ...], ...], count: int) -> tuple[tuple[float, ...], ...]:
    expected = f"{count} rows of {count} numbers, one for each constant"
    if len(rows) != count or any(len(row) != count for row in rows):
        section.fail("covariance", "the matrix has another size", found=f"{len(rows)} rows", expected=expected)
    matrix = np.array(rows).reshape(count, count)
    if not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-12):
        section.fail("covariance", "the matrix is not symmetric", expected=expected)
    if count and np.linalg.eigvalsh(matrix)[0] < -1e-6 * np.abs(matrix).max():
        section.fail("covariance", "the matrix is no covariance: it has variances below 0", expected=expected)
    return rows


CONSTANTS_KEYS: Final[Table] = (
    Key("library", text, "", "whose times they were fitted to"),
    Key("source", paragraph, "", "for people: what they were fitted to"),
    Key("weights", text, "", "which weights of the model they go with; others are a warning"),
    Key("values", _FACTORS, REQUIRED, "by constant, or by one of its terms (`net.LL.hop/near`): the logarithm of its "
        f"factor, at most {MOST_CONSTANTS}"),
    Key("covariance", listed(listed(_COVARIANCE)), REQUIRED, "of the values, in their order"),
    Key("residual", listed(_SHARE), REQUIRED, "what is left over, as a standard deviation of logarithms, for sizes "
        "up to 64 KiB, up to 4 MiB, below 128 MiB, and from there"),
    Key("unseen", listed(_SHARE), (), "the same for collectives and numbers of ranks that were not measured",
        shown="as `residual`"),
    Key("measured", each(_KINDS, listed(_RANKS)), {}, "by collective: the ranks that it was measured on"),
    Key("error", each(CLASS_NAMES, _PERCENT), {}, "for people: mean absolute error of sizes held out, in per cent"),
)  # fmt: skip
CALIBRATED: Final = mapping(CONSTANTS_KEYS, _made)


def constants_entries(calibrated: Calibrated) -> dict[str, Any]:
    """The entries from which the same is read."""
    found = calibrated.constants
    cases: dict[str, list[str]] = {}
    for kind, nodes, ranks in sorted(calibrated.measured):
        cases.setdefault(kind, []).append(f"{ranks} on {nodes}" if nodes > 1 else f"{ranks}")
    entries = {
        "library": calibrated.library,
        "source": found.source,
        "weights": calibrated.weights,
        "error": {name: round(value, 2) for name, value in calibrated.errors.items()},
        "measured": cases,
        "values": dict(found.values),
        "residual": list(found.residual),
        "unseen": list(calibrated.unseen),
        "covariance": [list(row) for row in found.covariance],
    }
    return {name: value for name, value in entries.items() if value or name in ("values", "covariance")}

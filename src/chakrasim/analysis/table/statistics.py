"""Statistics of groups, all groups at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GroupStatistics:
    """Figures of ``g`` groups: ``count`` int64[g]; ``total``, ``least`` and ``most`` [g] of the values' type;
    ``mean``, ``std`` (of the sample: NaN for one value) and quartiles float64[g].
    Groups without values have NaN and 0.
    """

    count: Ints
    total: NDArray[Any]
    least: NDArray[Any]
    most: NDArray[Any]
    mean: Floats
    std: Floats
    quartile_1: Floats
    median: Floats
    quartile_3: Floats

    def in_order(self, order: NDArray[np.intp]) -> dict[str, Any]:
        """The figures of times by name of column, groups in another order."""
        names = ("count", "total_ns", "min_ns", "mean_ns", "median_ns", "max_ns", "std_ns")
        figures = (self.count, self.total, self.least, self.mean, self.median, self.most, self.std)
        return {name: column[order] for name, column in zip(names, figures, strict=True)}


def sums(values: Ints, group: NDArray[Any], groups: int) -> Ints:
    """int64[groups]: the values of each ``group`` (0 to ``groups`` - 1), added up."""
    found = np.zeros(groups, np.int64)
    np.add.at(found, group, values)
    return found


def group_statistics(values: NDArray[Any], group: NDArray[Any], groups: int) -> GroupStatistics:
    """The figures of ``values`` by ``group`` (0 to ``groups`` - 1)."""
    order = np.lexsort((values, group))
    ordered = values[order]
    count = np.bincount(group, minlength=groups).astype(np.int64)
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(count)[:-1]])[:groups]
    full = count > 0
    total = np.zeros(groups, values.dtype)
    if len(values):
        total[full] = np.add.reduceat(ordered, first[full])
    least, most = np.zeros(groups, values.dtype), np.zeros(groups, values.dtype)
    least[full], most[full] = ordered[first[full]], ordered[(first + count - 1)[full]]
    mean = np.full(groups, np.nan)
    mean[full] = total[full] / count[full]
    quartiles = [_quantile(ordered, first, count, share) for share in (0.25, 0.5, 0.75)]
    return GroupStatistics(count, total, least, most, mean, _deviation(values, group, count, mean), *quartiles)


def _deviation(values: NDArray[Any], group: NDArray[Any], count: Ints, mean: Floats) -> Floats:
    squares = np.bincount(group, (values - mean[group]) ** 2, minlength=len(count))
    std = np.full(len(count), np.nan)
    several = count > 1
    std[several] = np.sqrt(squares[several] / (count[several] - 1))
    return std


def _quantile(ordered: NDArray[Any], first: Ints, count: Ints, share: float) -> Floats:
    """Linear interpolation between the two neighbours, as pandas and NumPy do by default."""
    result = np.full(len(count), np.nan)
    full = count > 0
    place = share * (count[full] - 1)
    low = np.floor(place).astype(np.int64)
    high = np.ceil(place).astype(np.int64)
    begin = first[full]
    left, right = ordered[begin + low].astype(np.float64), ordered[begin + high].astype(np.float64)
    result[full] = left + (right - left) * (place - low)
    return result


def group_keys(*columns: NDArray[Any]) -> tuple[Ints, Ints]:
    """Numbers for distinct tuples of the columns, in ascending order of the tuples: (group[n], first row[g])."""
    if len(columns) == 1:
        _, first, group = np.unique(columns[0], return_index=True, return_inverse=True)
        return group.astype(np.int64), first.astype(np.int64)
    if not len(columns[0]):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.lexsort(columns[::-1])
    changed = np.zeros(len(order), np.bool_)
    changed[0] = True
    for column in columns:
        ordered = column[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(changed) - 1
    return group, order[changed]


def in_order_of_appearance(group: Ints, first: Ints) -> tuple[Ints, Ints]:
    """The same groups, numbered by their first row."""
    order = np.argsort(first, kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return number[group], first[order]

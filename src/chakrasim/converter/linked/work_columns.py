"""What nodes compute, as the attributes of `chakrasim.trace.work`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from chakrasim.trace import work as names
from chakrasim.trace.chakra.assemble import Column, Strings
from chakrasim.trace.chakra.graph import Ints, StringTable
from chakrasim.trace.kinds import BOOL, INT64, STRING
from chakrasim.trace.linked.columns import LinkedTrace, OperatorWorks
from chakrasim.trace.work import WorkKind

_NAMED = 5


def work_columns(
    works: OperatorWorks,
    nodes: Ints,
    entries: Ints,
    is_device: NDArray[np.bool_],
    strings: Strings,
    texts: StringTable,
) -> Iterator[Column]:
    """The attributes of ``nodes`` by their ``entries`` in ``works``, as a captured program has them.

    Those that a device carried out (``is_device``, by node) have measured durations, and say so.
    """
    known = works.flops[entries] >= 0
    owners, at = nodes[known], entries[known]
    read, written = works.bytes_read[at], works.bytes_written[at]
    yield Column(names.FLOPS, INT64, owners, works.flops[at])
    yield Column(names.BYTES, INT64, owners, np.maximum(read + written, 1))
    yield Column(names.BYTES_READ, INT64, owners, read)
    yield Column(names.BYTES_WRITTEN, INT64, owners, written)
    spelt = np.array([strings.add(kind.name.lower()) for kind in WorkKind] if len(at) else [], np.int64)
    yield Column(names.KIND, STRING, owners, spelt[works.kind[at]] if len(at) else works.kind[at])
    yield Column(names.DTYPE, STRING, owners, works.dtype[at].astype(np.int64))
    shaped = works.k[at] > 0
    for name in names.SHAPE:
        yield Column(name, INT64, owners[shaped], getattr(works, name)[at[shaped]])
    attention = works.kind[at] == WorkKind.ATTENTION
    yield Column(names.CAUSAL, BOOL, owners[attention], works.causal[at[attention]])
    several = works.kernels[at] != 1
    yield Column(names.KERNELS, INT64, owners[several], works.kernels[at[several]])
    measured = owners[is_device[owners]]
    yield Column(names.RECORDED, BOOL, measured, np.ones(len(measured), np.int64))
    odd = works.problem[entries] > 0
    yield Column(names.UNKNOWN, STRING, nodes[odd], works.problem[entries[odd]].astype(np.int64))


def works_unknown(linked: LinkedTrace) -> tuple[str, int]:
    """What is said of operators whose work is not known, and of how many; ("", 0) if there are none."""
    works, texts = linked.works, linked.strings
    odd = np.flatnonzero(works.problem)
    pairs = zip(works.name[odd].tolist(), works.problem[odd].tolist(), strict=True)
    found = Counter(pairs)
    if not found:
        return "", 0
    listed = [
        f"{texts[name]} ({count}, {texts[why]})"
        for (name, why), count in sorted(found.items(), key=lambda item: (-item[1], texts[item[0][0]]))
    ]
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return f"operators of unknown work, which no device profile can time: {', '.join(listed[:_NAMED])}{more}", len(odd)

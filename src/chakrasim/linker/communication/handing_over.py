"""Which operator hands each collective of the host (gloo, MPI) over to the thread that carries it out."""

from __future__ import annotations

import numpy as np

from chakrasim.linker.communication.host import handing_operators
from chakrasim.linker.communication.spans import communication_spans
from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.trace.linked.columns import Evidence, RowKind


def handed_over(work: LaneEvents) -> dict[int, tuple[int, int, Evidence]]:
    """(thread of the operator, time, evidence) by collective, an index into ``work.host``. The time is the operator's
    end, or the collective's start where that is earlier. Collectives on the operator's own thread, and those whose
    operator is not known, are left out."""
    host = work.host
    collectives = np.flatnonzero(host.kind == RowKind.HOST_COLLECTIVE)
    if not len(collectives):
        return {}
    spans = communication_spans(work.kineto)
    operators = handing_operators(work.kineto, spans, host.event[collectives].astype(np.int32))
    wanted = {int(spans.event[at]) for at in operators if at >= 0}
    event_of = {int(host.event[at]): int(at) for at in np.flatnonzero(np.isin(host.event, list(wanted)))}
    numbered = bool((work.kineto.rf_id[host.event[collectives]] > 0).all())
    evidence = Evidence.CORRELATION if numbered else Evidence.INFERRED
    found: dict[int, tuple[int, int, Evidence]] = {}
    for collective, at in zip(collectives.tolist(), operators, strict=True):
        giver = event_of.get(int(spans.event[at]), -1) if at >= 0 else -1
        begun = int(host.start_ns[collective])
        if giver < 0 or host.lane[giver] == host.lane[collective] or host.start_ns[giver] >= begun:
            continue
        found[collective] = (int(host.lane[giver]), min(int(host.end_ns[giver]), begun), evidence)
    return found

"""Custom collectives from files: a prefix of Chakra traces, or one MSCCL algorithm."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chakrasim.collectives.custom.program import CustomProgram
from chakrasim.collectives.schedule import Collective
from chakrasim.notes import Notes


def custom_programs(
    path: str,
    collective: Collective,
    members: Sequence[int],
    data_bytes: int,
    pass_ns: Callable[[int], int],
    notes: Notes,
    *,
    to_itself: bool = False,
) -> tuple[CustomProgram, ...]:
    """The programs of the custom collective at ``path``, one per member in ascending order of rank.

    Raises `InputError` for files that are missing or cannot be used.

    Parameters
    ----------
    path:
        A file that ends in ``.xml`` is an MSCCL algorithm, scaled to ``data_bytes`` (`lower_msccl`), whose GPU i is the
        i-th of ``members``. Everything else is the prefix of Chakra traces ``path.0.et``, ``path.1.et``, ... with sizes
        of their own (`lower_traces`), one per member in ascending order of rank, as in the reference.
    members:
        The ranks of the group as listed; peers in the programs are indices into it.
    pass_ns:
        How many ns one pass over that many bytes of local memory takes; only MSCCL algorithms ask.
    to_itself:
        Whether the network carries messages from a rank to itself (only one kind does).
    """
    # Imported here: few runs have custom collectives.
    if path.lower().endswith(".xml"):
        from chakrasim.collectives.custom.msccl import lower_msccl
        from chakrasim.collectives.custom.msccl_xml import read_msccl

        programs = lower_msccl(read_msccl(path), collective, len(members), data_bytes, pass_ns, notes)
        return tuple(programs[index] for index in sorted(range(len(members)), key=members.__getitem__))
    from chakrasim.collectives.custom.traces import lower_traces
    from chakrasim.trace import read

    traces = read(path, ranks=len(members), notes=notes)
    return lower_traces(traces, members, notes, to_itself=to_itself)

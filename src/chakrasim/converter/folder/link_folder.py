"""All ranks of a folder, linked and compared, as linked traces on disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from chakrasim.files.whole_folder import check_folder, whole_folder
from chakrasim.files.workers import how_many, run_all
from chakrasim.linker.across_ranks.clocks import align
from chakrasim.linker.api import link
from chakrasim.notes import Notes, lists_too
from chakrasim.trace.linked.columns import LinkedTrace
from chakrasim.trace.linked.file import write_linked

if TYPE_CHECKING:
    from chakrasim.diagnosis.files.pairing import RankFiles


@lists_too
def link_directory(
    directory: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    map_file: str | os.PathLike[str] | None = None,
    step: int | str = "all",
    lenient: bool = False,
    strict: bool = False,
    force: bool = False,
    jobs: int | None = None,
    memory_limit: int | None = None,
    notes: Notes | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[LinkedTrace]:
    """Link every rank whose PyTorch traces are in ``directory`` and write ``linked.RANK.json`` into the folder
    ``output``, which appears whole or not at all. Clocks, start offsets and the split of collectives into waiting and
    transfer come from comparing the ranks, so all are in memory at once (`trace_directory` is for larger jobs).

    Options are those of `link` and `trace_directory`. Raises InputError for what cannot be used.
    """
    from chakrasim.diagnosis.files.discover import discover

    said = Notes() if notes is None else notes
    check_folder(output, force=force)
    ranks = discover(directory, map_file=map_file, notes=said)
    processes = how_many([[path for path in (r.host, r.device) if path] for r in ranks], jobs, memory_limit)
    linked: list[LinkedTrace] = []
    with closing(run_all(partial(_link, step=step, lenient=lenient), ranks, processes)) as results:
        for one, own in results:
            linked.append(one)
            said.warn(*(f"rank {one.rank}: {text}" for text in own.warnings))
            if progress is not None:
                progress(len(linked), len(ranks))
    said.refuse(strict)
    linked = align(linked)
    with whole_folder(output, force=force) as folder:
        for one in linked:
            write_linked(Path(folder) / f"linked.{one.rank}.json", one)
    return linked


def _link(files: RankFiles, *, step: int | str, lenient: bool) -> tuple[LinkedTrace, Notes]:
    notes = Notes()
    return link(files.host, files.device, rank=files.rank, step=step, lenient=lenient, notes=notes), notes

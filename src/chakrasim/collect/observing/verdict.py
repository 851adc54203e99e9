"""The doctor's verdict on what was observed, once all ranks have written."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from chakrasim.errors import InputError, shown

if TYPE_CHECKING:
    from chakrasim.diagnosis.doctor import Diagnosis


def await_ranks(folder: Path, world_size: int, patience_s: float) -> list[int]:
    """Wait until every rank has written its manifest; the ranks that have not when patience ends."""
    end = time.monotonic() + patience_s
    while True:
        missing = [rank for rank in range(world_size) if not (folder / f"manifest.{rank}.json").exists()]
        if not missing or time.monotonic() > end:
            return missing
        time.sleep(0.1)


def print_verdict(folder: Path, world_size: int, patience_s: float) -> Diagnosis | None:
    """Print what the doctor thinks, in a few lines; None, with a line that says why, where it cannot say."""
    from chakrasim.diagnosis.doctor import diagnose
    from chakrasim.text.amounts import ranks_text

    missing = await_ranks(folder, world_size, patience_s)
    if missing:
        print(
            shown(
                f"chakrasim: warning: {folder} lacks the traces of rank{'s' * (len(missing) > 1)} {ranks_text(missing)}"
                ": they wrote nothing, or into a folder of their own machine"
            ),
            file=sys.stderr,
        )
    try:
        diagnosis = diagnose(folder)
    except InputError as fault:
        print(shown(f"chakrasim: warning: the traces were not examined: {fault}"), file=sys.stderr)
        return None
    print(shown(f"  {diagnosis.headline}"))
    name = quote(str(folder))
    print(shown(f"  chakrasim doctor {name}  shows all of it; next: chakrasim trace {name} -o OUT"))
    return diagnosis

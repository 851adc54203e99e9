"""The mark of files that are being put in place together: while it is there, they may be of two runs.

Files that are read together are written beside their places, brought to disk, marked, moved, and unmarked. Whoever is
killed in between leaves the mark, and nobody takes old and new files for one job. Folders without a mark are whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from chakrasim.errors import InputError
from chakrasim.text.amounts import some_of

MARK: Final = ".chakrasim-unfinished.json"
FORMAT: Final = "chakrasim-unfinished-1"


@dataclass(frozen=True)
class Change:
    """Files of one folder that are replaced together: final names to temporary ones, and names that are to go."""

    moves: Mapping[str, str]
    removals: Sequence[str] = ()

    def names(self) -> set[str]:
        """The files that are changed."""
        return {*self.moves, *self.removals}

    def left(self, folder: str) -> list[str]:
        """The files that have not been changed yet."""
        waiting = [name for name, temporary in self.moves.items() if os.path.lexists(os.path.join(folder, temporary))]
        return waiting + [name for name in self.removals if os.path.lexists(os.path.join(folder, name))]


def changes(folder: str) -> list[Change]:
    """What is marked in the folder. Raises InputError for a mark that is none."""
    path = os.path.join(folder, MARK)
    try:
        with open(path, "rb") as file:
            content = json.load(file)
        if content["format"] != FORMAT:
            raise ValueError
        return [_change(one) for one in content["changes"]]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        remedy = "remove it if the files of the folder are whole"
        raise InputError("the mark of unfinished files cannot be read", file=path, remedy=remedy) from None


def _change(content: Any) -> Change:
    return Change({str(name): str(at) for name, at in content["moves"].items()}, [str(n) for n in content["removals"]])


def packed(marked: Sequence[Change]) -> bytes:
    """The content of the mark."""
    listed = [{"moves": dict(one.moves), "removals": list(one.removals)} for one in marked]
    return (json.dumps({"format": FORMAT, "changes": listed}, indent=1) + "\n").encode()


def refuse_unfinished(path: str) -> None:
    """Raise InputError if the file is one of several of which only some have been replaced."""
    folder, name = os.path.split(path)
    if not os.path.lexists(os.path.join(folder, MARK)):
        return
    for change in changes(folder):
        left = change.left(folder) if name in change.names() else []
        if left:
            done = sorted(change.names() - set(left))
            raise InputError(
                "this file is one of several that a command was putting in place when it was ended",
                file=path,
                found=f"new: {some_of(done, 4) or 'none'}; not replaced yet: {some_of(sorted(left), 4)}",
                expected="all files of one run",
                remedy=f"run that command again, or remove {os.path.join(folder, MARK)} if the files belong together",
            )

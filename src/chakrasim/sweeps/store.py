"""What is known of a sweep, on disk: whole files of some points each, so that a killed sweep goes on where it was."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from chakrasim.errors import InputError
from chakrasim.files.outputs import write_whole
from chakrasim.sweeps.points import Outcome
from chakrasim.sweeps.space import Space
from chakrasim.version import __version__

RESULTS, FRONT, ABOUT, PARTS = "results.csv.gz", "front.csv", "sweep.json", "parts"
FIGURES: Final = tuple(one.name for one in fields(Outcome))


class Store:
    """The folder of a sweep. Raises InputError for one of another sweep, or where there is one and ``resume`` is not
    asked for."""

    def __init__(self, folder: Path, space: Space, *, resume: bool, how: str = "") -> None:
        self.folder, self.key = folder, sweep_key(space, how)
        known = self._known()
        if known is not None and known != self.key:
            raise InputError("the folder has another sweep", file=folder,
                             remedy="name another folder: the sweep's file, what it names, or chakrasim has "
                             "changed since")  # fmt: skip
        if known is not None and not resume:
            raise InputError("the folder has this sweep already", file=folder, remedy="go on with --resume")
        if known is None and folder.exists() and any(folder.iterdir()):
            raise InputError("the folder is not empty", file=folder, expected="a new or empty folder")
        self.made = [path for path in (folder / PARTS, folder) if not path.exists()]
        (folder / PARTS).mkdir(parents=True, exist_ok=True)
        if known is None:
            content = json.dumps({"key": self.key, "space": json.loads(space.canonical())}, indent=1) + "\n"
            write_whole(folder / ABOUT, content.encode())

    def abandon(self) -> None:
        """Leave nothing behind of a sweep that could not begin; what has any outcome stays."""
        if self.folder / PARTS in self.made and not any((self.folder / PARTS).iterdir()):
            (self.folder / ABOUT).unlink(missing_ok=True)
            for path in self.made:
                path.rmdir()

    def _known(self) -> str | None:
        try:
            content = json.loads((self.folder / ABOUT).read_text(encoding="utf-8"))
            return str(content["key"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as fault:
            raise InputError(
                "not the folder of a sweep", file=self.folder / ABOUT, found=type(fault).__name__,
                expected="what chakrasim sweep writes", remedy="name another folder",
            ) from None  # fmt: skip

    def load(self, name: str, points: Sequence[int]) -> list[Outcome] | None:
        """The outcomes of these points, if they were written under this name and are whole."""
        try:
            digest, _, data = (self.folder / PARTS / f"{name}.json").read_bytes().partition(b"\n")
            content = json.loads(data)
            if digest.decode() != hashlib.sha256(data).hexdigest() or content["points"] != list(points):
                return None
            return list(map(Outcome.of, content["outcomes"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, name: str, points: Sequence[int], outcomes: Iterable[Outcome]) -> None:
        """Keep them under this name, whole or not at all."""
        data = json.dumps({"points": list(points), "outcomes": [one.to_dict() for one in outcomes]}).encode()
        write_whole(self.folder / PARTS / f"{name}.json", hashlib.sha256(data).hexdigest().encode() + b"\n" + data)

    def finish(self, space: Space, outcomes: Mapping[int, Outcome], front: Sequence[int]) -> None:
        """Write the tables."""
        write_whole(self.folder / FRONT, table(space, outcomes, sorted(front)).encode())
        whole = table(space, outcomes, range(len(space))).encode()
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as file:
            file.write(whole)
        write_whole(self.folder / RESULTS, packed.getvalue())


def sweep_key(space: Space, how: str = "") -> str:
    """The same for the same space gone through the same way, the same files that it names, and the same program."""
    digest = hashlib.sha256(f"{__version__}\n{how}{space.canonical()}".encode())
    for key in ("model", "machine", "device_profile"):
        for value in (space.base.get(key), *space.vary.get(key, ())):
            if isinstance(value, str) and os.path.isfile(value):
                digest.update(Path(value).read_bytes())
    return digest.hexdigest()


def table(space: Space, outcomes: Mapping[int, Outcome], rows: Iterable[int]) -> str:
    """CSV: the varied keys, then the figures."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*space.vary, *FIGURES])
    for row in rows:
        point = space.point(row)
        values = (cell(name, value) for name, value in vars(outcomes[row]).items())
        writer.writerow([*(point[key] for key in space.vary), *values])
    return text.getvalue()


def cell(name: str, value: Any) -> str:
    """A figure as the table has it: times to the nanosecond, empty where nothing is known."""
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.9f}" if name.endswith("_s") else f"{value:.9g}"
    return str(value or "")

"""The folder of observed traces: what may be written into it, and how files get there whole."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chakrasim.collect.observing.job import Place
from chakrasim.collect.observing.shapes import add_shapes
from chakrasim.errors import InputError
from chakrasim.files.outputs import (
    beginning,
    bring_names_to_disk,
    bring_to_disk,
    clean,
    placed,
    undisturbed,
    write_whole,
)
from chakrasim.files.whole_folder import check_name, refuse_others
from chakrasim.text.amounts import some_of

FORMAT = "chakrasim-observed-1"
_OURS = re.compile(r"(?:host|device)\.(\d+)\.json\.gz|manifest\.(\d+)\.json")


def check_observed(folder: Path, place: Place, *, force: bool) -> None:
    """Raise InputError unless this rank may write into the folder: it must not hold other files, nor, without
    ``force``, earlier traces."""
    check_name(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError("the traces go into a folder, and this is a file", file=folder, remedy="name another folder")
    try:
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
    except OSError as fault:
        raise InputError(f"the folder cannot be listed: {fault.strerror or fault}", file=folder) from None
    refuse_others(folder, [name for name in names if not _OURS.fullmatch(name) and not name.startswith(".")])
    earlier = _earlier(names, place)
    if earlier and not force:
        raise InputError(
            "the folder holds earlier traces",
            file=folder,
            found=some_of(earlier, 3),
            remedy="name another folder, or replace them with force",
        )


def _earlier(names: list[str], place: Place) -> list[str]:
    """Files of this rank, and of ranks that the job does not have; other ranks may have written already."""
    ours = [(name, _OURS.fullmatch(name)) for name in names]
    ranks = [(name, int(match[1] or match[2])) for name, match in ours if match]
    if not place.is_certain:
        return [name for name, _ in ranks]
    return [name for name, rank in ranks if rank == place.rank or rank >= place.world_size]


@dataclass(frozen=True)
class RankFolder:
    """Where a rank writes: first beside the traces, into a hidden folder of its own."""

    folder: Path
    place: Place
    staging: Path

    @classmethod
    def make(cls, folder: Path, place: Place, *, force: bool) -> RankFolder:
        """Make the folders, and remove earlier traces with ``force``. Raises InputError as `check_observed`."""
        check_observed(folder, place, force=force)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name in _earlier(sorted(os.listdir(folder)), place):
                (folder / name).unlink(missing_ok=True)
            name = f"rank{place.rank}"
            clean(folder, (name,))
            staging = Path(tempfile.mkdtemp(prefix=beginning(name), suffix=".part", dir=folder))
        except OSError as fault:
            raise InputError(f"the folder cannot be written: {fault.strerror or fault}", file=folder) from None
        return cls(folder, place, staging)

    @property
    def raw_host(self) -> Path:
        """Where PyTorch writes the host trace."""
        return self.staging / f"host.{self.place.rank}.json"

    @property
    def raw_device(self) -> Path:
        """Where PyTorch writes the device trace."""
        return self.staging / f"device.{self.place.rank}.json"

    @property
    def manifest(self) -> Path:
        """The manifest, written last: where it is, the traces are complete."""
        return self.folder / f"manifest.{self.place.rank}.json"

    def write(self, facts: dict[str, Any], unfinished: int | None, *, has_shapes: bool) -> None:
        """Add shapes where there are none, compress what PyTorch wrote, move it into place, then the manifest."""
        try:
            lacking = 0 if has_shapes else add_shapes(self.raw_device, self.raw_host)
            packed = [_pack(raw, unfinished) for raw in (self.raw_host, self.raw_device)]
            sizes = {raw.name: raw.stat().st_size for raw in (self.raw_host, self.raw_device)}
            content = {
                "format": FORMAT,
                "rank": self.place.rank,
                "world_size": self.place.world_size,
                "host": packed[0].name,
                "device": packed[1].name,
                "uncompressed_bytes": sizes,
                **({"operators_without_shapes": lacking} if lacking else {}),
                **facts,
            }
            with undisturbed():
                for file in packed:
                    os.replace(file, self.folder / file.name)
                    placed.append(os.fspath(self.folder / file.name))
                bring_names_to_disk(self.folder)
                write_whole(self.manifest, _text(content))
        except OSError as fault:
            raise InputError(f"the traces cannot be written: {fault.strerror or fault}", file=self.folder) from None
        self.discard()

    def amend(self, facts: dict[str, Any]) -> None:
        """Put what is known later into the manifest."""
        content = json.loads(self.manifest.read_bytes())
        write_whole(self.manifest, _text({**content, **facts}))

    def discard(self) -> None:
        """Remove what was being written."""
        shutil.rmtree(self.staging, ignore_errors=True)


def _text(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=1, default=str).encode() + b"\n"


def _pack(raw: Path, unfinished: int | None) -> Path:
    """The compressed file, which depends on nothing but the data."""
    target = raw.with_name(f"{raw.name}.gz")
    with open(target, "wb") as file, gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
        for piece in _pieces(raw, unfinished):
            packed.write(piece)
    with open(target, "rb+") as whole:
        bring_to_disk(whole)
    return target


def _pieces(raw: Path, unfinished: int | None) -> Iterator[bytes]:
    """The file's bytes. A step that was cut short loses its mark: it is no step to be compared with others."""
    with open(raw, "rb") as file:
        if unfinished is None:
            yield from iter(lambda: file.read(1 << 20), b"")
            return
        mark, instead = f'"ProfilerStep#{unfinished}"'.encode(), f'"unfinished step {unfinished}"'.encode()
        for line in file:
            yield line.replace(mark, instead)

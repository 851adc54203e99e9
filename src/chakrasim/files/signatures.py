"""What files are by their first bytes: the one table."""

from __future__ import annotations

from typing import Final, NamedTuple

GZIP: Final = b"\x1f\x8b"
SQLITE: Final = b"SQLite format 3\0"
NSYS_REPORT: Final = "a report of Nsight Systems (.nsys-rep, .qdrep)"
ROCPROFV3_TABLE: Final = "a table of rocprofv3 (CSV)"
ROCPROF_TABLE: Final = "a table of rocprof (CSV)"
PARQUET: Final = "a Parquet file (a straggler trace?)"
#: What may stand before text in UTF-8.
BOM: Final = b"\xef\xbb\xbf"


class Signature(NamedTuple):
    """Bytes at a place of every file of a kind. ``packed``: other files may be in it."""

    start: bytes
    name: str
    packed: bool = False
    at: int = 0


_SIGNATURES: Final = (
    *(Signature(bytes((0x80, protocol)), "a Python pickle") for protocol in (2, 3, 4, 5)),
    Signature(b"\xff\xfe", "text in UTF-16 (redirected by a Windows shell?)"),
    Signature(b"\xfe\xff", "text in UTF-16 (redirected by a Windows shell?)"),
    Signature(b"PK\x03\x04", "a zip archive", packed=True),
    Signature(b"\x28\xb5\x2f\xfd", "zstandard-compressed data", packed=True),
    Signature(b"BZh", "bzip2-compressed data", packed=True),
    Signature(b"\xfd7zXZ\0", "xz-compressed data", packed=True),
    Signature(b"ustar", "a tar archive", packed=True, at=257),
    Signature(GZIP, "gzip data inside gzip", packed=True),
    Signature(SQLITE, "an SQLite database"),
    Signature(b"NVIDIA Tegra Profiler Report", NSYS_REPORT),
    *(Signature(start, ROCPROFV3_TABLE) for start in (b'"Kind","Agent_Id"', b'"Domain","Function"')),
    *(Signature(start, ROCPROF_TABLE) for start in (b"Index,KernelName", b'"Index","KernelName"')),
    Signature(b"PAR1", PARQUET),
    Signature(b"\x89HDF", "an HDF5 file"),
    Signature(b"\x7fELF", "a program"),
    Signature(b"\x93NUMPY", "a NumPy array"),
)


def signature(head: bytes) -> Signature | None:
    """What a file is whose bytes, unpacked once, begin with ``head``; None if that is none of these."""
    return next((known for known in _SIGNATURES if head.startswith(known.start, known.at)), None)

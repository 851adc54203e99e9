"""The same work on a cluster of Dask's, whoever started it: ``dask scheduler``, SLURM, Kubernetes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from chakrasim.errors import InputError

A = TypeVar("A")
R = TypeVar("R")

_PATIENCE_S: Final = 20


def run_on(address: str, work: Callable[[A], R], given: Sequence[A]) -> Iterator[R]:
    """``work`` of each on the workers of a scheduler, in order. Files that the work reads must be at the same paths
    there. Raises InputError where there is no such scheduler, or no Dask."""
    try:
        from distributed import Client
    except ImportError:
        raise InputError("a cluster needs Dask", place="--cluster",
                         remedy="pip install 'chakrasim[cluster]'") from None  # fmt: skip
    try:
        client = Client(address, timeout=_PATIENCE_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as fault:
        raise InputError("no scheduler answers", place="--cluster", found=address,
                         expected="an address such as tcp://host:8786",
                         remedy=f"start one: dask scheduler ({type(fault).__name__})") from None  # fmt: skip
    with client:
        futures = client.map(work, given, pure=False)
        for future in futures:
            yield future.result()
            future.release()

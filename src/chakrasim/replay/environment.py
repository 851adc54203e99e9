"""Which rank this process is, where a launcher (torchrun, SLURM, MPI) started it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from chakrasim.errors import InputError

_LAUNCHERS = (
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    ("MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("SLURM", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)


@dataclass(frozen=True)
class Launched:
    """This process among those that a launcher started."""

    launcher: str
    rank: int
    ranks: int
    local_rank: int


def launched(environment: Mapping[str, str] | None = None) -> Launched | None:
    """What the launcher's variables say, None where there is none. MPI's and SLURM's count from two processes on.

    Raises InputError for variables that are no ranks.
    """
    variables = os.environ if environment is None else environment
    for launcher, rank_name, size_name, local_name in _LAUNCHERS:
        if rank_name not in variables or size_name not in variables:
            continue
        rank, size = _number(variables, rank_name), _number(variables, size_name)
        if launcher != "torchrun" and size < 2:
            continue
        if rank >= size:
            raise InputError(f"{rank_name} is no rank of {size_name}", found=f"{rank} of {size}")
        local = _number(variables, local_name) if local_name in variables else rank
        return Launched(launcher, rank, size, local)
    return None


def _number(variables: Mapping[str, str], name: str) -> int:
    text = variables[name]
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise InputError(f"the variable {name} is no number", found=repr(text[:40]))
    return int(text)

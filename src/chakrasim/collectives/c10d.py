"""Where the operators of PyTorch's namespace c10d have what among their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Arguments:
    """Positions of arguments; -1: there is none. ``root``: of the root, or of the other side of a message;
    ``splits``: of the lists with a size for each member."""

    outputs: int = -1
    inputs: int = -1
    root: int = -1
    tag: int = -1
    splits: tuple[int, ...] = ()

    @property
    def group(self) -> int:
        """Of the process group, which follows the tensors."""
        return max(self.outputs, self.inputs, 0) + 1


NO_TENSORS: Final = Arguments()
_IN_PLACE: Final = Arguments(0, 0)
_APART: Final = Arguments(0, 1)
_APART_ROOT: Final = Arguments(0, 1, root=3)

ARGUMENTS: Final[Mapping[str, Arguments]] = {
    **dict.fromkeys(("allreduce_", "allreduce_coalesced_"), _IN_PLACE),
    "broadcast_": Arguments(0, 0, root=2),
    "reduce_": Arguments(0, 0, root=3),
    **dict.fromkeys(("allgather_", "_allgather_base_", "allgather_coalesced_"), _APART),
    "allgather_into_tensor_coalesced_": _APART,
    **dict.fromkeys(("reduce_scatter_", "_reduce_scatter_base_", "reduce_scatter_tensor_coalesced_"), _APART),
    **dict.fromkeys(("gather_", "gather_into_tensor_", "scatter_"), _APART_ROOT),
    "alltoall_": _APART,
    "alltoall_base_": Arguments(0, 1, splits=(3, 4)),
    **dict.fromkeys(("barrier", "monitored_barrier_"), NO_TENSORS),
    "send": Arguments(inputs=0, root=2, tag=3),
    "recv_": Arguments(0, root=2, tag=3),
    "recv_any_source_": Arguments(0, tag=2),
}
"""By operator, without its namespace."""

"""What communication the reference converter takes an NCCL kernel for (chakra-toolchain.md, 4.4)."""

from __future__ import annotations

from typing import Any, Final

from chakrasim.compat.chakra_convert.nodes import LinkedNode, int64_attribute, text_attribute
from chakrasim.trace.kinds import CollectiveType, NodeType

_SEND_RECV: Final = "ncclDevKernel_SendRecv"
_COLLECTIVES: Final = (
    ("allreduce", CollectiveType.ALL_REDUCE),
    ("alltoall", CollectiveType.ALL_TO_ALL),
    ("allgather", CollectiveType.ALL_GATHER),
    ("reducescatter", CollectiveType.REDUCE_SCATTER),
    ("broadcast", CollectiveType.BROADCAST),
)


def communication(node: LinkedNode, nodes: dict[Any, LinkedNode]) -> tuple[NodeType, bytes]:
    """The node type of a kernel, and the attributes that it has beside the common ones.

    Raises ValueError for a name that the reference converter does not know, and what it raises for odd inputs.
    """
    if node.is_metadata:
        return NodeType.METADATA_NODE, b""
    if "ncclKernel" not in node.name and "ncclDevKernel" not in node.name:
        return NodeType.COMP_NODE, b""
    kind, group = NodeType.COMM_COLL_NODE, node.group
    if _SEND_RECV in node.name:
        caller = nodes[node.parent]
        keyword = caller.name
        if caller.name == "record_param_comms":
            keyword = nodes[caller.parent].name
            group = caller.group if caller.group != "" else group
        if "send" in keyword:
            kind = NodeType.COMM_SEND_NODE
        elif "recv" in keyword:
            kind = NodeType.COMM_RECV_NODE
    parts = [int64_attribute("comm_type", collective(node.name))] if kind == NodeType.COMM_COLL_NODE else []
    parts.append(int64_attribute("comm_size", _size(node.inputs)))
    if group != "":
        parts.append(text_attribute("pg_name", group))
    return kind, b"".join(parts)


def collective(name: str) -> int:
    """The collective type that a kernel's name stands for. Raises ValueError if there is none."""
    plain = name.replace("_", "").replace("-", "").lower()
    for part, kind in _COLLECTIVES:
        if part in plain:
            return kind.value
    if _SEND_RECV in name:
        return CollectiveType.ALL_TO_ALL.value
    raise ValueError("its name stands for no collective that the reference converter knows")


def _size(inputs: Any) -> int:
    """Bytes of all tensors among the inputs: elements times bytes of an element."""
    size = 0
    for value, kind in zip(inputs["values"], inputs["types"], strict=False):
        if "Tensor" in kind:
            for tensor in value if kind.startswith("GenericList[Tensor") else (value,):
                size += tensor[3] * tensor[4]
    return size

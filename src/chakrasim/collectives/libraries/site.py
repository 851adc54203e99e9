"""What a library sees of the machine below a group of processes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NoReturn

from chakrasim.errors import InputError

VENDORS: Final = ("nvidia", "amd")
INSIDE: Final = ("nvswitch", "direct", "cube-mesh", "pcie", "xgmi")
NETWORKS: Final = ("infiniband", "roce", "efa", "slingshot", "tcp", "ethernet", "none", "unknown")
CPUS: Final = ("intel", "amd", "arm", "power", "unknown")


@dataclass(frozen=True)
class Site:
    """A group of processes, one a GPU, on a machine. Bandwidths are of the wire, in GB/s (bytes per ns).

    Where nodes have unequal numbers of the group's ranks, ``ranks_per_node`` is the smallest: the library searches each
    node alone and takes the fewest channels and the slowest speeds of all.

    Attributes
    ----------
    vendor: of the GPUs, one of `VENDORS`.
    capability: CUDA's compute capability such as 90; of AMD's GPUs 0.
    nodes: that the group is on.
    ranks_per_node: ranks of the group on each.
    inside: how the GPUs of a node are joined, one of `INSIDE`; ``direct`` is NVLink without a switch.
    inside_GBps: of each GPU and direction, product data such as 300 for an A100.
    nics_per_node, nic_GBps: the network's ports, and what each carries in a direction.
    network: one of `NETWORKS`.
    cpu: who made it, one of `CPUS`.
    gpus_per_node: that a node has; 0: as many as ranks.
    ranks: of the group, where that is not nodes times ranks of each; 0: it is.
    domain_nodes: nodes that share one NVLink domain (of an NVL72 rack with 4 GPUs a node: 18).
    model: name of the GPU where the capability does not tell it, such as ``gfx942``.
    """

    vendor: str
    capability: int
    nodes: int
    ranks_per_node: int
    inside: str
    inside_GBps: float
    nics_per_node: int = 0
    nic_GBps: float = 0.0
    network: str = "none"
    cpu: str = "unknown"
    gpus_per_node: int = 0
    ranks: int = 0
    domain_nodes: int = 1
    model: str = ""

    def __post_init__(self) -> None:
        """Raise an `InputError` for what cannot be."""
        for key, choices in (("vendor", VENDORS), ("inside", INSIDE), ("network", NETWORKS), ("cpu", CPUS)):
            if getattr(self, key) not in choices:
                _fail(key, repr(getattr(self, key)), "one of " + ", ".join(choices))
        for key in ("nodes", "ranks_per_node", "domain_nodes"):
            if getattr(self, key) < 1:
                _fail(key, getattr(self, key), "1 or more")
        if not 0 < self.inside_GBps < float("inf"):
            _fail("inside_GBps", self.inside_GBps, "a bandwidth above 0, in GB/s")
        if self.nodes > self.domain_nodes and not (self.nics_per_node > 0 and 0 < self.nic_GBps < float("inf")):
            _fail(
                "nic_GBps",
                f"{self.nics_per_node} ports of {self.nic_GBps:g} GB/s",
                "ports that carry something, since there are several nodes",
            )
        if 0 < self.gpus_per_node < self.ranks_per_node:
            _fail("gpus_per_node", self.gpus_per_node, f"at least the {self.ranks_per_node} ranks of a node")
        if self.inside == "cube-mesh" and self.board > 8:
            _fail("gpus_per_node", self.board, "at most the 8 GPUs of a cube mesh")
        if self.ranks and not self.nodes * self.ranks_per_node <= self.ranks <= self.nodes * self.board:
            _fail("ranks", self.ranks, f"between {self.nodes * self.ranks_per_node} and {self.nodes * self.board}")

    @property
    def nranks(self) -> int:
        """Ranks of the group."""
        return self.ranks or self.nodes * self.ranks_per_node

    @property
    def reach(self) -> str:
        """How a GPU reaches the nearest port: by a ``switch`` of PCIe, by its own processor (``c2c``), or the ``cpu``.

        Of Slingshot's nodes and of those without NVLink it is known that ports hang on the CPU, and it is assumed of
        those with sockets alone; of others that they are beside the GPUs.
        """
        if self.cpu == "arm" and self.capability >= 90:
            return "c2c"
        return "cpu" if self.network in ("slingshot", "tcp") or self.inside == "pcie" else "switch"

    @property
    def board(self) -> int:
        """GPUs of a node, of the group or not."""
        return self.gpus_per_node or self.ranks_per_node

    def merged(self) -> Site:
        """The same group where an NVLink domain is one node, which it is to libraries that know of it.

        A group whose nodes fill the last domain in part is taken to be spread as evenly as it goes.
        """
        if self.domain_nodes == 1:
            return self
        domains = -(-self.nodes // self.domain_nodes)
        each = self.nodes // domains
        return replace(
            self,
            nodes=domains,
            ranks_per_node=each * self.ranks_per_node,
            gpus_per_node=-(-self.nodes // domains) * self.board,
            ranks=self.nranks,
            nics_per_node=each * self.nics_per_node,
            domain_nodes=1,
        )


def _fail(key: str, found: object, expected: str) -> NoReturn:
    raise InputError("the group of processes cannot be", place=key, found=found, expected=expected)

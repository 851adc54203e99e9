"""A machine: network, system layer and remote memory together, checked against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.libraries.calibrated import Calibrated
from chakrasim.collectives.libraries.settings import Settings
from chakrasim.collectives.libraries.versions import Library
from chakrasim.errors import InputError
from chakrasim.machine.device.profile import DeviceProfile
from chakrasim.machine.graph.changes import Change
from chakrasim.machine.graph.graph import NO_ISLAND, NetworkGraph
from chakrasim.machine.graph.network_keys import NetworkModel
from chakrasim.machine.graph.routing import Routing
from chakrasim.machine.memory import RemoteMemory
from chakrasim.machine.network import Network
from chakrasim.machine.site import Make
from chakrasim.machine.slow import Slow, factors_of
from chakrasim.machine.system import System
from chakrasim.notes import Notes
from chakrasim.text.shown import Shown

MAX_SCALE = 1e9
Issue = Literal["astra-sim", "streams"]
ISSUES: Final = get_args(Issue)


@dataclass(frozen=True)
class Machine(Shown):
    """Everything that a workload runs on.

    ``network`` is a product of dimensions or a graph of links; ``network_model`` how messages share it (None: a graph
    ``flow``, dimensions what the caller says), ``routing`` how they find their ways through a graph; ``slow`` the ranks
    whose compute nodes take longer, or shorter, than the others'; ``changes`` what happens to links, switches and ranks
    of a graph during a run. ``library`` runs the collectives (None: the algorithms of ``system``), with ``settings``
    from its environment, sees GPUs and CPUs of ``make``, and is as fast as ``calibrated`` says (None: as on machines
    like it). ``issue`` says what runs at one time on a rank: one GPU operation and one communication, as in ASTRA-sim,
    or ``streams`` side by side. ``packets`` are keys of the packet network's configuration. ``profile`` times compute
    nodes, if there is one; ``compute_scale`` multiplies the times of compute nodes, ``comm_scale`` the sizes of
    collectives and messages; ``name`` and ``source`` (where the figures come from) are for people; ``warnings`` are
    those of the machine file.

    Raises :class:`chakrasim.InputError` when built with a scale that is no number from 0 to 10^9, a model that does not
    go with the network, or slow ranks that are not there.
    """

    network: Network | NetworkGraph
    system: System
    memory: RemoteMemory = field(default_factory=RemoteMemory)
    profile: DeviceProfile | None = None
    name: str = ""
    source: str = ""
    compute_scale: float = 1.0
    comm_scale: float = 1.0
    network_model: NetworkModel | None = None
    routing: Routing = field(default_factory=Routing)
    slow: tuple[Slow, ...] = ()
    changes: tuple[Change, ...] = ()
    library: Library | None = None
    settings: Settings = field(default_factory=Settings)
    make: Make = field(default_factory=Make)
    calibrated: Calibrated | None = None
    issue: Issue = "astra-sim"
    packets: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("compute_scale", "comm_scale"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_SCALE:
                expected = "a factor from 0 to 10^9"
                raise InputError("out of range", file="Machine", place=f"$.{name}", found=value, expected=expected)

        if self.issue not in ISSUES:
            expected = " or ".join(ISSUES)
            raise InputError("no such rule", file="Machine", place="$.issue", found=self.issue, expected=expected)
        if isinstance(self.network, NetworkGraph) and self.network_model in ("aware", "unaware"):
            what = f"the model {self.network_model} needs a network of dimensions, this one is a graph of links"
            raise InputError(what, file=self.name or "Machine", place="$.network.network-model", expected="flow")
        if self.slow:
            factors_of(self.slow, self.ranks, self._islands())

    @property
    def ranks(self) -> int:
        return self.network.ranks

    @property
    def graph(self) -> NetworkGraph:
        """The network as a graph of links, made of the dimensions where it is a product of such."""
        return self.network if isinstance(self.network, NetworkGraph) else self.network.to_graph()

    @property
    def dimensions(self) -> Network:
        """The network as a product of dimensions. Raises :class:`chakrasim.InputError` for any other graph."""
        if isinstance(self.network, Network):
            return self.network
        what = "the network is a graph of links, not a product of dimensions"
        raise InputError(what, file=self.name or "Machine", expected="network model flow")

    @property
    def compute_factors(self) -> NDArray[np.float64]:
        """float64[ranks]: what the times of each rank's compute nodes are multiplied by."""
        return factors_of(self.slow, self.ranks, self._islands())

    @property
    def places(self) -> NDArray[np.int32]:
        """int32[ranks]: those of one number stand together: on one island (of dimensions the innermost), or, outside of
        islands, on one leaf (`NetworkGraph.leaf`)."""
        islands, leaf = self._islands(), self.graph.leaf
        if islands is None:
            return leaf
        return np.where(islands >= 0, islands, leaf + islands.max() + 1).astype(np.int32)

    def _islands(self) -> NDArray[np.int32] | None:
        """The island of each rank, None where there are none."""
        if isinstance(self.network, NetworkGraph):
            own = self.network.island[: self.ranks]
            return own if (own != NO_ISLAND).any() else None
        inner = self.network.npus_count[0]
        return np.arange(self.ranks, dtype=np.int32) // np.int32(inner) if self.network.dimensions > 1 else None

    def _in_short(self) -> dict[str, str]:
        figures = {
            "name": self.name or "none",
            "ranks": f"{self.ranks:,}",
            "network": network_in_short(self.network),
        }
        library = {} if self.library is None else {"library": self.library.asked}
        return figures | library | ({} if self.profile is None else {"device": self.profile.name})


def network_in_short(net: Network | NetworkGraph) -> str:
    """One line: the dimensions, or how many vertices and links of a graph."""
    if isinstance(net, NetworkGraph):
        return f"graph of {net.vertices - net.ranks:,} switches and NICs, {net.links:,} links"
    dims = zip(net.topology, net.npus_count, net.bandwidth_gib, net.latency_ns, strict=True)
    return " x ".join(f"{kind} {n} ({gib:g} GiB/s, {ns:g} ns)" for kind, n, gib, ns in dims)


def check_dimensions(system: System, network: Network, notes: Notes, file: str = "system configuration") -> None:
    """Compare the implementation lists with the network's dimensions.

    A shorter list covers only the leading dimensions and adds a warning; raises :class:`chakrasim.InputError` for a
    longer one (astra-system.md 8.3). A list that begins with one of the one-ring algorithms covers everything.
    """
    for collective, algorithms in system.implementations.items():
        place = f"$.{collective}-implementation"
        if len(algorithms) > network.dimensions:
            raise InputError(
                "more algorithms than dimensions",
                file=file,
                place=place,
                found=len(algorithms),
                expected=f"at most {network.dimensions}, one per dimension of the network",
            )
        spanning = [i for i, algorithm in enumerate(algorithms) if algorithm.spans_all_ranks]
        if spanning and spanning[0] + 1 < len(algorithms):
            name = algorithms[spanning[0]].text
            notes.warn(f"{file}: {place}: entries behind {name} have no effect: it spans all ranks")
        if not spanning and len(algorithms) < network.dimensions and collective not in system.custom:
            covered = f"{len(algorithms)} of {network.dimensions} dimensions"
            notes.warn(f"{file}: {place}: covers {covered}: the collective leaves the outer ones out")

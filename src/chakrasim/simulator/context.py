"""What a simulation is asked to do: the machine, the groups and the options, checked, with the notes so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives import Schedule
from chakrasim.errors import InputError
from chakrasim.machine import DeviceProfile, Network, RemoteMemory, System
from chakrasim.machine.device.profile import PROCESSORS
from chakrasim.machine.graph.changes import Change
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routing
from chakrasim.machine.machine import Issue
from chakrasim.notes import Notes
from chakrasim.simulator.lowering.activities import Activities
from chakrasim.simulator.lowering.channels import Channels
from chakrasim.simulator.lowering.matrices import Matrix

if TYPE_CHECKING:
    from chakrasim.simulator.packet.network import Network as Packets


@dataclass(frozen=True)
class Limits:
    """Bounds that end absurd inputs before memory does."""

    max_nodes: int = 200_000_000
    """Graph nodes over all simulated ranks."""
    max_events: int = 50_000_000_000
    max_bytes: int | None = None
    """Memory of the arena (None: 12 GiB), and of reading a trace (None: see `chakrasim.files.inputs.bound`)."""

    @property
    def arena_bytes(self) -> int:
        """Memory of the simulation's arena."""
        return 12 * 2**30 if self.max_bytes is None else self.max_bytes


@dataclass(frozen=True)
class Protocol:
    """How messages and collectives are carried out, where there is a choice.

    Raises InputError for numbers out of range.

    Parameters
    ----------
    num_queues_per_dim, injection_scale, rendezvous:
        The reference's options of these names.
    physics:
        Run broadcasts as real collectives instead of replaying their recorded duration.
    messages:
        Run the collectives of the flow network message by message, by the algorithms that the machine names, instead of
        as one activity each.
    channels:
        Rings that a collective runs side by side on a graph of links; 0: as many as an island has NICs for its ranks.
    group_dimensions:
        On ASTRA-sim's networks, give a process group that is a product of coordinates of the dimensions (all of the
        first and half of the second, say) a phase for each dimension that it spans, as the group of all ranks has,
        instead of one ring over its members. A group that is no such product stays one ring, with a warning.
    """

    num_queues_per_dim: int = 1
    injection_scale: float = 1.0
    rendezvous: bool = False
    physics: bool = False
    messages: bool = False
    channels: int = 0
    group_dimensions: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.num_queues_per_dim <= 1 << 16:
            raise InputError("num_queues_per_dim is out of range", found=self.num_queues_per_dim, expected="1 to 65536")
        if not 0 <= self.injection_scale < 1e9:
            raise InputError("injection_scale is out of range", found=self.injection_scale, expected="0 to 10^9")


Replay = Literal["recorded", "transfer"]
NetworkModel = Literal["unaware", "aware", "flow", "packet"]


@dataclass(frozen=True)
class Context:
    """The setting of one simulation. ``notes``, ``counts`` and ``schedules`` fill up on the way; nothing else
    changes."""

    system: System
    network: Network
    memory: RemoteMemory
    groups: Mapping[int, tuple[int, ...]]
    ranks: int
    network_model: NetworkModel = "unaware"
    issue: Issue = "astra-sim"
    """What runs at one time on a rank."""
    graph: NetworkGraph | None = None
    """The links of the flow network."""
    packets: Packets | None = None
    """Hosts, switches and settings of the packet network."""
    routing: Routing = field(default_factory=Routing)
    changes: tuple[Change, ...] = ()
    """What becomes of links on the way."""
    activities: Activities | None = None
    """Where collectives are activities of the flow network; None where they run message by message."""
    channels: Channels | None = None
    """Where collectives run message by message on a graph of links: the rings that they take."""
    alone: Activities | None = None
    """Where a library's collectives run message by message: what each would be as one activity."""
    unswitched: Activities | None = None
    """The same on the packet network, as the library would run them if switches could not add up."""
    matrices: tuple[Matrix, ...] = ()
    """Of all-to-alls whose parts differ: who has what for whom."""
    protocol: Protocol = Protocol()
    role_of: Mapping[int, str] = field(default_factory=dict)
    """By group that a job brings: its role."""
    roles: tuple[str, ...] = ()
    """Names of process groups that mean another group on every rank; they have negative numbers, -1 and on."""
    replay: Replay | None = None
    """Which measured durations take the place of the machine."""
    compute_scale: float = 1.0
    """Factor of the times of compute nodes."""
    slow: Mapping[int, float] = field(default_factory=dict)
    """By rank: a further factor, of ranks that are slower (or faster) than the rest."""
    comm_scale: float = 1.0
    """Factor of the sizes of collectives and messages."""
    common_start: bool = False
    starts: Mapping[int, int] = field(default_factory=dict)
    """By rank: when it starts (ns), of ranks that start later than 0."""
    job_of: NDArray[np.int64] | None = None
    """int64[ranks], where there are several jobs: the number of each rank's job, -1 for ranks without one."""
    profile: DeviceProfile | None = None
    """What times the compute nodes that say what they compute, instead of the roofline."""
    profile_is_given: bool = False
    """Whether the profile was asked for by name: it then times what was measured on another device, too."""
    meetings: tuple[int, ...] = ()
    """By meeting of a replay: how many ranks its others wait for."""
    schedules: dict[Hashable, tuple[Schedule, Schedule]] = field(default_factory=dict)
    """Those built so far, by what they were asked for (`lowering.plans`)."""
    limits: Limits = field(default_factory=Limits)
    notes: Notes = field(default_factory=Notes)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def aware(self) -> bool:
        """Whether messages contend as in ASTRA-sim's congestion-aware network."""
        return self.network_model == "aware"

    @property
    def carries_messages_to_itself(self) -> bool:
        """Whether a rank can send to itself: up and down its own links of a congestion-aware one-dimensional switch."""
        return self.aware and self.network.dimensions == 1 and self.network.kinds[0].returns

    @property
    def processors(self) -> int:
        """Of a device."""
        return PROCESSORS if self.profile is None else self.profile.processors

    @property
    def running_limit(self) -> int:
        """How many chunks of a queue may run at a time."""
        return -(-self.system.active_chunks_per_dimension // self.protocol.num_queues_per_dim)

    def group_text(self, group: int) -> str:
        """A group for messages."""
        if group == 0:
            return "all ranks"
        role = self.role_of.get(group)
        return f"group {group}" + (f" (role {role!r})" if role is not None else "")

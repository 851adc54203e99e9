"""A machine: network, system layer and remote memory together, checked against each other."""

from __future__ import annotations

from dataclasses import dataclass, field

from chakrasim.errors import InputError
from chakrasim.machine.device.profile import DeviceProfile
from chakrasim.machine.memory import RemoteMemory
from chakrasim.machine.network import Network
from chakrasim.machine.system import System
from chakrasim.notes import Notes
from chakrasim.text.shown import Shown

MAX_SCALE = 1e9


@dataclass(frozen=True)
class Machine(Shown):
    """Everything that a workload runs on.

    ``profile`` times compute nodes, if there is one; ``compute_scale`` multiplies the times of compute nodes,
    ``comm_scale`` the sizes of collectives and messages; ``name`` and ``source`` (where the figures come from) are for
    people; ``warnings`` are those of the machine file.

    Raises :class:`chakrasim.InputError` when built with a scale that is no number from 0 to 10^9.
    """

    network: Network
    system: System
    memory: RemoteMemory = field(default_factory=RemoteMemory)
    profile: DeviceProfile | None = None
    name: str = ""
    source: str = ""
    compute_scale: float = 1.0
    comm_scale: float = 1.0
    warnings: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("compute_scale", "comm_scale"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_SCALE:
                expected = "a factor from 0 to 10^9"
                raise InputError("out of range", file="Machine", place=f"$.{name}", found=value, expected=expected)

    @property
    def ranks(self) -> int:
        return self.network.ranks

    def _in_short(self) -> dict[str, str]:
        net = self.network
        dims = zip(net.topology, net.npus_count, net.bandwidth_gib, net.latency_ns, strict=True)
        figures = {
            "name": self.name or "none",
            "ranks": f"{self.ranks:,}",
            "network": " x ".join(f"{kind} {n} ({gib:g} GiB/s, {ns:g} ns)" for kind, n, gib, ns in dims),
        }
        return figures | ({} if self.profile is None else {"device": self.profile.name})


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

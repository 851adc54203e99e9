"""A machine: network, system layer and remote memory together, checked against each other."""

from __future__ import annotations

from dataclasses import dataclass, field

from chakrasim.errors import InputError
from chakrasim.machine.device.profile import DeviceProfile
from chakrasim.machine.memory import RemoteMemory
from chakrasim.machine.network import Network
from chakrasim.machine.system import System
from chakrasim.notes import Notes


@dataclass(frozen=True)
class Machine:
    """Everything that a workload runs on. ``profile`` times compute nodes, if there is one; ``name`` and ``source``
    (where the figures come from) are for people."""

    network: Network
    system: System
    memory: RemoteMemory = field(default_factory=RemoteMemory)
    profile: DeviceProfile | None = None
    name: str = ""
    source: str = ""

    @property
    def ranks(self) -> int:
        return self.network.ranks


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

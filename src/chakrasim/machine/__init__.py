"""What is simulated on: typed configurations, ASTRA-sim's own files, our machine file and the presets."""

from typing import TYPE_CHECKING

from chakrasim.lazy import lazily

if TYPE_CHECKING:
    from chakrasim.machine.algorithm import Algorithm
    from chakrasim.machine.board import board_names, load_board
    from chakrasim.machine.device.file import device_names, device_text, dump_device, load_device
    from chakrasim.machine.device.profile import DeviceProfile
    from chakrasim.machine.graph.formats.api import write_graph
    from chakrasim.machine.graph.formats.server import Servers
    from chakrasim.machine.graph.graph import NetworkGraph
    from chakrasim.machine.graph_file import read_graph
    from chakrasim.machine.groups import CommGroups, load_groups
    from chakrasim.machine.machine import Machine, check_dimensions
    from chakrasim.machine.machine_file import load_machine
    from chakrasim.machine.memory import RemoteMemory, load_memory
    from chakrasim.machine.network import Network, load_network
    from chakrasim.machine.presets import preset_names, preset_text
    from chakrasim.machine.sized import sized_machine, sized_text
    from chakrasim.machine.system import System
    from chakrasim.machine.system_file import load_system

__all__ = [
    "Algorithm",
    "CommGroups",
    "DeviceProfile",
    "Machine",
    "Network",
    "NetworkGraph",
    "RemoteMemory",
    "Servers",
    "System",
    "board_names",
    "check_dimensions",
    "device_names",
    "device_text",
    "dump_device",
    "load_board",
    "load_device",
    "load_groups",
    "load_machine",
    "load_memory",
    "load_network",
    "load_system",
    "preset_names",
    "preset_text",
    "read_graph",
    "sized_machine",
    "sized_text",
    "write_graph",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "algorithm": ("Algorithm",),
        "board": ("board_names", "load_board"),
        "device.file": ("device_names", "device_text", "dump_device", "load_device"),
        "device.profile": ("DeviceProfile",),
        "graph.formats.api": ("write_graph",),
        "graph.formats.server": ("Servers",),
        "graph.graph": ("NetworkGraph",),
        "graph_file": ("read_graph",),
        "groups": ("CommGroups", "load_groups"),
        "machine": ("Machine", "check_dimensions"),
        "machine_file": ("load_machine",),
        "memory": ("RemoteMemory", "load_memory"),
        "network": ("Network", "load_network"),
        "presets": ("preset_names", "preset_text"),
        "sized": ("sized_machine", "sized_text"),
        "system": ("System",),
        "system_file": ("load_system",),
    },
)

"""A measured curve's machine as the library sees it: a `Site` from a row of machines.csv."""

from __future__ import annotations

import re
from typing import Final

from chakrasim.calibration.measurements.curves import Curve, MachineRow
from chakrasim.collectives.libraries.settings import Settings, settings_of
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.versions import Library, library_of
from chakrasim.errors import InputError

CAPABILITIES: Final = (
    (r"\bG?B300|GB300", 103),
    (r"G?B[12]00", 100),
    (r"GH200|H[12]00|H800|H20\b", 90),
    (r"\bL4\b|\bL40S?\b|RTX.?(?:40|PRO|6000.?ADA)", 89),
    (r"\bA10G?\b|\bA40\b|\bA6000|RTX.?30|\bA16\b", 86),
    (r"A[138]00|A100X", 80),
    (r"\bT4\b|RTX.?20", 75),
    (r"V100", 70),
    (r"P100", 60),
)
"""CUDA's compute capabilities by name of the GPU."""
LINK_GBPS: Final = {60: 80.0, 70: 150.0, 80: 300.0, 90: 450.0, 100: 900.0, 103: 900.0}
"""Of NVLink, each GPU and direction, by capability: NVIDIA's data sheets."""
_NETWORKS: Final = (
    (r"efa|aws", "efa"),
    (r"slingshot|cxi", "slingshot"),
    (r"infiniband|\bib\b|hdr|ndr|edr|xdr|quantum", "infiniband"),
    (r"roce|spectrum", "roce"),
    (r"tcpxo?\b|fastrak", "unknown"),
    (r"tcp|socket|gvnic", "tcp"),
    (r"ethernet", "ethernet"),
    (r"^none$|^$", "none"),
)
_CPUS: Final = (
    (r"amd|epyc|milan|rome|genoa|turin", "amd"),
    (r"grace|arm|graviton|ampere", "arm"),
    (r"power", "power"),
    (r"intel|xeon|lake|rapids", "intel"),
)


def site_of(curve: Curve, machine: MachineRow) -> Site:
    """What the library saw when a curve was measured.

    Raises :class:`chakrasim.InputError` for what cannot be described, with the reason.
    """
    gpu = machine.gpu or curve.gpu
    vendor = "amd" if re.search(r"MI\d|gfx|Instinct", gpu, re.IGNORECASE) else "nvidia"
    capability = _capability(gpu, machine) if vendor == "nvidia" else 0
    each, rest = divmod(curve.nranks, curve.nodes)
    if rest or not each:
        raise _cannot(curve, f"{curve.nranks} ranks on {curve.nodes} nodes", "as many ranks on each node")
    inside = _inside(machine.intra_node, vendor)
    rack = re.search(r"rack of (\d+)|NVL(\d+)", machine.intra_node)
    board = machine.gpus_per_node or curve.gpus_per_node or each
    domain = max(int(next(filter(None, rack.groups()))) // board, 1) if rack else 1
    ports, port = _ports(curve, machine, board) if curve.nodes > domain else (0, 0.0)
    network = _network(curve, machine) if curve.nodes > domain else "none"
    if network == "efa" and ports > board:
        # The network's plugin shows the library one device for all ports beside a GPU, and spreads messages over them.
        ports, port = board, port * ports / board
    return Site(
        vendor=vendor,
        capability=capability,
        nodes=curve.nodes,
        ranks_per_node=each,
        inside=inside,
        inside_GBps=machine.intra_GBps_per_gpu_per_dir or LINK_GBPS.get(capability, 64.0),
        nics_per_node=ports,
        nic_GBps=port,
        network=network,
        cpu=_first(_CPUS, machine.cpu) or "unknown",
        gpus_per_node=max(board, each),
        domain_nodes=domain,
        model=_model(gpu) if vendor == "amd" else "",
    )


def library_of_curve(curve: Curve) -> Library:
    """The library of a curve; of an unknown version the newest.

    Raises :class:`chakrasim.InputError` for a library other than NCCL and RCCL.
    """
    version = curve.version if re.match(r"\s*v?\d+\.\d+", curve.version) else ""
    return library_of(f"{curve.library or 'nccl'}-{version}" if version else curve.library or "nccl")


def environment_of_curve(curve: Curve) -> dict[str, str]:
    """The variables that users had set, as far as the columns say: algorithm, protocol, and ``KEY=VALUE`` in the
    environment."""
    given = {
        f"NCCL_{key.removeprefix('NCCL_')}": value for key, value in re.findall(r"([A-Z][A-Z0-9_]+)=(\S+)", curve.env)
    }
    for key, value in (("NCCL_ALGO", curve.algo), ("NCCL_PROTO", curve.proto)):
        if value not in ("", "auto"):
            given[key] = value
    return given


def settings_of_curve(curve: Curve) -> Settings:
    """The same as settings of the library."""
    return settings_of(environment_of_curve(curve))


def _capability(gpu: str, machine: MachineRow) -> int:
    for pattern, capability in CAPABILITIES:
        if re.search(pattern, gpu, re.IGNORECASE):
            return capability
    link = re.search(r"NVLink\s*(\d)", machine.intra_node)
    known = {"1": 60, "2": 70, "3": 80, "4": 90, "5": 100}
    if link and link[1] in known:
        return known[link[1]]
    raise InputError(
        "a GPU that is not known", file="machines.csv", place=machine.name, found=repr(gpu),
        expected="a GPU of NVIDIA or AMD by name, or an NVLink generation",
    )  # fmt: skip


def _model(gpu: str) -> str:
    series = re.search(r"MI(\d)", gpu)
    return {"3": "gfx942", "2": "gfx90a", "1": "gfx908"}.get(series[1] if series else "", "gfx942")


def _inside(text: str, vendor: str) -> str:
    kinds = (
        (r"cube", "cube-mesh"),
        (r"nvlink\d? ?direct|direct|per pair|bridge", "direct"),
        (r"nvswitch|nvlink|nvl\d", "nvswitch"),
        (r"xgmi|infinity", "xgmi"),
        (r"pci", "pcie"),
    )
    return _first(kinds, text) or ("xgmi" if vendor == "amd" else "pcie")


def _ports(curve: Curve, machine: MachineRow, board: int) -> tuple[int, float]:
    """The ports of a node's network, and GB/s of each."""
    if machine.nics_per_node and machine.nic_Gbps:
        return machine.nics_per_node, machine.nic_Gbps / 8
    if machine.node_GBps_per_dir:
        ports = machine.nics_per_node or board
        return ports, machine.node_GBps_per_dir / ports
    raise _cannot(
        curve, f"no bandwidth between nodes of {machine.name}", "nics_per_node and nic_Gbps, or node_GBps_per_dir"
    )


def _network(curve: Curve, machine: MachineRow) -> str:
    network = network_of(machine.network)
    plain = network == "slingshot" and curve.env and not re.search(r"ofi|cxi|fabric|plugin", curve.env, re.IGNORECASE)
    return "tcp" if plain or re.search(r"socket", curve.env, re.IGNORECASE) else network


def network_of(text: str) -> str:
    """The kind of a network by what it is called; ``unknown`` for others."""
    found = _first(_NETWORKS, text)
    return "unknown" if found in (None, "none") else found


def _first(choices: tuple[tuple[str, str], ...], text: str) -> str | None:
    return next((name for pattern, name in choices if re.search(pattern, text, re.IGNORECASE)), None)


def _cannot(curve: Curve, found: str, expected: str) -> InputError:
    return InputError(
        "the curve cannot be described", file="curves.csv", place=curve.name, found=found, expected=expected
    )

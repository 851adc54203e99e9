"""What the library saw of a measured machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chakrasim.calibration.collectives.describe import network_of, site_of
from chakrasim.calibration.measurements.curves import Curve, MachineRow


def curve(nodes: int = 2, env: str = "") -> Curve:
    none = np.zeros(0)
    return Curve("c", "made", "m", "A100-SXM4-80GB", nodes, 8, 8 * nodes, "NCCL", "2.21.5", "all_reduce", env=env,
                 place=none.astype(np.bool_), bytes=none.astype(np.int64), time_us=none)  # fmt: skip


def row(**more: Any) -> MachineRow:
    known = {"gpu": "A100-SXM4-80GB", "gpus_per_node": 8, "intra_node": "NVSwitch NVLink3", "nics_per_node": 8,
             "nic_Gbps": 200.0, "network": "InfiniBand HDR"}  # fmt: skip
    return MachineRow("m", **{**known, **more})


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("InfiniBand HDR", "infiniband"),
        ("Slingshot 11", "slingshot"),
        ("EFA v2", "efa"),
        ("RoCE ConnectX-7", "roce"),
        ("TCP over gVNIC", "tcp"),
        ("GPUDirect-TCPXO", "unknown"),
        ("400G class", "unknown"),
    ],
)
def test_networks_are_told_by_what_they_are_called(said: str, kind: str) -> None:
    assert network_of(said) == kind


@pytest.mark.parametrize(
    ("network", "env", "kind"),
    [
        ("Slingshot 11", "", "slingshot"),
        ("Slingshot 11", "set 3 (OFI plugin)", "slingshot"),
        ("Slingshot 11", "CXI hook on (libfabric)", "slingshot"),
        ("Slingshot 11", "set 2 (GDR PHB, CROSS_NIC)", "tcp"),
        ("InfiniBand HDR", "set 2 (GDR PHB, CROSS_NIC)", "infiniband"),
        ("InfiniBand HDR", "default: sockets", "tcp"),
    ],
)
def test_slingshot_without_its_plugin_is_sockets(network: str, env: str, kind: str) -> None:
    assert site_of(curve(env=env), row(network=network)).network == kind


def test_ports_of_efa_beside_a_gpu_are_one() -> None:
    many = site_of(curve(), row(network="EFA v2", nics_per_node=32, nic_Gbps=100.0))
    assert (many.nics_per_node, many.nic_GBps) == (8, 50.0)
    few = site_of(curve(), row(network="EFA", nics_per_node=4, nic_Gbps=100.0))
    assert (few.nics_per_node, few.nic_GBps) == (4, 12.5)
    other = site_of(curve(), row(nics_per_node=16, nic_Gbps=100.0))
    assert (other.nics_per_node, other.nic_GBps) == (16, 12.5)

"""Lines of NCCL_DEBUG=INFO with INIT, GRAPH and TUNING, as NCCL 2.20 to 2.30 write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrasim import InputError
from chakrasim.calibration.measurements.nccl_debug import NcclDebug, RecordedChoice, RecordedGraph
from chakrasim.calibration.measurements.read import read_measurements
from chakrasim.notes import Notes

INIT = """NCCL version 2.27.7+cuda12.9
n0:7:9 [0] NCCL INFO Using network IB
n0:7:9 [0] NCCL INFO comm 0x55d0 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
n1:7:9 [3] NCCL INFO comm 0x55d1 rank 11 nRanks 16 nNodes 2 localRanks 8 localRank 3 MNNVL 0
n0:7:9 [0] NCCL INFO P2P Chunksize set to 131072
n0:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA
n0:7:9 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM
n0:7:9 [0] NCCL INFO Channel 02/0 : 0[0] -> 1[1] via P2P/CUMEM
n0:7:9 [0] NCCL INFO threadThresholds 8/8/64 | 128/8/64 | 512 | 512
n0:7:9 [0] NCCL INFO 16 coll channels, 16 collnet channels, 8 nvls channels, 24 p2p channels, 2 p2p channels per peer
n0:7:9 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5.
"""
GRAPH = """n0:7:9 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 8, bw 48.000000/40.000000, type NVL/PIX, sameChannels 1
n0:7:9 [1] NCCL INFO Pattern 1, crossNic 2, nChannels 8, bw 30.000000/20.000000, type NVL/PXN, sameChannels 0
n0:7:9 [1] NCCL INFO Pattern 4, crossNic 0, nChannels 8, bw 48.000000/40.000000, type NVL/PIX, sameChannels 1
"""


def said(folder: Path, text: str, *told: str) -> NcclDebug:
    """What a log without times says, read with just these warnings."""
    path = folder / "job.log"
    path.write_text(text)
    notes = Notes()
    found = read_measurements(path, notes)
    assert len(notes) == len(told)
    for line, part in zip(notes, told, strict=True):
        assert part in line
    assert found.curves == () and list(found.recorded) == ["job"]
    return found.recorded["job"]


def test_what_is_said_once_and_by_all_ranks(tmp_path: Path) -> None:
    found = said(tmp_path, INIT + GRAPH)
    assert (found.library, found.version, found.network) == ("NCCL", "2.27.7+cuda12.9", "IB")
    assert (found.nranks, found.nnodes, found.local_ranks) == (16, 2, 8)
    assert dict(found.channels) == {"coll": 16, "collnet": 16, "nvls": 8, "p2p": 24, "p2p per peer": 2}
    assert found.thread_thresholds == (8, 8, 64, 128, 8, 64, 512, 512) and found.p2p_chunk_bytes == 131072
    assert dict(found.transports) == {"NET/IB/0/GDRDMA": 1, "P2P/CUMEM": 2}
    assert found.environment == (("NCCL_IB_HCA", "mlx5"),)
    assert found.graphs == (
        RecordedGraph(1, 2, 8, 30, 20, "NVL", "PXN", False),
        RecordedGraph(4, 0, 8, 48, 40, "NVL", "PIX", True),
    )


def test_calls_of_2_20_to_2_22_have_numbers_and_no_names(tmp_path: Path) -> None:
    lines = "n:1:1 [0] NCCL INFO 8388608 Bytes -> Algo 0 proto 2 time 44.100000\n" * 3
    lines += "n:1:1 [0] NCCL INFO 4096 Bytes -> Algo 4 proto 0 time 14.1\n"
    assert said(tmp_path, lines).choices == (
        RecordedChoice("", 4096, "NVLS", "LL", None),
        RecordedChoice("", 8388608, "Tree", "Simple", None, "", 3),
    )
    found = said(tmp_path, lines).choice("all_reduce", 4096)
    assert found is not None and found.algorithm == "NVLS"


def test_calls_of_2_23_have_the_whole_size(tmp_path: Path) -> None:
    line = "2: node-0:309:309 [0] NCCL INFO AllGather: 37756928 Bytes -> Algo 1 proto 2 time 2860.208008\n"
    assert said(tmp_path, line).choices == (RecordedChoice("all_gather", 37756928, "Ring", "Simple", None),)


@pytest.mark.parametrize(
    ("algorithm", "protocol", "names"),
    [
        *(("RING", "SIMPLE", ("Ring", "Simple")), ("TREE", "LL", ("Tree", "LL")), ("PAT", "SIMPLE", ("PAT", "Simple"))),
        *(("NVLS_TREE", "SIMPLE", ("NVLSTree", "Simple")), ("Tree", "LL128", ("Tree", "LL128"))),
        *(("COLLNET_DIRECT", "SIMPLE", ("CollNetDirect", "Simple")), ("NEW_ONE", "X", ("NEW_ONE", "X"))),
        *(("99", "7", ("99", "7")), ("COLLNET_CHAIN", "SIMPLE", ("CollNetChain", "Simple"))),
    ],
)
def test_names_since_2_24(tmp_path: Path, algorithm: str, protocol: str, names: tuple[str, str]) -> None:
    line = (
        f"n:1:1 [0] NCCL INFO AllReduce: 65536 Bytes -> Algo {algorithm} proto {protocol} channel{{Lo..Hi}}={{4..11}}\n"
    )
    assert said(tmp_path, line).choices == (RecordedChoice("all_reduce", 65536, *names, 8),)


def test_sizes_since_2_24_are_of_one_rank(tmp_path: Path) -> None:
    lines = "".join(
        f"n0:7:9 [0] NCCL INFO {name}: 1024 Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..0}}\n"
        for name in ("AllGather", "ReduceScatter", "AllReduce", "Broadcast", "Reduce")
    )
    assert {choice.collective: choice.bytes for choice in said(tmp_path, INIT + lines).choices} == {
        **dict.fromkeys(("all_gather", "reduce_scatter"), 16384),
        **dict.fromkeys(("all_reduce", "broadcast", "reduce"), 1024),
    }
    found = said(tmp_path, lines, "2 recorded calls are left out: nothing says how many ranks they are of")
    assert {choice.collective for choice in found.choices} == {"all_reduce", "broadcast", "reduce"}


def test_symmetric_kernels_and_copy_engines(tmp_path: Path) -> None:
    lines = """n0:7:9 [0] NCCL INFO AllReduce [Symmetric]: 2097152 Bytes -> Kernel AllReduce_RSxLDMC_AGxSTMC nchannels 16 nthreads 512 nWorks 1
n0:7:9 [0] NCCL INFO AllGather [Symmetric]: 1024 Bytes -> Kernel AllGather_LLMC nchannels 4 nthreads 512
n0:7:9 [0] NCCL INFO AlltoAll [Copy Engine]: 4096 Bytes -> cudaMemcpy; CE synchronization with NVLS
n0:7:9 [0] NCCL INFO AllGather [Hierarchical CE]: 4096 Bytes -> RMA proxy + CE
"""  # noqa: E501
    assert set(said(tmp_path, INIT + lines).choices) == {
        RecordedChoice("all_reduce", 2097152, "Symmetric", "", 16, "AllReduce_RSxLDMC_AGxSTMC"),
        RecordedChoice("all_gather", 16384, "Symmetric", "", 4, "AllGather_LLMC"),
        RecordedChoice("alltoall", 65536, "CopyEngine", "", None),
        RecordedChoice("all_gather", 65536, "CopyEngine", "", None),
    }


def test_rccl(tmp_path: Path) -> None:
    found = said(tmp_path, "RCCL version : 2.22.3-HEAD:7d8d67c\n")
    assert (found.library, found.version) == ("RCCL", "2.22.3-HEAD:7d8d67c")
    found = said(tmp_path, "n:1:2 [0] NCCL INFO NCCL version 2.20.5+cuda12.4\n")
    assert (found.library, found.version) == ("NCCL", "2.20.5+cuda12.4")


@pytest.mark.parametrize(
    "line",
    [
        "n:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
        "n:1:1 [0] NCCL INFO AllReduce: Bytes -> Algo RING",
        "n:1:1 [0] NCCL INFO AllReduce: 65536 Bytes -> Algo RING proto",
        "n:1:1 [0] NCCL INFO AllReduce: 99999999999999999999 Bytes -> nothing",
        "n:1:1 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 8, bw 4.8.0/40.0, type NVL/PIX, sameChannels 1",
        "n:1:1 [0] NCCL INFO comm 0x55d0 rank",
        "n:1:1 [0] NCCL WARN The application was compiled with NCCL version 2.29.2",
    ],
)
def test_lines_that_say_nothing(tmp_path: Path, line: str) -> None:
    path = tmp_path / "job.log"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match="there are no measurements in this file; found a text file beginning 'n:1:1"):
        read_measurements(path)

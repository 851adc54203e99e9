"""Logs as nccl-tests and rccl-tests print them, in every form that is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FACTORS = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    **dict.fromkeys(("all_gather", "reduce_scatter", "alltoall", "gather", "scatter"), lambda n: (n - 1) / n),
    **dict.fromkeys(("broadcast", "reduce", "sendrecv"), lambda n: 1.0),
}
Made = tuple[int, float, float]
"""Bytes, times in us out of place and in place."""


@dataclass(frozen=True)
class Form:
    """How a version, a launcher and options make a log look."""

    root: bool = True
    fitted: bool = True
    wrong: str = "#wrong"
    per_iteration: bool = False
    timestamp: bool = False
    only_in_place: bool = False
    milliseconds: bool = False
    label: str = ""
    noise: bool = False
    head: bool = True
    header: bool = True
    gpu: str = "NVIDIA H100 80GB HBM3"
    group: str = "Group  0 "


def fitted(value: float, width: int) -> str:
    """As many digits as the width has room for."""
    for digits in (2, 1, 0):
        text = f"{value:{width}.{digits}f}"
        if len(text) <= width:
            return text
    return f"{value:{width}.{1 if width >= 7 else 0}e}"


def time_text(us: float, form: Form) -> str:
    if form.milliseconds:
        return f"{us / 1e3:7.3f}"
    if form.fitted:
        return fitted(us, 7)
    return f"{us:7.0f}" if us >= 10_000 else f"{us:7.1f}" if us >= 100 else f"{us:7.2f}"


def printed_us(us: float, form: Form) -> float:
    """The time that is left of it in print."""
    return float(time_text(us, form)) * (1e3 if form.milliseconds else 1)


def log(made: Sequence[Made], collective: str, nranks: int, nodes: int, form: Form, dtype: str = "float") -> str:
    """The whole log of one run."""
    redop = "sum" if collective in ("all_reduce", "reduce_scatter", "reduce") else "none"
    lines = _head(collective, nranks, nodes, form) if form.head else []
    lines += _header(form) if form.header else []
    for number, (size, *times) in enumerate(made):
        lines.append(_row(size, times, dtype, redop, FACTORS[collective](nranks), form))
        if form.noise and number % 3 == 0:
            lines.append("node1:25:99 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM")
            lines.append("WARNING: There is at least non-excluded one OpenFabrics device found")
    lines += ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 12.3 ", "#"]
    return "".join(f"{form.label}{line}\n" for line in lines)


def _head(collective: str, nranks: int, nodes: int, form: Form) -> list[str]:
    lines = [
        "# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807",
        f"# Collective test starting: {collective}_perf",
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1",
        "#",
        "# Using devices",
    ]
    each = nranks // nodes
    for rank in range(nranks):
        host, device = f"node{rank // each}", rank % each
        lines.append(
            f"#  Rank {rank:2} {form.group}Pid {99 + rank:6} on {host} device {device:2} [0000:1b:00] {form.gpu}"
        )
    if form.noise:
        lines.append("node0:25:99 [0] NCCL INFO Using network IB")
        lines.append("NCCL version 2.28.7+cuda12.9")
    return lines


def _group(form: Form) -> str:
    more = "    i_min    i_max    i_p99    i_cv%" if form.per_iteration else ""
    return f"     time   algbw   busbw  {form.wrong}{more}"


def _header(form: Form) -> list[str]:
    places = "in-place" if form.only_in_place else "out-of-place                       in-place          "
    names = "bytes             N" if form.milliseconds else " size         count"
    columns = "redop    root" if form.root else "redop"
    groups = _group(form) * (1 if form.only_in_place else 2)
    lines = [
        "#",
        f"#                                                              {places}",
        f"#      {names}      type   {columns}{groups}{'   timestamp' if form.timestamp else ''}",
    ]
    if not form.milliseconds:
        lines.append(
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)"
        )
    return lines


def _row(size: int, times: Sequence[float], dtype: str, redop: str, factor: float, form: Form) -> str:
    count = size // {"float": 4, "double": 8, "half": 2, "int8": 1}[dtype]
    row = f"{size:12}  {count:12}  {dtype:>8}  {redop:>6}" + ("      -1" if form.root else "")
    for us in times[1:] if form.only_in_place else times:
        algbw = size / us / 1e3
        wrong = "    0" if form.wrong == "#wrong" else "5e-07"
        widths = [fitted(bw, 6) if form.fitted else f"{bw:6.2f}" for bw in (algbw, algbw * factor)]
        row += f"  {time_text(us, form)}  {widths[0]}  {widths[1]}  {wrong}"
        row += f"  {us * 0.9:7.2f}  {us * 1.1:7.2f}  {us:7.2f}  {3.5:7.2f}" if form.per_iteration else ""
    return row + ("  2026-01-02 03:04:05" if form.timestamp else "")

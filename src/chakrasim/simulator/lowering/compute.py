"""How long compute nodes take that say what they compute: by a device profile, or by ASTRA-sim's roofline.

Nodes that say nothing of their work keep the duration that was recorded for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.simulator.context import Context
from chakrasim.simulator.lowering.attributes import TOO_LARGE, optional, required
from chakrasim.trace import Trace
from chakrasim.trace import work as names
from chakrasim.trace.chakra.graph import AttrColumn
from chakrasim.trace.chakra.refusal import refuse_where
from chakrasim.trace.kinds import NodeType
from chakrasim.trace.work import Work, WorkKind

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Column = Callable[[str], AttrColumn]

ROOFLINE: Final = "the roofline model"
TOO_LATE: Final = 1 << 63
"""ns"""
_NAMED: Final = 5


def modelled(trace: Trace, column: Column, gpu: Mask, context: Context) -> Mask:
    """Which of the compute nodes ``gpu`` (bool[n]) a model of the device times; the others keep their duration.

    Durations measured on a device give way to a profile only that was asked for by name.
    """
    chosen = gpu & _says_enough(trace, column, context)
    measured = column(names.RECORDED).integers() != 0
    return chosen if context.profile_is_given else chosen & ~measured


def _says_enough(trace: Trace, column: Column, context: Context) -> Mask:
    """bool[n]: nodes that state what the model of the device goes by. The roofline needs operations and bytes; a node
    with one of them and no duration is an error later on."""
    operations, size = column(names.FLOPS).present, column(names.BYTES).present
    if context.profile is not None:
        return operations | size
    if not context.system.roofline_enabled:
        return np.zeros_like(operations)
    return (operations & size) | ((operations | size) & ~_has_duration(trace, column))


def _has_duration(trace: Trace, column: Column) -> Mask:
    found: Mask = (trace.duration_micros > 0) | column("duration_ns").present | column(names.COMPUTE_NS).present
    return found


def recorded_ns(trace: Trace, column: Column, nodes: Ints) -> Ints:
    """int64[k]: what nodes take by their recorded duration, to the ns where that is stated, 1 ns where neither is
    there. Raises InputError for one beyond the clock's range."""
    micros = trace.duration_micros[nodes]
    refuse_where(
        micros > (TOO_LATE - 1) // 1000,
        trace,
        "the duration is beyond the clock's range",
        nodes=nodes,
        found=lambda i: f"{micros[i]} us",
        expected="less than 2^63 ns",
    )
    stated = column(names.COMPUTE_NS)
    exact = optional(stated, nodes)
    return np.where(stated.present[nodes], exact, np.maximum(micros.astype(np.int64) * 1000, 1))


def warn_of_silent(trace: Trace, column: Column, gpu: Mask, context: Context) -> None:
    """Warn of compute nodes ``gpu`` (bool[n]) that the roofline has nothing to go by for."""
    if context.profile is not None or not context.system.roofline_enabled:
        return
    silent = gpu & ~_says_enough(trace, column, context)
    if silent.any():
        context.notes.warn(
            "compute nodes that do not state num_ops and tensor_size take their recorded duration: the roofline has "
            "nothing to go by"
        )
    if (silent & ~_has_duration(trace, column)).any():
        context.notes.warn("compute nodes that state neither num_ops and tensor_size nor a duration take 1 ns each")


def warn_of_untimed(column: Column, chosen: Mask, micros: NDArray[np.uint64], context: Context) -> None:
    """Warn of compute nodes ``chosen`` (bool[n]), on their recorded duration, that have work but no duration."""
    operations = column(names.FLOPS)
    # A kind is what traces made for device profiles have. Bits: an attribute that nothing uses may be of any type.
    works = column(names.KIND).present & operations.present & (operations.bits != 0)
    if (chosen & (micros == 0) & works).any():
        context.notes.warn(
            "compute nodes that say what they compute, but not how long it takes, take no time: the machine has "
            "neither a device profile nor the roofline; give a profile (--device-profile NAME)"
        )


@dataclass
class Tally:
    """How many compute nodes a model of the device times, and why it does not time the others.

    Attributes
    ----------
    timed, kept: nodes of the device that the model times, and that keep their recorded duration.
    measured: those of ``kept`` that state their work, and a duration measured on a device.
    of_host: nodes of the host, which no model times.
    unknown: operators whose work is not (fully) known, by name and reason.
    """

    timed: int = 0
    kept: int = 0
    measured: int = 0
    of_host: int = 0
    unknown: Counter[str] = field(default_factory=Counter)

    def add(self, trace: Trace, copies: int, context: Context) -> None:
        """Count the nodes of a trace that ``copies`` ranks run."""
        computing = trace.types == NodeType.COMP_NODE
        gpu = computing & (trace.attr("is_cpu_op").integers() == 0)
        timed = modelled(trace, trace.attr, gpu, context)
        self.timed += copies * int(timed.sum())
        self.kept += copies * int((gpu & ~timed).sum())
        self.measured += copies * int((gpu & ~timed & (trace.attr(names.RECORDED).integers() != 0)).sum())
        self.of_host += copies * int((computing & ~gpu).sum())
        why = trace.attr(names.UNKNOWN)
        for node in np.flatnonzero(gpu & why.present).tolist():
            self.unknown[f"{trace.name(node)} ({why.string(node)})"] += copies

    def warnings(self, context: Context) -> Iterator[str]:
        """What the user has to know of it."""
        if self.unknown:
            named = ", ".join(f"{name} x {count}" for name, count in self.unknown.most_common(_NAMED))
            more = f" and {len(self.unknown) - _NAMED} more" if len(self.unknown) > _NAMED else ""
            yield (
                f"the work of {self.unknown.total()} compute nodes is not known: they take their recorded duration "
                f"(1 ns where there is none), or what their bytes take: {named}{more}"
            )
        if self.measured:
            yield (
                f"{self.measured} compute nodes keep the durations measured on their device, not what this machine's "
                "would be: a device profile given by name (--device-profile NAME) times them"
            )
        elif context.profile is not None and not self.timed and (context.profile_is_given or self.kept + self.of_host):
            yield f"the device profile has no effect: {self._reason()}"

    def _reason(self) -> str:
        if self.kept:
            return f"none of the {self.kept} compute nodes of the device states its work (num_ops, tensor_size)"
        if self.of_host:
            return (
                f"all {self.of_host} compute nodes are work of the host (is_cpu_op); of a run on a CPU, the host trace "
                "alone, without its device trace, becomes work of a device"
            )
        return "the workload has no compute nodes"


def compute_ns(trace: Trace, column: Column, nodes: Ints, context: Context) -> tuple[Ints, Mask]:
    """Times of the modelled nodes, int64[nodes] ns, and which of them do nothing at all and are skipped.

    Raises InputError at a node that cannot be timed.
    """
    if context.profile is not None:
        times = context.profile.durations_ns(work_of(trace, nodes, column=column, warn=context.notes.warn))
        message = "the device profile gives a time beyond the clock's range"
        refuse_where(times >= TOO_LARGE, trace, message, nodes=nodes)
        return times, np.zeros(len(nodes), np.bool_)
    off = "switch the roofline off (roofline-enabled: 0) to run on the recorded durations"
    ops = required(column(names.FLOPS), nodes, ROOFLINE, off).astype(np.float64)
    size = required(column(names.BYTES), nodes, ROOFLINE, off).astype(np.float64)
    return _roofline_ns(trace, nodes, ops, size, context), size == 0


def _roofline_ns(trace: Trace, nodes: Ints, ops: Floats, size: Floats, context: Context) -> Ints:
    """ops / min(bandwidth * intensity, peak), truncated to ns: doubles in the reference's order (section 7)."""
    system = context.system
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        perf = np.minimum(system.local_mem_bw * (ops / size), system.peak_perf_flops)
        runtime = ops / perf * 1e9
        # Work without operations (copies) is bound by memory: the limit of the formula, where the reference has 0 / 0.
        runtime = np.where((ops == 0) & (system.local_mem_bw > 0), size / system.local_mem_bw * 1e9, runtime)
    if system.peak_perf_flops == 0 or system.local_mem_bw == 0:
        context.notes.warn(
            "the roofline model has no peak-perf or no local-mem-bw: compute takes no time, as in ASTRA-sim"
        )
    runtime = np.where(np.isinf(runtime) | (size == 0), 0.0, runtime)
    refuse_where(
        ~(runtime < float(TOO_LATE)),
        trace,
        "the roofline model gives a time beyond the clock's range",
        nodes=nodes,
        found=lambda i: f"num_ops {ops[i]:.0f}, tensor_size {size[i]:.0f}",
        expected="num_ops > 0 and a time of less than 2^63 ns",
    )
    return runtime.astype(np.int64)


def work_of(
    trace: Trace, nodes: Ints, *, column: Column | None = None, warn: Callable[[str], None] | None = None
) -> Work:
    """What compute nodes do, by the attributes of ``chakrasim.trace.work``.

    An attribute that is missing counts as 0 (kernels: 1). A node that gives no bytes_read and bytes_written has half
    its tensor_size of each. A node without a kind is a GEMM if it has m, n and k, else of kind OTHER, as is one of
    unknown kind, which is a warning. Raises InputError for values that are no numbers from 0 to 2^62 - 1.

    Parameters
    ----------
    nodes: int64[n], positions in the trace.
    column: how to get an attribute's column, where they are kept already; else ``trace.attr``.
    warn: told what was guessed.
    """
    column = column or trace.attr
    read, written = _traffic(column, nodes)
    shape = [optional(column(name), nodes) for name in names.SHAPE]
    kernels = optional(column(names.KERNELS), nodes, 1)
    return Work(
        kind=_kinds(column(names.KIND), nodes, shape, warn),
        flops=optional(column(names.FLOPS), nodes),
        bytes_read=read,
        bytes_written=written,
        batch=shape[0],
        m=shape[1],
        n=shape[2],
        k=shape[3],
        causal=optional(column(names.CAUSAL), nodes) != 0,
        dtype=column(names.DTYPE).texts(nodes),
        kernels=np.maximum(kernels, 1),
    )


def _traffic(column: Column, nodes: Ints) -> tuple[Ints, Ints]:
    """Bytes read and written. What tensor_size has beyond the two (it is at least 1) does not count."""
    read, written = column(names.BYTES_READ), column(names.BYTES_WRITTEN)
    given = read.present[nodes] | written.present[nodes]
    total = optional(column(names.BYTES), nodes)
    total = np.where(total == 1, 0, total)
    return (
        np.where(given, optional(read, nodes), total - total // 2),
        np.where(given, optional(written, nodes), total // 2),
    )


def _kinds(column: AttrColumn, nodes: Ints, shape: list[Ints], warn: Callable[[str], None] | None) -> Ints:
    spelt = column.texts(nodes)
    kinds = np.zeros(len(nodes), np.int64)
    for name in np.unique(spelt).tolist():
        if name in names.WORK_KINDS:
            kinds[spelt == name] = names.WORK_KINDS[name]
        elif name and warn is not None:
            warn(f"op_kind {name[:40]!r} is not known: such nodes are timed by their operations and bytes alone")
    _, m, n, k = shape
    kinds[(spelt == "") & (m > 0) & (n > 0) & (k > 0)] = WorkKind.GEMM
    return kinds

"""Which runs may reckon their rings as wholes (`kernels.wholes`), and whether that saves work."""

from __future__ import annotations

from collections.abc import Iterable

from chakrasim.collectives import Peer, Program
from chakrasim.collectives.schedule import NO_GATE
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.plans import Phase, Plan, pass_ns


def obstacle(plans: Iterable[Plan], context: Context, shares_memory: bool) -> str:
    """Why the rings of a run have to go message by message; "" if they need not."""
    if context.network_model != "unaware" or context.replay is not None:
        return "messages meet on links"
    if context.protocol.rendezvous or context.protocol.num_queues_per_dim > 1:
        return "rendezvous, or several queues a dimension"
    if context.system.model_shared_bus or shares_memory:
        return "ranks share a bus or memory"
    if not all(is_ring(plan) for plan in plans if plan.chunks):
        return "there are other collectives than rings of one phase"
    return ""


def is_ring(plan: Plan) -> bool:
    """Whether a collective is one ring, in which every member sends on what it has received."""
    if plan.programs or plan.activity >= 0 or plan.rings or len(plan.phases) != 1:
        return False
    phase = plan.phases[0]
    schedule = phase.schedules[0]
    if phase.tree_counter >= 0 or phase.queue_rule == at.QUEUE_LAST or len(schedule.programs) != 1:
        return False
    return not schedule.endpoint_delay_always and _goes_round(schedule.programs[0])


def _goes_round(program: Program) -> bool:
    """Every bundle but the last sends to a neighbour and waits for the other one, always as many bytes."""
    if (program.initial_bundles, program.start_ops, program.gate_rows, program.peer) != (1, (), NO_GATE, Peer.OFFSET):
        return False
    *acting, last = program.rows
    if last.repeat != 1 or last.ops or not acting or len(acting[0].ops) != 2:
        return False
    send, receive = acting[0].ops
    pair = send.send and not receive.send and (send.peer, send.size_bytes) == (-receive.peer, receive.size_bytes)
    return pair and abs(send.peer) == 1 and all(row.ops == acting[0].ops for row in acting)


def most_task_ns(phases: Iterable[Phase], context: Context) -> int:
    """The longest bundle or reduction of some rings."""
    bundle_ns = max(at.LOCAL_BUNDLE_NS, context.system.scaled_endpoint_delay_ns(context.protocol.injection_scale))
    sizes = {row.bundle_bytes for p in phases for row in p.schedules[0].programs[0].rows if row.reduce}
    return max([bundle_ns, *(3 * pass_ns(size, context.system.local_mem_bw) for size in sizes)])

"""What waits in the host's memory, and how it gets there and back: one access a layer, or a part of the states.

Stores are in order on one stream, loads on another, as on the two copy engines of a GPU. Buffers for three parts
suffice: computation waits for the store before the last, and a load begins when the part before the one that needs it
does.
"""

from __future__ import annotations

from chakrasim.generator.layers.ends import Optimizer
from chakrasim.generator.layers.parameters import Held, stage_parts
from chakrasim.generator.layers.tape import STREAMS, Outside, Tape, last_on
from chakrasim.generator.spec.spec import Spec
from chakrasim.trace.kinds import NodeType

IN_FLIGHT = 3
"""Parts on the device at once: in use, coming and going."""


def offloaded_states(spec: Spec, stage: int) -> list[int]:
    """Bytes of optimizer states in the host's memory, of each part of a rank that has any."""
    if not spec.offload.optimizer:
        return []
    sizes = (Optimizer.own(spec, held) * spec.state_bytes for held in _trained(spec, stage))
    return [round(spec.offload.optimizer * size) for size in sizes]


def _trained(spec: Spec, stage: int) -> list[Held]:
    return [held for held in (part.trained(spec) for part in stage_parts(spec, stage)) if held.total]


class Mover:
    """Accesses to the host's memory during a pass."""

    def __init__(self, tape: Tape, phase: str) -> None:
        self.tape, self.phase = tape, phase
        self._stored = [last_on(STREAMS["store"])]

    def begin(self) -> None:
        """A part begins: it waits for the store before the last."""
        if len(self._stored) > 1:
            self.tape.hold(self._stored[-2])

    def store(self, what: str, size: int) -> None:
        """Send what the last compute node left behind."""
        kind = NodeType.MEM_STORE_NODE
        self._stored.append(self.tape.access(kind, what, size, [self.tape.compute_tail], [], self.phase))

    def load(self, what: str, size: int, after: list[int], control: list[int]) -> list[int]:
        """Get something back; its node, if it is of any size."""
        return [self.tape.access(NodeType.MEM_LOAD_NODE, what, size, after, control, self.phase)] if size else []


def update_in_parts(spec: Spec, stage: int, part: Optimizer, after: list[int]) -> int:
    """The update of each part between the load and the store of its states; returns the last compute node."""
    tape, mover = part.tape, Mover(part.tape, str(part.phase))
    held, sizes = _trained(spec, stage), offloaded_states(spec, stage)
    if not sizes:
        return part.step(Held(), after)
    names = [f"states {number + 1} of {len(sizes)}" for number in range(len(sizes))]
    begins: int = Outside.COMPUTE
    came = mover.load(names[0], sizes[0], [], [begins])
    for number, size in enumerate(sizes):
        mover.begin()
        begins = tape.compute_tail
        ahead = mover.load(names[number + 1], sizes[number + 1], [], [begins]) if number + 1 < len(sizes) else []
        tape.need(came)
        part.step(held[number], after if number == 0 else [])
        if size:
            mover.store(names[number], size)
        came = ahead
    return tape.compute_tail

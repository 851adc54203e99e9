"""All congestion controls by their numbers in `CC_MODE`, and the kernels that call the one of a network."""

from __future__ import annotations

from typing import Final

from chakrasim.jit import inner, leaf
from chakrasim.simulator.packet.control import dcqcn, dctcp, hpcc, pint, swift, timely
from chakrasim.simulator.packet.control.control import Hook
from chakrasim.simulator.packet.state import MODE, Net

DCQCN: Final = 1
HPCC: Final = 3
TIMELY: Final = 7
CONTROLS: Final = {
    DCQCN: dcqcn.CONTROL,
    HPCC: hpcc.CONTROL,
    TIMELY: timely.CONTROL,
    8: dctcp.CONTROL,
    10: pint.CONTROL,
    20: swift.CONTROL,
}
"""Any other number is no control: the window alone holds back."""
OURS: Final = (20,)
"""Numbers that are no control in the reference."""


@inner
def nothing(n: Net, a: int, b: int) -> None:
    """No control."""


def _either(number: int, hook: Hook, others: Hook) -> Hook:
    """A kernel that calls one of the two, as the network's control says."""

    @leaf
    def call(n: Net, a: int, b: int) -> None:
        if n.g[MODE] == number:
            hook(n, a, b)
        else:
            others(n, a, b)

    return call


def _any_of(hooks: dict[int, Hook | None]) -> Hook:
    """A kernel that calls the one of the network's control."""
    call: Hook = nothing
    for number, hook in hooks.items():
        if hook is not None:
            call = _either(number, hook, call)
    return call


begin: Final = _any_of({number: control.begin for number, control in CONTROLS.items()})
on_ack: Final = _any_of({number: control.on_ack for number, control in CONTROLS.items()})
on_timer: Final = _any_of({number: control.on_timer for number, control in CONTROLS.items()})
end: Final = _any_of({number: control.end for number, control in CONTROLS.items()})
at_dequeue: Final = _any_of({number: control.at_dequeue for number, control in CONTROLS.items()})

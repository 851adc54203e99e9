"""The shared memory bus of a rank: coupled endpoints with LogGP parameters (astra-system.md, 10.3).

The NPU's side and the memory's side form a pair; the NPU's side owns a lower bus, another such pair. A transfer from
the NPU is a request on the NPU's side, one from memory a request on the memory's side.
"""

from __future__ import annotations

from chakrasim.jit import inner
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.clock import Words, allocate, register
from chakrasim.simulator.kernels.network import real

READS_IN_A_ROW = 8


@inner
def append(m: Words, head: int, transfer: int) -> None:
    """Append to the list whose first and last stand at ``head`` and ``head + 1``."""
    m[transfer + at.TRANSFER_NEXT] = 0
    if m[head] == 0:
        m[head] = transfer
    else:
        m[m[head + 1] + at.TRANSFER_NEXT] = transfer
    m[head + 1] = transfer


@inner
def pop(m: Words, head: int) -> int:
    transfer = m[head]
    m[head] = m[transfer + at.TRANSFER_NEXT]
    return transfer


@inner
def narrow(size: int) -> int:
    """Sizes pass through a signed 32-bit integer here, as in the reference."""
    return ((size + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


@inner
def new_transfer(m: Words, size: int, process: bool, back: bool, then: int, a: int, b: int) -> int:
    transfer = allocate(m, at.TRANSFER_WORDS)
    m[transfer + at.TRANSFER_BYTES] = size
    m[transfer + at.TRANSFER_PROCESS] = 1 if process else 0
    m[transfer + at.TRANSFER_BACK] = 1 if back else 0
    m[transfer + at.TRANSFER_THEN] = then
    m[transfer + at.TRANSFER_A] = a
    m[transfer + at.TRANSFER_B] = b
    return transfer


@inner
def request_transfer(
    m: Words, npu: int, from_memory: bool, size: int, process: bool, back: bool, stream: int, reduce_ns: int
) -> None:
    """A bundle on the bus: it ends in a completion of ``stream``'s bundle."""
    transfer = new_transfer(m, narrow(size), process, back, at.THEN_BUNDLE, stream, reduce_ns)
    if from_memory:
        memory = m[npu + at.BUS_PARTNER]
        append(m, memory + at.BUS_SENDS, transfer)
        poke(m, memory)
    else:
        use_lower_bus(m, npu, at.YES, transfer, at.NO, at.THEN_SEND)


@inner
def use_lower_bus(m: Words, npu: int, from_memory: bool, transfer: int, back: bool, then: int) -> None:
    """Move a transfer's data over the lower bus; ``then`` is what happens to it on the upper bus afterwards."""
    lower = m[npu + at.BUS_LOWER]
    side = m[lower + at.BUS_PARTNER] if from_memory else lower
    part = new_transfer(m, m[transfer + at.TRANSFER_BYTES], at.NO, back, then, npu, transfer)
    append(m, side + at.BUS_SENDS, part)
    poke(m, side)


@inner
def poke(m: Words, endpoint: int) -> None:
    """What every event at an endpoint ends with: if it is free and has something to send, it sends, or gives way.

    After more than eight receptions in a row the partner goes first, if it has something to send and has not had as
    many.
    """
    if m[endpoint + at.BUS_STATE] != at.BUS_FREE or m[endpoint + at.BUS_SENDS] == 0:
        return
    partner = m[endpoint + at.BUS_PARTNER]
    if (
        m[endpoint + at.BUS_READS] > READS_IN_A_ROW
        and m[partner + at.BUS_SENDS] != 0
        and m[partner + at.BUS_READS] <= READS_IN_A_ROW
    ):
        if m[partner + at.BUS_STATE] == at.BUS_FREE:
            transmit(m, partner)
        return
    transmit(m, endpoint)


@inner
def transmit(m: Words, endpoint: int) -> None:
    """Send the head of the sends to the partner: reception there, then the end of sending here.

    A transfer of 0 bytes counts as -1 byte beyond the first, as in the reference, but never ends before now.
    """
    o = m[at.BUS_O]
    offset = o
    if m[endpoint + at.BUS_BEFORE] == at.BUS_SENDING:
        elapsed = m[at.NOW] - m[endpoint + at.BUS_LAST]
        offset = o if o + elapsed > m[at.BUS_G_GAP] else m[at.BUS_G_GAP] - elapsed
    transfer = pop(m, endpoint + at.BUS_SENDS)
    partner = m[endpoint + at.BUS_PARTNER]
    append(m, partner + at.BUS_RECEIVES, transfer)
    m[partner + at.BUS_RECEIVE_COUNT] += 1
    m[partner + at.BUS_BEFORE] = m[partner + at.BUS_STATE]
    m[partner + at.BUS_STATE] = at.BUS_RECEIVING
    gap = real(m, 2 * m[at.DIMS] + m[endpoint + at.BUS_LOWER_KIND])
    rest = m[transfer + at.TRANSFER_BYTES] - 1
    slot = m[endpoint + at.BUS_SLOT]
    register(m, slot, max(0, int(offset + rest * gap + m[at.BUS_L] + o)), at.DO_BUS_RECEIVED, partner, at.NONE)
    m[partner + at.BUS_READS] = 0
    m[endpoint + at.BUS_STATE] = at.BUS_SENDING
    register(m, slot, max(0, int(offset + gap * rest)), at.DO_BUS_SENT, endpoint, at.NONE)


@inner
def begin_work(m: Words, endpoint: int) -> None:
    """Process the head of the transfers that need it."""
    size = m[m[endpoint + at.BUS_WORK] + at.TRANSFER_BYTES]
    duration_ns = size // 100 * m[at.BUS_REDUCTION] + 50
    register(m, m[endpoint + at.BUS_SLOT], duration_ns, at.DO_BUS_PROCESSED, endpoint, at.NONE)
    m[endpoint + at.BUS_WORKING] = 1


@inner
def on_sent(m: Words, endpoint: int) -> None:
    m[endpoint + at.BUS_LAST] = m[at.NOW]
    m[endpoint + at.BUS_BEFORE] = m[endpoint + at.BUS_STATE]
    m[endpoint + at.BUS_STATE] = at.BUS_FREE
    m[endpoint + at.BUS_READS] += 1
    poke(m, endpoint)

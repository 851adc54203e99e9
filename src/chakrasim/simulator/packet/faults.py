"""The faults of the reference, each a switch: all off by default, all on for comparison with it."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Faults:
    """What the reference does wrong or surprisingly (packet-network.md); the right thing is done where one is off.

    Attributes
    ----------
    whole_microseconds
        DCQCN's timers are cut to whole us; right: to whole ns
    wakes_for_all
        a host's port looks for its next packet at queue pairs that wait for something else, too, and oversleeps
    acks_keep_priority
        ACK_HIGH_PRIO does not reach switches; right: acknowledgements take queue 0 there
    thresholds_wrap
        a switch whose headrooms exceed its buffer has an endless one; right: it is refused. Bytes in flight that are
        negative, after a second retreat, hold the window shut
    pause_time_zero_resumes
        a frame with PAUSE_TIME 0 lets go what it should stop
    interval_from_start
        L2_ACK_INTERVAL counts from the first byte of a flow, and its end is not acknowledged otherwise, nor a window
        that is smaller
    duplicates_unacknowledged
        a packet received twice is not acknowledged, so that a lost last acknowledgement leaves a flow unfinished; nor
        is one that brings new bytes behind old ones
    chunked_end
        with L2_BACK_TO_ZERO, a flow that is no multiple of the chunk, or whose window is less than one, does not end
    no_retransmission_timer
        a lost tail leaves a flow unfinished, and one of no bytes does not end
    zero_interval_rejects
        with L2_ACK_INTERVAL 0 senders take no acknowledgement in
    unknown_rates_as_25g
        HPCC knows seven rates of links and takes others for 25 Gb/s
    five_hops
        HPCC's record has room for five switches; a longer way is not controlled
    infinite_rate_is_zero
        a rate divided by 0 becomes the lowest; right: the highest
    no_time_stamps
        TIMELY takes the time of day for its round trip
    zero_gain
        EWMA_GAIN is 0 where it is not given; right: 1/16
    unmarked_rates_mark_all
        a link speed without thresholds marks everything; right: it is refused
    unknown_keys_pass
        a misspelt key is passed over; right: it is refused
    sizes_wrap
        sizes are 32-bit numbers with a sign: messages of 2 GiB and more, with which it goes wrong, are refused
    receivers_learn_late
        a message counts as received when its sender has the last acknowledgement; right: with its last byte
    last_of_parallel_links
        of several links between two nodes the last alone carries; right: each is a way of its own
    bytes_of_cut_links_stay
        packets dropped with a link that went down stay in the buffer's accounts
    priorities_overfill
        each priority of a port has the whole headroom of the port and priority 0 no limit at all, so that a switch
        holds more than its buffer; right: what goes beyond that is dropped
    only_its_controls
        numbers of CC_MODE that the reference does not know are no control; right: 20 is Swift
    pauses_are_held
        frames of NIC_TOTAL_PAUSE_TIME wait behind acknowledgements that are paused, so that two hosts stop each other
        for good; and a link with errors may lose the frame that lets a port go on
    """

    whole_microseconds: bool = False
    wakes_for_all: bool = False
    acks_keep_priority: bool = False
    thresholds_wrap: bool = False
    pause_time_zero_resumes: bool = False
    interval_from_start: bool = False
    duplicates_unacknowledged: bool = False
    chunked_end: bool = False
    no_retransmission_timer: bool = False
    zero_interval_rejects: bool = False
    unknown_rates_as_25g: bool = False
    five_hops: bool = False
    infinite_rate_is_zero: bool = False
    no_time_stamps: bool = False
    zero_gain: bool = False
    unmarked_rates_mark_all: bool = False
    unknown_keys_pass: bool = False
    sizes_wrap: bool = False
    receivers_learn_late: bool = False
    last_of_parallel_links: bool = False
    bytes_of_cut_links_stay: bool = False
    priorities_overfill: bool = False
    only_its_controls: bool = False
    pauses_are_held: bool = False


NO_FAULTS = Faults()
ALL_FAULTS = Faults(**{fault.name: True for fault in fields(Faults)})


def faults_of(compat: bool) -> Faults:
    """All that the reference has, or none."""
    return ALL_FAULTS if compat else NO_FAULTS

"""The tables of a network at time 0."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.buffers import MOST_BYTES
from chakrasim.simulator.packet.control.table import TIMELY
from chakrasim.simulator.packet.loop import MARGIN, ROUTES_NEW
from chakrasim.simulator.packet.network import Network, least_window, line_rates, most_hops, port_that_ends
from chakrasim.simulator.packet.observed.monitor import with_room_for_samples
from chakrasim.simulator.packet.state import Longs, Net, records
from chakrasim.simulator.packet.streams import LINKS, STATE, rand_state, stream_state
from chakrasim.simulator.packet.switches import PAUSE_BYTES

SMALLEST_RING, LARGEST_RING = 1 << 12, 1 << 16


@dataclass(frozen=True, eq=False)
class Sizes:
    """Room for so many flows, items and lines of logs."""

    flows: int
    items: int = 1 << 14
    pauses: int = 1 << 12
    log: int = 0
    pairs: int = 16
    """Queue pairs in the list of a host's port."""


def new_net(network: Network, sizes: Sizes) -> Net:
    """A network on which nothing is yet."""
    ports = network.ports
    count = ports.node.size
    settings = network.settings
    hops = most_hops(network)
    control = network.control
    words = 1 if control is None else control.words + control.words_a_hop * hops
    words = -(-words // 8) * 8 if words <= 16 else words
    own = np.zeros((sizes.flows + 1) * words, np.int64)
    stride = hops if control is not None and control.words_a_hop else 0
    is_host = network.topology.is_host
    rows, times = _times(network)
    ring = _ring(network, times)
    g = _numbers(network, words, stride, ring)
    x = np.zeros(at.REAL_GLOBALS)
    gain = settings.ewma_gain
    x[at.GAIN] = gain if gain is not None else 0.0 if network.faults.zero_gain else 1 / 16
    x[at.TWO] = 2.0
    x[at.U_TARGET], x[at.PINT_LOG_BASE] = settings.u_target, settings.pint_log_base
    rates = line_rates(network)[:8]
    x[at.LINE_RATES : at.LINE_RATES + len(rates)] = rates
    losses, streams, loss_of = _losses(network)
    items = max(sizes.items, 4 * count + 4 * MARGIN)
    net = Net(
        items=records(items, at.ITEM),
        ports=_port_records(network, rows, is_host, loss_of, sizes.pairs),
        queues=records(8 * count, at.QUEUE),
        nodes=_node_records(network, is_host),
        flows=records(sizes.flows + 1, at.FLOW),
        buckets=records(ring, at.BUCKET),
        filled=np.zeros(ring // 32, np.int64),
        later=records(items, at.LATER),
        pairs=np.zeros(int(np.count_nonzero(is_host[ports.node])) * sizes.pairs + 1, np.uint32),
        codes=np.zeros(int(np.count_nonzero(is_host[ports.node])) * sizes.pairs + 1, np.uint8),
        words=own,
        reals=own.view(np.float64),
        records=np.zeros(items * stride, np.int64),
        ways=network.ways.ways,
        choices=network.ways.choices,
        times=times,
        losses=losses,
        streams=streams,
        starts=np.zeros(0, np.uint32),
        changed=np.zeros(0, np.int64),
        moved=np.zeros(0, np.uint32),
        ended=np.zeros(sizes.flows + 1, np.uint32),
        pauses=records(sizes.pauses, at.PAUSED),
        log=records(sizes.log, at.LOGGED),
        samples=records(0, at.SAMPLE),
        seen=np.zeros(0, np.int64),
        g=g,
        x=x,
    )
    net.items.kind[1:count], net.items.port[1:count] = at.SENT, np.arange(1, count)
    net.g[at.LISTS] = sizes.pairs
    _chain(net, count)
    return net


def _chain(net: Net, first: int) -> None:
    """Make the items from one on free, in ascending order, in front of those that are."""
    items = net.items
    items.next[first:-1] = np.arange(first + 1, items.size)
    items.next[-1] = net.g[at.FREE]
    net.g[at.FREE] = first
    net.g[at.SPARE] += items.size - first


def grown(net: Net) -> Net:
    """The same tables with room for more of what there is no room for."""
    g = net.g
    if g[at.UNLISTED]:
        net = _with_longer_lists(net)
    if g[at.SPARE] < g[at.BURST]:
        old = net.items.size
        size = 2 * old + int(g[at.BURST])
        stride = int(g[at.RECORDS])
        net = net._replace(items=at.longer(net.items, size), later=at.longer(net.later, size))
        net = net._replace(records=at.longer(net.records, size * stride))
        _chain(net, old)
    if g[at.PAUSES] + 1 >= net.pauses.size:
        net = net._replace(pauses=at.longer(net.pauses, 2 * net.pauses.size))
    if g[at.LOGGING] and g[at.LOGS] + MARGIN >= net.log.size:
        net = net._replace(log=at.longer(net.log, 2 * net.log.size + 2 * MARGIN))
    return with_room_for_samples(net) if g[at.SAMPLE_NS] else net


def around_the_cut(net: Net, network: Network) -> tuple[Net, Network]:
    """The tables with routes around the link that goes down now, with which the run goes on."""
    port = int(net.g[at.CUT_LINK])
    network = replace(network, ways=network.ways_without(port))
    return with_changes(net, network, np.array([port], np.int64), 0), network


def with_changes(net: Net, network: Network, changed: Longs, then: int) -> Net:
    """The tables with the routes of the network, and ports as of `Net.changed`; links change again at ``then`` ns (0:
    not any more)."""
    moved = np.argsort(net.flows.source, kind="stable").astype(np.uint32)
    waiting = int(np.count_nonzero(net.flows.state == at.WAITING))
    net.g[at.BURST] = max(int(net.g[at.BURST]), MARGIN + waiting)
    net.g[at.CUT_AT] = then
    net.g[at.PRIMED] = ROUTES_NEW
    return grown(net)._replace(ways=network.ways.ways, choices=network.ways.choices, moved=moved, changed=changed)


def _with_longer_lists(net: Net) -> Net:
    """The lists of queue pairs with twice the room."""
    old, size = int(net.g[at.LISTS]), 2 * int(net.g[at.LISTS])
    hosts = np.flatnonzero(net.ports.host)
    places = np.zeros(hosts.size * size + 1, np.uint32)
    codes = np.zeros(hosts.size * size + 1, np.uint8)
    for i, port in enumerate(hosts.tolist()):
        first = int(net.ports[port].first)
        places[i * size : i * size + old] = net.pairs[first : first + old]
        codes[i * size : i * size + old] = net.codes[first : first + old]
        net.ports[port].first = i * size
    net.g[at.LISTS] = size
    return net._replace(pairs=places, codes=codes)


def with_more_flows(net: Net) -> Net:
    """The same tables with room for twice as many flows."""
    size, words = 2 * net.flows.size, int(net.g[at.WORDS])
    own = np.zeros(size * words, np.int64)
    own[: net.words.size] = net.words
    return net._replace(flows=at.longer(net.flows, size), words=own, reals=own.view(np.float64))


def _times(network: Network) -> tuple[dict[int, int], Any]:
    """The time of every size at every rate of a link, a row a rate; and where each row begins."""
    largest = max(network.settings.packet_payload_size + network.header_bytes, network.ack_bytes, PAUSE_BYTES) + 1
    rows: dict[int, int] = {}
    times = []
    for link in network.topology.links:
        if link.rate not in rows:
            rows[link.rate] = len(rows) * largest
            times.append([exact_ns(size, link.rate) for size in range(largest)])
    return rows, np.array(times or [[0]], np.int64).ravel().astype(np.int32)


def exact_ns(size: int, rate: int) -> int:
    """The time of so many bytes at a rate, as the reference has it; see `wire.serial_ns`."""
    return ((8 * size << 64) // rate * 10**9 + (1 << 63)) >> 64


def _ring(network: Network, times: Any) -> int:
    """Buckets of the queue of events: the longest transmission and link, where they are not too long."""
    longest = int(times.max()) + max((link.delay_ns for link in network.topology.links), default=0)
    return min(max(1 << int(longest + 1).bit_length(), SMALLEST_RING), LARGEST_RING)


def _node_records(network: Network, is_host: Any) -> Any:
    settings = network.settings
    nodes = records(network.topology.nodes, at.NODE)
    buffers = network.buffers
    for node in range(network.topology.nodes):
        if is_host[node]:
            nodes[node].pauses = settings.nic_total_pause_time
            continue
        nodes[node].total = buffers.shared_bytes(node)
        nodes[node].room = settings.buffer_size << 20
    return nodes


def _port_records(network: Network, rows: dict[int, int], is_host: Any, loss_of: Any, pairs: int) -> Any:
    settings, topology, numbers = network.settings, network.topology, network.ports
    ports = records(numbers.node.size, at.PORT)
    rates = line_rates(network)
    buffers = network.buffers
    shift = buffers.shifts()
    lists = 0
    for port in range(1, numbers.node.size):
        p, link = ports[port], topology.links[int(numbers.link[port])]
        node = int(numbers.node[port])
        p.peer, p.node, p.row = numbers.peer[port], node, rows[link.rate]
        p.routes = node * network.ways.hosts
        p.delay, p.rate, p.loss = link.delay_ns, link.rate, loss_of[numbers.link[port]]
        p.host = is_host[node]
        p.code = rates.index(link.rate) if link.rate in rates else 0
        p.acks = 0 if settings.ack_high_prio else 3
        p.headroom = buffers.headroom(port)
        p.shift = shift[port]
        p.low = min(max(int(settings.kmin_map.get(link.rate, 0) * 1000), -MOST_BYTES), MOST_BYTES)
        p.high = min(max(int(settings.kmax_map.get(link.rate, 0) * 1000), -MOST_BYTES), MOST_BYTES)
        p.chance = settings.pmax_map.get(link.rate, 0.0)
        if p.host:
            p.first = lists
            lists += pairs
    return ports


def _losses(network: Network) -> tuple[Any, Any, Any]:
    """Error rates, the states of all generators, and the entry of each link."""
    shared = network.settings.error_rate_per_link
    links = network.topology.links
    own = [link for link, entry in enumerate(links) if entry.error_rate > 0]
    losses = records(len(own) + 2, at.LOSS)
    loss_of = np.full(len(links), 1 if shared > 0 else 0, np.int64)
    losses[1].rate = shared
    loss_of[own] = 2 + np.arange(len(own))
    losses.rate[2:] = [links[link].error_rate for link in own]
    losses.stream[1:] = STATE * np.arange(1, len(own) + 2)
    first = network.first_stream
    if first is None:
        first = 9 * network.topology.nodes + 2 + 2 * len(own)
    run = 1 if network.seed is None else 1 + network.seed
    marks, errors = stream_state(first, run), stream_state(LINKS, run)
    streams = np.concatenate([marks, np.tile(errors, len(own) + 1), rand_state(run)])
    return losses, streams, loss_of


def _numbers(network: Network, words: int, stride: int, ring: int) -> Longs:
    """What kernels read of the settings. Long because it names every word."""
    settings, faults = network.settings, network.faults
    g = np.zeros(at.GLOBALS, np.int64)

    def ns(us: float) -> int:
        return 1000 * int(us) if faults.whole_microseconds else max(1, round(1000 * us))

    interval = settings.l2_ack_interval
    if interval is None:
        interval = 0 if faults.zero_interval_rejects else 1
    values = {
        at.MASK: ring - 1,
        at.BURST: MARGIN,
        at.MODE: network.mode,
        at.HEADER: network.header_bytes,
        at.PAYLOAD: settings.packet_payload_size,
        at.ACK_BYTES: network.ack_bytes,
        at.STAMPED: network.control is not None
        and network.control.stamped
        and (network.mode != TIMELY or network.time_stamps),
        at.RATE_BOUND: settings.rate_bound,
        at.WINDOWS_VARY: settings.var_win,
        at.MARKING: settings.enable_qcn,
        at.CHUNK: settings.l2_chunk_size or 1 << 62,
        at.ACK_INTERVAL: interval,
        at.BACK_TO_ZERO: settings.l2_back_to_zero and settings.l2_chunk_size > 0,
        at.HOSTS: network.ways.hosts,
        at.WORDS: words,
        at.RECORDS: stride,
        at.MOST_RTT: network.max_rtt_ns,
        at.AI: settings.rate_ai,
        at.HAI: settings.rate_hai,
        at.MIN_RATE: settings.min_rate,
        at.ALPHA_NS: ns(settings.alpha_resume_interval),
        at.DECREASE_NS: ns(settings.rate_decrease_interval),
        at.RECOVERY_NS: ns(settings.rp_timer),
        at.RECOVERY_STAGES: settings.fast_recovery_times,
        at.CLAMP_TARGET: settings.clamp_target_rate,
        at.FAST_REACT: settings.fast_react,
        at.MULTI_RATE: settings.multi_rate,
        at.SAMPLE_FEEDBACK: settings.sample_feedback,
        at.MI_THRESHOLD: settings.mi_thresh,
        at.INT_UNIT: settings.int_multi,
        at.PINT_LIMIT: int(65536 * settings.pint_prob),
        at.DCTCP_AI: settings.dctcp_rate_ai,
        at.MOST_HOPS: most_hops(network),
        at.WAKE_OF_ALL: faults.wakes_for_all,
        at.PAUSES_NOTHING: faults.pause_time_zero_resumes and settings.pause_time == 0,
        at.ACKS_ALIKE: faults.acks_keep_priority,
        at.INTERVAL_FROM_START: faults.interval_from_start,
        at.DUPLICATES_SILENT: faults.duplicates_unacknowledged,
        at.INFINITE_IS_ZERO: faults.infinite_rate_is_zero,
        at.NO_RESENDING: faults.no_retransmission_timer,
        at.WRAPS: faults.thresholds_wrap,
        at.CHUNKED_END: faults.chunked_end,
        at.BYTES_STAY: faults.bytes_of_cut_links_stay,
        at.CUT_LINK: port_that_ends(network),
        at.CUT_AT: settings.link_down.at_ns if settings.link_down else 0,
        at.PAUSES_HELD: faults.pauses_are_held,
        at.LEAST_WINDOW: least_window(network),
        at.REJECTS_ACKS: faults.zero_interval_rejects and interval == 0,
    }
    for word, value in values.items():
        g[word] = value
    return g

"""How much a channel moves at a time (nccl-model.md, 1, 3 and 4)."""

from __future__ import annotations

from chakrasim.collectives.libraries.search import Graphs
from chakrasim.collectives.libraries.settings import Settings

_STEPS = 8
"""Steps that a connection's buffer has room for."""

_BUFFER = {"LL": 8 * 512 * 8 * 16, "LL128": 120 * 640 * 8 * 8, "Simple": 1 << 22}
_RING_STEPS = 4
"""Steps of a chunk of all-reduces, all-gathers and reduce-scatters on rings."""

_KIB = 1024


def chunk_bytes(
    found: Graphs,
    rules: tuple[int, ...],
    collective: str,
    algorithm: str,
    protocol: str,
    size_bytes: int,
    channels: int,
    settings: Settings,
) -> int:
    """What a channel of so many moves at a time: the buffer's step, less for what is small."""
    step = _step(protocol, settings)
    ranks, share = found.site.nranks, -(-size_bytes // channels)
    if algorithm == "ring":
        whole = collective in ("all_reduce", "all_gather", "reduce_scatter")
        chunk = step * (_RING_STEPS if protocol == "Simple" and whole else 1)
        return _no_more(chunk, -(-share // ranks) if whole else share)
    heads = found.nvls.channels if found.nvls and algorithm.startswith("nvls") else 1
    if algorithm == "tree":
        chunk = _of_tree(found, step, share, rules) if protocol == "LL128" else step
        if protocol == "Simple" and rules < (2, 9):
            chunk = _halved(step, share, [(_depth(found) * 8, 128), (_depth(found) * 4, 64), (_depth(found), 32)])
    elif algorithm == "nvls":
        chunk = min(step, settings.nvls_chunk_bytes or 128 * _KIB)
        chunk = _cut(chunk, share, heads, ((64, 64), (8, 32), (2, 16)))
    elif algorithm == "nvlstree":
        chunk = _cut(_of_nvlstree(found, rules, settings), share, heads, ((32, 256), (16, 128), (4, 64), (1, 32)))
    elif algorithm == "pat":
        chunk, often = step, 32 if collective == "all_gather" else 16
        while chunk * channels * often > size_bytes and chunk > 64 * _KIB:
            chunk //= 2
        share = -(-share // ranks)
    elif algorithm == "collnetdirect":
        heads = found.collnet.channels if found.collnet else 1
        chunk = _halved(step, share // heads, [(64, 128), (8, 64), (8, 32)])
    else:
        depth = found.site.nranks // found.site.nodes
        chunk = _halved(min(256 * _KIB, step), share, [(depth * 64, 128), (depth * 8, 64), (depth, 32)])
    return _no_more(chunk, -(-share // heads))


def _step(protocol: str, settings: Settings) -> int:
    """The data of one step of a connection: half of LL's is flags, and a 16th of LL128's."""
    own = {"LL": settings.ll_buffer_bytes, "LL128": settings.ll128_buffer_bytes, "Simple": settings.buffer_bytes}
    step = (own[protocol] or _BUFFER[protocol]) // _STEPS
    return step // 2 if protocol == "LL" else step // 16 * 15 if protocol == "LL128" else step


def _no_more(chunk: int, share: int) -> int:
    """Not more than there is, in whole lines of 16 bytes."""
    return max(16, min(chunk, -(-share // 16) * 16))


def _halved(chunk: int, share: float, limits: list[tuple[float, int]]) -> int:
    """Half as long as a channel has fewer chunks than a limit and they are larger than so many KiB."""
    for least, kib in limits:
        while share // chunk < least and chunk > kib * _KIB:
            chunk //= 2
    return chunk


def _cut(chunk: int, share: int, heads: int, limits: tuple[tuple[int, int], ...]) -> int:
    """Cut to so many KiB where there are fewer chunks for each head than a limit."""
    for least, kib in limits:
        if share < least * heads * chunk and chunk > kib * _KIB:
            chunk = kib * _KIB
    return chunk


def _depth(found: Graphs) -> int:
    return found.site.nranks // found.site.nodes - 1 + found.site.nodes.bit_length() - 1 + 1


def _of_tree(found: Graphs, step: int, share: int, rules: tuple[int, ...]) -> int:
    each = found.site.nranks / found.site.nodes
    steps = found.site.nodes.bit_length() + 0.1 * each
    return _halved(step, share, [(steps * 64 / each, 128), (steps * 16 / each, 32)])


def _of_nvlstree(found: Graphs, rules: tuple[int, ...], settings: Settings) -> int:
    """The most of a chunk: less where there are many nodes; newer libraries go by ports and ranks of a node."""
    site = found.site
    chunk = tree = 128 * _KIB
    each, port = site.ranks_per_node, site.nic_GBps
    tree = 64 * _KIB if site.nodes >= 4 else tree
    if rules >= (2, 30) and site.capability >= 100 and port >= 48:
        tree = 128 * _KIB
        if (site.nodes == 2 and each <= 4) or (site.nodes > 2 and port >= 96 and each <= 8):
            chunk = tree = 256 * _KIB
        elif _kept_short(found):
            tree = 64 * _KIB
    return min(settings.nvls_chunk_bytes or chunk, settings.nvlstree_chunk_bytes or tree)


def _kept_short(found: Graphs) -> bool:
    site = found.site
    each, slow, near = site.ranks_per_node, site.nic_GBps < 96, site.reach == "switch"
    if site.nodes == 2:
        return each >= 16 or (each <= 8 and near and slow)
    return near if slow else each >= 32

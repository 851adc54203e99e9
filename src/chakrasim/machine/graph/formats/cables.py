"""Graphs that are lists of cables, equal both ways: what the line formats hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.graph import KINDS, RANK, NetworkGraph
from chakrasim.notes import Notes
from chakrasim.text.amounts import plural

Wholes = NDArray[np.int64]


def from_cables(
    source: Source,
    names: Sequence[str],
    kind: NDArray[np.int8],
    island: NDArray[np.int32],
    ends: tuple[Wholes, Wholes],
    rates: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> NetworkGraph:
    """The graph of cables ``ends[0][i]`` - ``ends[1][i]`` of capacity ``rates[0][i]`` and latency ``rates[1][i]``."""
    cables = ends[0].size
    note_parallel(source, *ends)
    links = np.arange(2 * cables, dtype=np.int32)
    return NetworkGraph(
        names=tuple(names),
        kind=kind,
        transit=kind != RANK,
        island=island,
        source=np.stack(ends, 1).ravel().astype(np.int32),
        target=np.stack(ends[::-1], 1).ravel().astype(np.int32),
        capacity=np.repeat(rates[0], 2),
        latency=np.repeat(rates[1], 2),
        cable=links // 2,
        medium=links,
        logical=(int(np.count_nonzero(kind == RANK)),),
        name=source.name,
    )


def note_parallel(source: Source, a: Wholes, b: Wholes) -> None:
    """Say how many cables join ends that others join, too: they are meant in most files, and mistakes in some."""
    if not a.size:
        return
    pairs = np.minimum(a, b) * (int(max(a.max(), b.max())) + 1) + np.maximum(a, b)
    counts = np.unique(pairs, return_counts=True)[1]
    more = int((counts - 1).sum())
    if more:
        several = int(np.count_nonzero(counts > 1))
        source.note(f"{plural(more, 'cable')} parallel to another, between {plural(several, 'pair')} of vertices")


def refuse_media(
    source: Source, medium: NDArray[np.int32], capacity: NDArray[np.float64], place: Callable[[int], object]
) -> None:
    """Raise InputError for stated media that are none; ``place`` gives that of a link."""
    wrong = np.flatnonzero((medium < 0) | (medium > np.arange(medium.size)))
    wrong = wrong if wrong.size else np.flatnonzero(medium[medium] != medium)
    if wrong.size:
        link, expected = int(wrong[0]), "the number of the first link with which it shares its capacity"
        source.refuse("medium is none", place(link), found=int(medium[link]), expected=expected)
    unequal = np.flatnonzero(capacity != capacity[medium])
    if unequal.size:
        link = int(unequal[0])
        source.refuse("links that share a capacity differ in it", place(link), expected=f"that of link {medium[link]}")


def as_cables(graph: NetworkGraph, file: str, form: str) -> Wholes:
    """The first link of each cable of a graph of cables that are equal both ways.

    Raises InputError for links without a way back, ways that differ, and shared media: without them the file would be
    another network.
    """
    first = np.arange(0, graph.links - 1, 2)
    for what, wrong in (
        ("a link has no way back", _unpaired(graph)),
        ("the two ways of a cable differ", _unequal(graph, first)),
        ("links share one capacity", graph.medium != np.arange(graph.links)),
    ):
        if wrong.any():
            link = graph.link_names[int(np.flatnonzero(wrong)[0])]
            raise InputError(
                f"{what}, which the form {form} cannot say",
                file=file,
                place=f"link {link}",
                found=f"{plural(int(wrong.sum()), 'such link')}",
                remedy="write it as yaml, json, graphml or node-link",
            )
    return first


def _unpaired(graph: NetworkGraph) -> NDArray[np.bool_]:
    """Links that do not stand beside their way back."""
    wrong = np.zeros(graph.links, np.bool_)
    even = graph.links // 2 * 2
    wrong[even:] = True
    a, b = np.arange(0, even, 2), np.arange(1, even, 2)
    apart = (graph.source[a] != graph.target[b]) | (graph.target[a] != graph.source[b])
    apart |= graph.cable[a] != graph.cable[b]
    wrong[:even] = np.repeat(apart, 2)
    return wrong


def _unequal(graph: NetworkGraph, first: Wholes) -> NDArray[np.bool_]:
    back = first + 1
    wrong = np.zeros(graph.links, np.bool_)
    wrong[first] = (graph.capacity[first] != graph.capacity[back]) | (graph.latency[first] != graph.latency[back])
    return wrong


def warn_of_loss(
    graph: NetworkGraph,
    back: NetworkGraph,
    file: str,
    form: str,
    notes: Notes,
) -> None:
    """Warn, with counts, of what reading the written file gives otherwise: ``back`` is what it gives."""
    kinds = np.flatnonzero(graph.kind != back.kind)
    listed = ", ".join(sorted({KINDS[kind] for kind in graph.kind[kinds].tolist()}))
    for what, count, more in (
        ("name of a vertex", sum(a != b for a, b in zip(graph.names, back.names, strict=True)), ""),
        ("kind of a vertex", kinds.size, f": {listed}"),
        ("island of a vertex", np.count_nonzero(graph.island != back.island), ""),
        ("whether a vertex lets others' traffic pass", np.count_nonzero(graph.transit != back.transit), ""),
        ("cable of a link", np.count_nonzero(graph.cable != back.cable), ""),
        ("logical shape of the ranks", graph.logical != back.logical, f": {list(graph.logical)}"),
    ):
        if count:
            notes.warn(f"{file}: the form {form} does not hold the {what} ({int(count):,} times{more})")

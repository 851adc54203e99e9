"""What programs of others have that this project's own do not: names, places, paddings, parameters of their kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.notes import Notes
from chakrasim.synthesis import expressions
from chakrasim.synthesis.laws import Examples, law
from chakrasim.synthesis.model import Learned
from chakrasim.synthesis.shared import shared
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.job import Job

Own = Mapping[str, Any]


def computing(*nodes: tuple[str, int], backwards: bool = False) -> Trace:
    """A trace of computations by name and size; the file may have them from the last on."""
    made = cs.TraceBuilder()
    listed = [*enumerate(nodes)]
    for at, (name, size) in reversed(listed) if backwards else listed:
        made.add(at, name=name, type=4, attrs={"num_ops": size}, data_deps=[at - 1] if at else [])
    return made.build()


def learned_of(known: Sequence[Own], traces: Callable[[Own], Sequence[Trace]]) -> Learned:
    """A model of jobs that have a trace for each rank."""
    return cs.learn([(dict(own), job_of(traces(own))) for own in known])


def job_of(traces: Sequence[Trace], groups: Mapping[str, Any] | None = None) -> Job:
    return Job(tuple(traces), np.arange(len(traces)), groups or {})


def made_by(learned: Learned, **own: Any) -> list[list[tuple[str, int]]]:
    """Of each rank of the job of these parameters the names and sizes."""
    (made,) = cs.synthesize(learned, own)
    sizes = [trace.attr("num_ops").integers_or(0).tolist() for trace in made.job.traces]
    rows = [
        [(trace.name(at), size) for at, size in enumerate(own)]
        for trace, own in zip(made.job.traces, sizes, strict=True)
    ]
    return [rows[at] for at in made.job.trace_of_rank.tolist()]


def test_layers_are_numbered_between_points_and_words_have_numbers_of_their_own() -> None:
    def nodes(own: Own) -> list[tuple[str, int]]:
        width = own["width"]
        return [
            (f"layers.{layer}.fc{half}", (3 if half == 1 else 5) * width)
            for layer in range(own["n"])
            for half in (1, 2)
        ]

    known = [{"n": n, "width": 7 * n * n % 50 + 60} for n in range(2, 8)]
    learned = learned_of(known, lambda own: [computing(*nodes(own))])
    assert made_by(learned, n=12, width=100) == [nodes({"n": 12, "width": 100})]
    assert not learned.lost


def test_what_comes_every_few_layers_goes_on_so_in_deeper_models() -> None:
    def nodes(own: Own) -> list[tuple[str, int]]:
        found = []
        for layer in range(own["layers"]):
            often = own["experts"] if layer % 2 else 0
            found += [(f"L{layer} attention", 5), *((f"L{layer} expert {at}", 7) for at in range(often))]
            found += [(f"L{layer} router", 4)] * (often > 0) + [(f"L{layer} mlp", 3)] * (not layer % 2)
        return found

    known = [{"layers": layers, "experts": experts} for layers in range(2, 8) for experts in (1, 2, 4)]
    learned = learned_of(known, lambda own: [computing(*nodes(own))])
    assert made_by(learned, layers=13, experts=3) == [nodes({"layers": 13, "experts": 3})]


def test_layers_of_one_kind_are_so_in_other_loops_too() -> None:
    def nodes(own: Own) -> list[tuple[str, int]]:
        wide, deep, layers = own["wide"], own["deep"], own["layers"]
        dense = [layer < own["dense"] for layer in range(layers)]
        kinds = ["mlp" if one else "experts" for one in dense]
        run = [(f"L{layer} {what}", 7) for layer, kind in enumerate(kinds) for what in ("attention", kind)]
        sizes = [8 * wide * wide + 3 * wide * (deep if one else own["experts"]) for one in dense]
        return [*run, ("loss", 5), *((f"L{layer} update", size) for layer, size in enumerate(sizes))]

    random = np.random.default_rng(1)
    ends = {"layers": (3, 9), "dense": (0, 4), "wide": (20, 90), "deep": (30, 200), "experts": (30, 200)}
    known = [{name: int(random.integers(*both)) for name, both in ends.items()} for _ in range(40)]
    learned = learned_of(known, lambda own: [computing(*nodes(own))])
    asked = {"layers": 12, "dense": 5, "wide": 100, "deep": 60, "experts": 170}
    assert made_by(learned, **asked) == [nodes(asked)]


def test_the_last_part_of_what_does_not_divide_is_smaller() -> None:
    def nodes(own: Own) -> list[tuple[str, int]]:
        sizes = [min(own["part"], own["tokens"] - at) for at in range(0, own["tokens"], own["part"])]
        return [(f"L{layer} part {at} of it", 3 * size * own["width"]) for layer in range(own["layers"])
                for at, size in enumerate(sizes)]  # fmt: skip

    random = np.random.default_rng(1)
    ends = {"layers": (1, 5), "tokens": (100, 900), "part": (30, 130), "width": (5, 60)}
    known = [{name: int(random.integers(*both)) for name, both in ends.items()} for _ in range(15)]
    learned = learned_of(known, lambda own: [computing(*nodes(own))])
    asked = {"layers": 4, "tokens": 1234, "part": 256, "width": 30}
    assert made_by(learned, **asked) == [nodes(asked)]


@pytest.mark.parametrize("wider", [1, 60])
def test_buckets_go_after_any_of_a_layers_gradients_or_after_the_large_one(wider: int) -> None:
    def nodes(own: Own) -> list[tuple[str, int]]:
        wide, deep = own["wide"], own["deep"]
        small = deep if wider == 1 else 3
        found, held, number = [], own["words"] * wide, 0
        for layer in reversed(range(own["layers"])):
            for name, size in (("down", wider * wide * deep), ("up", 2 * wide * small), ("norm", 5 * wide)):
                found += [(f"L{layer} {name} gradient", 7 * own["tokens"])]
                held += size
                if held >= 3 * wider * own["bucket"]:
                    found += [(f"bucket {number}", held)]
                    held, number = 0, number + 1
        return [*found, ("rest", held + 2 * wide), (f"{number} buckets", 9)]

    random = np.random.default_rng(1)
    ends = {
        "layers": (1, 9),
        "wide": (20, 90),
        "deep": (20, 90),
        "words": (1, 9),
        "tokens": (3, 30),
        "bucket": (50, 4000),
    }
    known = [{name: int(random.integers(*both)) for name, both in ends.items()} for _ in range(60)]
    learned = learned_of(known, lambda own: [computing(*nodes(own))])
    assert not learned.lost
    for bucket in (900, 2500, 3900):
        asked = {"layers": 11, "wide": 70, "deep": 51, "words": 5, "tokens": 11, "bucket": bucket}
        assert made_by(learned, **asked) == [nodes(asked)]


def test_what_adds_up_is_found_beside_what_comes_by_no_law() -> None:
    """What comes by no law says other things: it is no reason not to look for what adds up."""

    def trace(own: Own) -> Trace:
        made, held, number = cs.TraceBuilder(), 0, 0

        def add(name: str, **attributes: int) -> None:
            made.add(
                len(made), name=name, type=4, attrs=dict(attributes), data_deps=[len(made) - 1] if len(made) else []
            )

        for layer in reversed(range(own["layers"])):
            add(f"L{layer} gradient", num_ops=own["wide"] * own["deep"])
            if hash((layer, own["wide"], own["deep"])) % 3 == 0:
                add(f"L{layer} looked at", tensor_size=64)
            held += own["wide"] * own["deep"]
            if held >= own["bucket"]:
                add(f"bucket {number}", num_ops=held)
                held, number = 0, number + 1
        add("rest", num_ops=held + 2 * own["wide"])
        return made.build()

    random = np.random.default_rng(2)
    ends = {"layers": (1, 9), "wide": (20, 90), "deep": (20, 90), "bucket": (500, 9000)}
    known = [{name: int(random.integers(*both)) for name, both in ends.items()} for _ in range(60)]
    learned = learned_of(known, lambda own: [trace(own)])
    assert {*learned.lost} == {"L# looked at: whether it comes"}
    asked = {"layers": 11, "wide": 70, "deep": 51, "bucket": 8_000}
    (made,), expected = made_by(learned, **asked), trace(asked)
    sizes = zip(map(expected.name, range(len(expected))), expected.attr("num_ops").integers_or(0).tolist(), strict=True)
    assert [own for own in made if "look" not in own[0]] == [own for own in sizes if "look" not in own[0]]


def test_the_first_and_the_last_of_groups_are_a_group() -> None:
    def job(stages: int, tied: bool) -> Job:
        pipes = tuple(tuple(range(first, 2 * stages, 2)) for first in range(2)) if stages > 1 else ()
        groups = {"pp": pipes, "embedding": tuple((one[0], one[-1]) for one in pipes) if tied else ()}
        return job_of([computing(("all", 5))] * 2 * stages, {role: listed for role, listed in groups.items() if listed})

    jobs = [({"stages": stages, "tied": tied}, job(stages, tied)) for stages in (1, 2, 3, 4, 6) for tied in (0, 1)]
    learned = cs.learn(jobs)
    assert not learned.lost
    for stages, tied in ((8, True), (5, False)):
        (made,) = cs.synthesize(learned, {"stages": stages, "tied": int(tied)})
        groups = {role: listed for role, listed in made.job.process_groups.items() if len(listed[0]) > 1}
        assert groups == job(stages, tied).process_groups


def test_nodes_are_read_in_the_order_of_their_ids() -> None:
    def nodes(own: Own) -> list[tuple[str, int]]:
        return [(f"{half} {at}", own["n"] + at) for at in range(own["n"]) for half in ("load", "use")]

    learned = learned_of([{"n": n} for n in (1, 2, 3, 5, 6)], lambda own: [computing(*nodes(own), backwards=True)])
    assert made_by(learned, n=4) == [nodes({"n": 4})]


def test_what_does_not_divide_is_shared_as_evenly_as_it_goes() -> None:
    def traces(own: Own) -> list[Trace]:
        kinds = {}
        for rank in range(own["gpus"]):
            share = own["tables"] // own["gpus"] + (rank < own["tables"] % own["gpus"])
            kinds[rank] = computing(("begin", 1), *((f"table {at}", 9) for at in range(share)))
        return [*kinds.values()]

    def job(own: Own) -> Job:
        every = traces(own)
        lengths = [len(trace) for trace in every]
        first = [lengths.index(length) for length in sorted({*lengths}, reverse=True)]
        which = [sorted({*lengths}, reverse=True).index(length) for length in lengths]
        return Job(tuple(every[at] for at in first), np.array(which), {})

    known = [{"gpus": gpus, "tables": tables} for gpus in (2, 3, 4, 5) for tables in (7, 8, 11, 14, 21)]
    learned = cs.learn([(own, job(own)) for own in known])
    assert [len(rows) for rows in made_by(learned, gpus=4, tables=13)] == [5, 4, 4, 4]


def test_sums_that_are_padded_to_parts_have_a_law() -> None:
    random = np.random.default_rng(3)
    ranks, wide, deep = (random.integers(*ends, 30) for ends in ((2, 9), (20, 160), (100, 900)))
    columns = {"ranks": ranks, "wide": wide, "deep": deep}
    parameters = 4 * wide**2 + 3 * wide * deep + 2 * wide
    tokens, experts = random.integers(100, 4000, 30), 2 * random.integers(2, 9, 30)
    for wanted, more in (
        (12 * -(-parameters // ranks), {}),
        (6 * wide * -(-5 * tokens // (4 * experts)), {"tokens": tokens, "experts": experts}),
    ):
        found = law(Examples(wanted, columns | more))
        assert found is not None
        assert (expressions.value(found, columns | more, 30) == wanted).all()


def test_parameters_may_have_fractions() -> None:
    known = [{"tokens": 64 * n * n, "factor": factor} for n in range(3, 9) for factor in (1.0, 1.25, 1.5, 2)]
    learned = learned_of(known, lambda own: [computing(("experts", int(own["tokens"] * own["factor"])))])
    assert made_by(learned, tokens=6400, factor=1.75) == [[("experts", 11200)]]
    notes = Notes()
    list(cs.synthesize(learned, {"factor": 1.3}, notes=notes))
    assert "factor 1.3 is taken as 1.25" in "\n".join(notes.warnings)


def test_ranks_that_send_each_other_messages_are_a_group() -> None:
    def job(ring: int, rings: int) -> Job:
        traces = []
        for rank in range(ring * rings):
            first = rank - rank % ring
            ends = {"send": first + (rank - first + 1) % ring, "recv": first + (rank - first - 1) % ring}
            made = cs.TraceBuilder()
            made.add(0, name="send 0", type=5, attrs={"comm_src": rank, "comm_dst": ends["send"], "comm_size": 8})
            made.add(1, name="recv 0", type=6, attrs={"comm_src": ends["recv"], "comm_dst": rank, "comm_size": 8})
            traces.append(made.build())
        return job_of(traces, {"1": (tuple(range(ring * rings)),)})

    jobs = shared([job(ring, rings) for ring in (2, 3, 4) for rings in (1, 2)])
    assert [one.process_groups["peers 1"][0] for one in jobs] == [(0, 1)] * 2 + [(0, 1, 2)] * 2 + [(0, 1, 2, 3)] * 2
    learned = cs.learn([({"ring": len(one.process_groups["peers 1"][0])}, one) for one in jobs])
    (made,) = cs.synthesize(learned, {"ring": 8, "ranks": 16})
    assert made.job.process_groups["peers 1"] == (tuple(range(8)), tuple(range(8, 16)))


def test_laws_that_few_examples_say_are_told(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    known = [{f"p{i}": int(random.choice([1, 2, 4, 8])) for i in range(6)} | {"width": 7 * n + 3} for n in range(9)]
    tossed = [1, 0, 0, 1, 1, 0, 1, 0, 1]

    def jobs(own: Own) -> list[Trace]:
        return [computing(("all", 6 * own["width"] * own["p1"]), *[("some", 5)] * tossed[known.index({**own})])]

    learned = learned_of(known, jobs)
    assert "some: whether it comes" in learned.model.by_few
    assert "all: num_ops" not in (*learned.model.by_few, *learned.lost)
    cs.write_model(tmp_path / "m.chakrasim-model", learned)
    notes = Notes()
    list(cs.synthesize(cs.read_model(tmp_path / "m.chakrasim-model"), known[0], notes=notes))
    assert any("may hold by chance: some: whether it comes" in warning for warning in notes.warnings)


def test_what_few_jobs_gather_ahead_comes_where_what_is_gathered_comes_in_others() -> None:
    """In all jobs that gather every layer has experts; in those made from what was learned only every second one."""

    def is_kind(own: Own, layer: int) -> bool:
        return (layer + 1) % own["every"] == 0

    def job(own: Own) -> Job:
        made = cs.TraceBuilder()
        names = []

        def gathered(layer: int, end: int) -> list[str]:
            return [f"layer {layer} weights"] * (own["shard"] > 1 and layer < end and is_kind(own, layer))

        for chunk in range(own["chunks"]):
            first, end = chunk * own["layers"], (chunk + 1) * own["layers"]
            names += ["start", *gathered(first, end), "begin"]
            for layer in range(first, end):
                names += [*gathered(layer + 1, end), f"layer {layer} norm"]
                kinds = ("router", "experts") if is_kind(own, layer) else ("up", "down")
                names += [f"layer {layer} {kind}" for kind in kinds]
        width = own["width"]
        for at, name in enumerate([*names, "end"]):
            of: tuple[int, dict[str, Any]] = 4, {"num_ops": width}
            if name.endswith("experts"):
                of = 4, {"k": width, "n": 3 * width + 8}
            elif name.endswith("weights"):
                of = 7, {"comm_type": 2, "comm_size": 2 * width * (3 * width + 8) // own["shard"], "pg_name": "shard"}
            made.add(at, name=name, type=of[0], attrs=of[1], data_deps=[at - 1] if at else [])
        ranks = own["shard"]
        groups = {"shard": (tuple(range(ranks)),)} if ranks > 1 else {}
        return Job((made.build(),), np.zeros(ranks, np.int64), groups, dict(own))

    def of(layers: int, every: int, shard: int, width: int, chunks: int = 2) -> Own:
        return {"layers": layers, "every": every, "shard": shard, "width": width, "chunks": chunks}

    some = [of(layers, every, 1, 10 * layers + every, 1 + layers % 3) for layers in range(1, 8) for every in (1, 2, 3)]
    gather = [of(2, 1, 2, 30), of(3, 1, 4, 56, 1), of(5, 1, 2, 40, 3), of(4, 1, 4, 72), of(3, 1, 2, 64, 3)]
    learned = cs.learn([(dict(own), job(own)) for own in [*some, *gather]])
    for own in (of(6, 2, 4, 96), of(5, 2, 2, 20, 3), of(7, 3, 4, 16)):
        (one,) = cs.synthesize(learned, dict(own))
        (made, *_), (wanted,) = one.job.traces, job(own).traces
        assert [made.name(at) for at in range(len(made))] == [wanted.name(at) for at in range(len(wanted))]

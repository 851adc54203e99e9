"""What was learned of jobs, and the jobs made from it, as tables and plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from chakrasim.synthesis import expressions
from chakrasim.synthesis.api import Synthetic
from chakrasim.synthesis.expressions import Expression
from chakrasim.synthesis.model import Learned
from chakrasim.text.amounts import plural, size_text
from chakrasim.text.layout import Section

SHOWN = 12
FEW = 4


def learned_sections(learned: Learned, path: str, size_bytes: int) -> Iterator[Section]:
    """The tables of ``chakrasim learn``."""
    laws = _laws(learned)
    near = [law for law in laws if not law["exact"]]
    rows = (
        ("jobs", f"{len(learned.jobs):,}"),
        (
            "kinds",
            f"{plural(len(learned.model.roles), 'kind')} of nodes in {plural(len(learned.model.counts), 'loop')}",
        ),
        ("laws", f"{len(laws) - len(near):,} give every example to a millionth, {len(near):,} are near"),
        *(
            [
                (
                    "by few examples",
                    f"{len(learned.model.by_few):,} of them, which may hold by chance: "
                    + ", ".join(learned.model.by_few[:FEW]),
                )
            ]
            if learned.model.by_few
            else ()
        ),
        *_scatter(learned),
        ("model", f"{path}, {size_text(size_bytes)}"),
    )
    yield Section("Learned", rows=rows, left=(0, 1))
    yield Section("Parameters", ("name", "of the jobs"), tuple(_varied(learned)), (0, 1))
    if learned.lost:
        far = sorted(learned.lost.items(), key=lambda each: -each[1])
        lost = tuple((what, f"{off:.2%}") for what, off in far[:SHOWN])
        more = len(far) - len(lost)
        title = "No law found for" + (f" (and {more:,} more)" if more else "")
        yield Section(title, ("what", "off in jobs left out"), lost, (0,))
    if learned.model.left_out:
        yield Section("Metadata without a law, left out", ("name",), tuple((name,) for name in learned.model.left_out))


def learned_json(learned: Learned, size_bytes: int) -> dict[str, Any]:
    """The same for programs, with every law as people write it."""
    return {
        "jobs": learned.jobs,
        "kinds": [role.title for role in learned.model.roles],
        "parameters": dict(_varied(learned)),
        "laws": _laws(learned),
        "lost": learned.lost,
        "left_out": list(learned.model.left_out),
        "by_few_examples": list(learned.model.by_few),
        "scatter": learned.model.scatter and learned.model.scatter.to_json(),
        "model_bytes": size_bytes,
    }


def synthetic_sections(made: Sequence[tuple[Synthetic, Sequence[str]]]) -> Iterator[Section]:
    """The tables of ``chakrasim synthesize``."""
    first, files = made[0]
    own, follow = first.choice.parameters, first.choice.follow
    if len(made) == 1:
        rows = (
            ("ranks", f"{first.job.ranks:,}"),
            ("nodes", f"{first.nodes:,} in {plural(len(first.job.traces), 'trace')}"),
            ("like", f"{first.choice.like}, where nothing else says"),
            *([("follow from others", ", ".join(f"{name} {own[name]}" for name in follow))] if follow else ()),
            ("files", f"{files[0]} to {files[-1]}" if len(files) > 1 else files[0]),
        )
        yield Section("Made", rows=rows, left=(0, 1))
        return
    rows_of = tuple((names[-1], f"{one.job.ranks:,}", f"{one.nodes:,}", one.choice.like) for one, names in made[:SHOWN])
    more = len(made) - len(rows_of)
    yield Section(
        "Made" + (f" (and {more:,} more)" if more else ""), ("job", "ranks", "nodes", "like"), rows_of, (0, 3)
    )


def synthetic_json(made: Sequence[tuple[Synthetic, Sequence[str]]]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "jobs": [
            {
                "files": list(files),
                "ranks": one.job.ranks,
                "nodes": one.nodes,
                "parameters": one.choice.parameters,
                "like": one.choice.like,
                "follow": list(one.choice.follow),
                "outside": list(one.choice.outside),
            }
            for one, files in made
        ]
    }


def _scatter(learned: Learned) -> Iterator[tuple[str, str]]:
    """How recorded durations scatter."""
    scatter = learned.model.scatter
    for title, one in (("scatter", scatter), ("of the host", scatter and scatter.host)):
        if one is not None and one.rest:
            middle = sorted(one.rest.values())[len(one.rest) // 2]
            yield title, f"ranks {one.rank:.1%}, steps {one.step:.1%}, single nodes {middle:.1%} (the middle kind)"
    if scatter is not None and scatter.host is not None:
        yield "recordings", f"hosts are {scatter.recording:.1%} faster or slower: what is made is as on the middle one"


def _laws(learned: Learned) -> list[dict[str, Any]]:
    """Every law that is more than a constant."""
    model = learned.model
    every: list[tuple[str, Expression]] = [("ranks", model.grid.ranks)]
    every += [(f"count of loop {number}", law) for number, law in model.counts.items()]
    for number, role in enumerate(model.roles):
        every.append((f"{role.title}: whether it comes", model.present[number]))
        every += [(f"{role.title}: {name}", law) for name, law in model.numbers[number].items()]
    return [
        {"of": what, "law": expressions.text(law), "exact": what not in learned.lost}
        for what, law in every
        if law[0] != "const"
    ]


def _varied(learned: Learned) -> Iterator[tuple[str, str]]:
    """Parameters in which the jobs differ, and how."""
    for name in learned.parameters[0]:
        values = [own[name] for own in learned.parameters]
        if len({*values}) > 1:
            distinct = sorted({*values}, key=lambda value: (str(type(value)), value))
            yield name, ", ".join(map(str, distinct)) if len(distinct) <= 6 else f"{distinct[0]} to {distinct[-1]}"

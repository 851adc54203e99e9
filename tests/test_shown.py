"""What Python's prompt and a notebook show of values: figures with units, in one line and in small tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import chakrasim
from chakrasim.analysis import collective_split, linked_critical_path, operator_kernels, temporal_breakdown
from chakrasim.demo import GROUPS, STEP, TRACES
from chakrasim.replay import replay
from chakrasim.text.layout import Section, html_text
from chakrasim.text.shown import Shown


def test_html_is_escaped_and_aligned() -> None:
    section = Section("a < b", ("name", "n"), (("<script>", "1 & 2"),), lines=('say "x"',))
    assert html_text([section, Section("empty")]) == (
        "<table><caption>a &lt; b</caption>"
        '<tr><th style="text-align: left">name</th><th style="text-align: right">n</th></tr>'
        '<tr><td style="text-align: left">&lt;script&gt;</td><td style="text-align: right">1 &amp; 2</td></tr>'
        "</table>say &quot;x&quot;"
    )


def test_a_dataclass_keeps_the_short_form() -> None:
    @dataclass(frozen=True)
    class Run(Shown):
        numbers: tuple[int, ...]

        def _in_short(self) -> dict[str, str]:
            return {"numbers": f"{len(self.numbers):,}", "sum": str(sum(self.numbers))}

    assert repr(Run((1, 2))) == "Run(numbers 2, sum 3)"
    assert "<caption>Run</caption>" in Run(())._repr_html_()


def test_a_result_in_one_line() -> None:
    result = chakrasim.simulate(STEP, machine="hgx-h100-16", comm_groups=GROUPS, congestion="aware")
    assert repr(result) == (
        "SimulationResult(makespan 32.06 ms, ranks 16, compute 52.4%, exposed communication 37.3%, moved 31 GiB, "
        "network congestion-aware)"
    )
    assert '<td style="text-align: left">exposed_comm</td><td style="text-align: right">11.96 ms</td>' in (
        result._repr_html_()
    )


def test_machines_and_jobs_in_one_line() -> None:
    assert repr(chakrasim.read(STEP)[0]).startswith("Trace(nodes 145, attributes 519, schema not stated, source ")
    assert repr(chakrasim.collective_job("all_reduce", 1 << 20, 8)) == "Job(ranks 8, traces 1, nodes 1, groups 0)"
    dry = replay(STEP, comm_group=GROUPS, dry_run=True)
    assert re.fullmatch(
        r"ReplayResult\(ranks 16, collectives [\d,]+, bytes [\d.]+ GiB, ran on nothing, a dry run\)", repr(dry)
    )
    machine = chakrasim.load_machine("hgx-h100-16")
    assert repr(machine) == (
        "Machine(name hgx-h100-16, ranks 16, network Switch 8 (400 GiB/s, 936.25 ns) x Ring 2 (50 GiB/s, 1000 ns))"
    )


def recorded() -> list[Any]:
    host, device = TRACES / "host.0.json.gz", TRACES / "device.0.json.gz"
    linked = chakrasim.link(host, device)
    return [
        (chakrasim.doctor(TRACES), "Diagnosis(verdict trustworthy, ranks 4, findings uneven-ends)"),
        (linked, "LinkedTrace(rank 0, rows 1,677, edges 2,837, collectives 6, span 371.8 ms)"),
        (chakrasim.trace.read_kineto(device), f"KinetoTrace(events 948, of 948, source {device})"),
        (chakrasim.trace.read_host(host), f"HostTrace(nodes 852, schema 1.1.1-chakra.0.0.4, source {host})"),
        (collective_split([linked]), "CollectiveSplit(collectives "),
        (linked_critical_path(linked), "LinkedPath(length "),
        (temporal_breakdown(device), "TemporalBreakdown(rows "),
        (operator_kernels(device), "OperatorKernels(rows "),
    ]


class Cells(HTMLParser):
    """Checks that what opens is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_what_is_read_and_found_in_one_line_and_as_tables() -> None:
    for value, shown in recorded():
        assert repr(value).startswith(shown) and repr(value).endswith(")"), repr(value)
        assert "\n" not in repr(value) and len(repr(value)) < 300
        cells = Cells()
        cells.feed(value._repr_html_())
        assert not cells.open
        assert len(value._repr_html_()) < 20_000


def test_a_long_table_says_how_much_it_leaves_out() -> None:
    found = temporal_breakdown(TRACES)
    assert len(found) > 10
    html = found._repr_html_()
    assert html.count("<tr>") == 11 and f"... and {len(found) - 10} rows more" in html
    assert "span_ns" not in html

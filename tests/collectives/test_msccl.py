"""MSCCL algorithms: reading the XML, lowering it, and every way in which a file cannot be used."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chakrasim.collectives import Collective
from chakrasim.collectives.custom.msccl import lower_msccl
from chakrasim.collectives.custom.msccl_xml import parse_msccl, read_msccl
from chakrasim.collectives.custom.program import CustomKind, CustomProgram
from chakrasim.collectives.custom.traces import lower_traces
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.trace import read_trace

AR = Collective.ALL_REDUCE
S, R, C = CustomKind.SEND, CustomKind.RECV, CustomKind.COMP


def step(number: int, kind: str, count: int = 1, depid: int = -1, deps: int = -1) -> str:
    return (
        f'<step s="{number}" type="{kind}" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="{count}" '
        f'depid="{depid}" deps="{deps}" hasdep="0"/>\n'
    )


def block(number: int, send: int, receive: int, *steps: str, channel: int = 0) -> str:
    return f'<tb id="{number}" send="{send}" recv="{receive}" chan="{channel}">\n{"".join(steps)}</tb>\n'


def algo(*gpus: str, chunks: int = 4, collective: str = "allreduce") -> bytes:
    inner = "".join(
        f'<gpu id="{i}" i_chunks="4" o_chunks="0" s_chunks="0">\n{gpu}</gpu>\n' for i, gpu in enumerate(gpus)
    )
    head = f'<algo name="x" nchunksperloop="{chunks}" ngpus="{len(gpus)}" coll="{collective}">'
    return f"{head}\n{inner}</algo>\n".encode()


def lower(data: bytes, collective: Collective = AR, size: int = 4000, members: int = 2) -> tuple[CustomProgram, ...]:
    notes = Notes()
    programs = lower_msccl(parse_msccl(data, "x.xml"), collective, members, size, lambda number: number // 10, notes)
    assert not notes
    return programs


def parents(program: CustomProgram) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(len(program))]
    for node in range(len(program)):
        for child in program.children[program.child_offsets[node] : program.child_offsets[node + 1]].tolist():
            found[child].append(node)
    assert [len(one) for one in found] == program.parents_count.tolist()
    return found


def test_the_shipped_algorithm_gives_the_shipped_traces(shared_dir: Path) -> None:
    folder = shared_dir / "workloads" / "custom-collectives"
    traces = [read_trace(folder / f"custom_allreduce.{rank}.et") for rank in range(8)]
    expected = lower_traces(traces, range(8), Notes())
    notes = Notes()
    algorithm = read_msccl(folder / "custom_allreduce.xml")
    # the converter that made the traces assumed 50 bytes per ns and cut the delay to whole microseconds
    programs = lower_msccl(algorithm, AR, 8, 1 << 20, lambda size: size // 50, notes)
    assert not notes
    for program, wanted in zip(programs, expected, strict=True):
        for name in (
            "hash_keys",
            "kind",
            "peer",
            "size_bytes",
            "tag",
            "parents_count",
            "child_offsets",
            "children",
            "free",
        ):
            assert getattr(program, name).tolist() == getattr(wanted, name).tolist(), name
        assert (program.delay_ns // 1000 * 1000).tolist() == wanted.delay_ns.tolist()


def test_step_types_become_their_parts() -> None:
    kinds = ("r", "rcs", "rrc", "rrs", "rrcs", "re", "cpy", "nop", "s")
    first = block(0, 1, 1, *(step(number, kind) for number, kind in enumerate(kinds)), channel=3)
    second = block(0, 0, 0, *(step(n, "s") for n in range(5)), *(step(5 + n, "r") for n in range(4)), channel=3)
    one, other = lower(algo(first, second))
    assert one.kind.tolist() == [R, R, S, R, C, R, C, S, R, C, S, C, C, S]
    assert one.delay_ns.tolist() == [0, 0, 0, 0, 300, 0, 300, 0, 0, 300, 0, 300, 200, 0]
    assert set(one.peer[one.kind != C]) == {1} and set(one.peer[one.kind == C]) == {-1}
    assert set(one.tag[one.kind != C]) == {3}
    assert set(one.size_bytes[one.kind != C]) == {1000}
    assert parents(one) == [[], *([node] for node in range(13))]
    assert one.hash_keys.tolist() == [*range(13), 14]  # the nop takes a number
    assert other.kind.tolist() == [S] * 5 + [R] * 4


def test_blocks_wait_for_each_other_and_nops_pass_their_dependencies_on() -> None:
    gpu = (
        block(0, -1, -1, step(0, "cpy"), step(1, "cpy"))
        + block(1, -1, -1, step(0, "cpy", depid=0, deps=0), step(1, "nop", depid=0, deps=1), step(2, "re"))
        + block(2, -1, -1, step(0, "nop", depid=1, deps=1), step(1, "nop", depid=1, deps=2), step(2, "cpy"))
    )
    one, _ = lower(algo(gpu, ""))
    #     nodes:        0   1    2    3            4
    assert parents(one) == [[], [0], [0], [1, 2], [1, 2, 3]]


@pytest.mark.parametrize(
    ("collective", "size", "expected"),
    [(AR, 4000, 1000), (Collective.ALL_GATHER, 4000, 2000), (Collective.REDUCE_SCATTER, 4001, 1000), (AR, 0, 1)],
)
def test_messages_scale_with_the_collective(collective: Collective, size: int, expected: int) -> None:
    data = algo(block(0, 1, -1, step(0, "s")), block(0, -1, 0, step(0, "r")), collective="custom")
    assert {int(program.size_bytes[0]) for program in lower(data, collective, size)} == {expected}
    several = algo(block(0, 1, -1, step(0, "s", 3)), block(0, -1, 0, step(0, "r", 3)), collective="custom")
    assert lower(several, AR, 4001)[0].size_bytes[0] == 3000


def test_without_nchunksperloop_the_largest_buffer_counts() -> None:
    data = algo(block(0, 1, -1, step(0, "s")), block(0, -1, 0, step(0, "r"))).replace(b'nchunksperloop="4"', b"")
    assert parse_msccl(data, "x.xml").chunks == 4


def test_use_for_another_collective_is_a_warning() -> None:
    notes = Notes()
    data = algo(block(0, 1, -1, step(0, "s")), block(0, -1, 0, step(0, "r")))
    lower_msccl(parse_msccl(data, "x.xml"), Collective.ALL_GATHER, 2, 100, lambda size: 0, notes)
    assert [*notes] == ["x.xml: an algorithm for allreduce is used for all_gather"]


PAIR = algo(block(0, 1, -1, step(0, "s")), block(0, -1, 0, step(0, "r")))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "x.xml: line 1: no well-formed XML: no element found"),
        (b"<algo", "line 1: no well-formed XML: unclosed token"),
        (b"\x00\x01\x02", "no well-formed XML"),
        (b'{"a": 1}', "no well-formed XML"),
        (b'<?xml version="1.0" encoding="nonsense"?><algo/>', "no (readable|well-formed) XML"),
        (b"<algo>\n<gpu id='0'>\n</algo>", "line 3: no well-formed XML: mismatched tag"),
        (b"<html/>", "unexpected element; found <html>; expected <algo> of <gpu>"),
        (b"<algo><tb/></algo>", "unexpected element; found <tb> in <algo>"),
        (b"<!DOCTYPE algo [<!ENTITY a 'b'>]><algo/>", "document type declaration is not accepted"),
        (PAIR.replace(b'<gpu id="1"', b'<gpu id="0"'), "line 7: two GPUs with the same id; found id 0"),
        (
            PAIR.replace(b'ngpus="2"', b'ngpus="999999999"'),
            "do not fit ngpus; found 2 GPUs, ids 0, 1; expected ids 0 to 9",
        ),
        (
            PAIR.replace(b'ngpus="2"', b'ngpus="two"'),
            "attribute ngpus is out of range; found 'two'; expected a whole number",
        ),
        (
            PAIR.replace(b'nchunksperloop="4"', b'nchunksperloop="0"'),
            "attribute nchunksperloop is out of range; found '0'",
        ),
        (PAIR.replace(b' s="0"', b' s="1"', 1), "line 4: steps are out of order; found s=1; expected s=0"),
        (PAIR.replace(b' s="0"', b"", 1), "line 4: attribute s is missing; expected a whole number from 0"),
        (PAIR.replace(b'type="s"', b'type="z"'), "line 4: unknown step type; found 'z'; expected one of s, r, rcs"),
        (
            PAIR.replace(b'cnt="1"', b'cnt="0"', 1),
            "attribute cnt is out of range; found '0'; expected a whole number from 1",
        ),
        (algo(block(0, 1, 1) * 2, ""), "two thread blocks of a GPU with the same id; found id 0"),
        (
            PAIR.replace(b'send="1"', b'send="-1"'),
            "line 4: a step of type s .*; found send=-1 in thread block 0 of GPU 0",
        ),
        (
            PAIR.replace(b'send="1"', b'send="2"'),
            "found send=2 in thread block 0 of GPU 0; expected another GPU, 0 to 1",
        ),
        (PAIR.replace(b'send="1"', b'send="0"'), "found send=0 in thread block 0 of GPU 0"),
        (
            PAIR.replace(b'type="r"', b'type="nop"'),
            "GPU 0 to GPU 1, channel 0: .*found 1 sends and 0 receptions of 1 chunks",
        ),
        (PAIR.replace(b'cnt="1"', b'cnt="2"', 1), "messages are sent that nobody receives, or the reverse"),
        (
            PAIR.replace(b'depid="-1" deps="-1"', b'depid="3" deps="0"', 1),
            "line 4: dependency on a step that does not exist; found depid=3, deps=0; expected a thread block",
        ),
        (
            PAIR.replace(b'depid="-1" deps="-1"', b'depid="0" deps="1"', 1),
            "dependency on a step that does not exist; found depid=0, deps=1; expected deps below 1",
        ),
        (
            PAIR.replace(b'depid="-1"', b'depid="0"', 1),
            "line 4: half a dependency; found depid='0', deps='-1'; expected depid and deps from 0, or both -1",
        ),
        (PAIR.replace(b'depid="-1" deps="-1"', b'depid="0"', 1), "half a dependency; found depid='0', deps=none"),
        (PAIR.replace(b'depid="-1" deps="-1"', b'deps="0"', 1), "half a dependency; found depid=none, deps='0'"),
        (PAIR.replace(b'deps="-1"', b'deps="0"', 1), "half a dependency; found depid='-1', deps='0'"),
        (algo(block(0, -1, -1, step(0, "cpy", depid=0, deps=0)), ""), "line 4: dependency cycle"),
        (
            algo(block(0, -1, -1, step(0, "nop", depid=0, deps=1), step(1, "nop")), ""),
            "line 4: dependency cycle among nop steps",
        ),
        (algo(""), "another number of GPUs than the group that uses it; found 1 GPUs; expected 2"),
        (
            PAIR.replace(b'cnt="1"', b'cnt="999999999"').replace(b'nchunksperloop="4"', b'nchunksperloop="1"'),
            "line 4: a step is absurdly large; found 999999999 of 1 chunks",
        ),
    ],
)
def test_files_that_cannot_be_used_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        lower(data, size=1 << 40)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.xml", tmp_path):
        with pytest.raises(InputError, match="cannot read the MSCCL algorithm; found"):
            read_msccl(path)


def test_absurd_local_work_is_refused() -> None:
    algorithm = parse_msccl(algo(block(0, -1, -1, step(0, "re"))), "x.xml")
    with pytest.raises(InputError, match=r"absurdly large; found \d+ ns of local work"):
        lower_msccl(algorithm, AR, 1, 100, lambda size: 1 << 62, Notes())


def test_entity_bombs_end_at_once() -> None:
    bomb = "<!DOCTYPE a [<!ENTITY a0 'x'>" + "".join(f"<!ENTITY a{i} '{f'&a{i - 1};' * 10}'>" for i in range(1, 30))
    before = time.perf_counter()
    with pytest.raises(InputError):
        parse_msccl((bomb + "]><algo>&a29;</algo>").encode(), "x.xml")
    assert time.perf_counter() - before < 1


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(InputError, match="unexpected element"):
        parse_msccl(b"<algo>" * 1_000_000, "x.xml")


def test_mutated_files_give_a_program_or_an_input_error() -> None:
    import random

    rng = random.Random(5)
    for _ in range(300):
        data = bytearray(PAIR)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(data))
            if rng.random() < 0.3:
                del data[place:]
                data += b" "
            else:
                data[place] = rng.choice([rng.randrange(256), *b'0123456789-"<>/'])
        try:
            lower_msccl(parse_msccl(bytes(data), "x.xml"), AR, 2, 1000, lambda size: size, Notes())
        except InputError as error:
            assert str(error).startswith("x.xml")


WHOLE = algo(
    block(0, 1, 1, step(0, "s"), step(1, "rrc"), channel=1) + block(1, -1, -1, step(0, "nop", 1, 0, 1)),
    block(0, 0, 0, step(0, "s"), step(1, "rrc"), channel=1) + block(1, -1, -1, step(0, "cpy", 1, 0, 1)),
)


def changed_attributes() -> Iterator[bytes]:
    """Each attribute left out, or with another value."""
    text = WHOLE.decode()
    for found in re.finditer(r' (\w+)="([^"]*)"', text):
        yield (text[: found.start()] + text[found.end() :]).encode()
        for value in ("", "-2", "-1", "0", "1", "7", "999999999", "9" * 30, "9" * 5000, "1.5", "x", " 1 ", "\u0661"):
            yield (text[: found.start(2)] + value + text[found.end(2) :]).encode()


def test_no_attribute_ends_in_a_traceback() -> None:
    lower(WHOLE)
    refused = 0
    for data in changed_attributes():
        try:
            lower_msccl(parse_msccl(data, "x.xml"), AR, 2, 4000, lambda number: number // 10, Notes())
        except InputError as error:
            assert error.file == "x.xml"
            refused += 1
    assert refused > 300

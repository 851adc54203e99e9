"""Process groups by role, and classes of ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from captures import attribute, capture, messages, program

from chakrasim.collect.capturing.classes import classes
from chakrasim.collect.capturing.recorded.groups import Groups
from chakrasim.errors import InputError


def test_groups_of_a_mesh_have_the_names_of_its_dimensions() -> None:
    groups = Groups(4)
    groups.add([0, 1], "mesh_tp", "7")
    groups.add([2, 3], "mesh_tp", None)
    groups.add([0, 2], "mesh_dp", "8")
    assert groups.roles() == {"tp": ((0, 1), (2, 3)), "dp": ((0, 2),)}
    assert groups.find("8") == ("dp", (0, 2))


def test_groups_made_by_one_line_have_one_role() -> None:
    groups = Groups(4)
    for rank in range(2):
        groups.add([rank, rank + 2], "undefined", None)
        groups.add([2 * rank, 2 * rank + 1], None, f"{rank}")
    assert groups.roles() == {"pg_1": ((0, 2), (1, 3)), "pg_2": ((0, 1), (2, 3))}


def test_overlapping_groups_of_one_name_are_roles_apart() -> None:
    groups = Groups(4)
    for members in ([0, 1], [2, 3], [1, 2], [0, 1]):
        groups.add(members, "mesh_tp", None)
    assert groups.roles() == {"tp": ((0, 1), (2, 3)), "tp.2": ((1, 2),)}


def test_the_group_of_all_ranks_has_no_name() -> None:
    groups = Groups(2)
    groups.add(None, None, "0")
    groups.add([1, 0], "mesh_dp", "1")
    assert groups.find("0") == ("", (0, 1)) and groups.find("1") == ("", (1, 0)) and not groups.roles()


def test_ranks_at_the_same_place_of_message_groups_are_a_class() -> None:
    roles = {"pp": ((0, 2), (1, 3)), "dp": ((0, 1), (2, 3))}
    assert classes(4, roles, {"pp"}) == {(0,): [0, 1], (1,): [2, 3]}
    assert classes(4, roles, set()) == {(): [0, 1, 2, 3]}
    assert len(classes(4, roles, {""})) == 4


PIPELINES = """
    import torch, torch.distributed as dist
    dist.init_process_group("nccl")
    rank, half = dist.get_rank(), dist.get_world_size() // 2
    dist.new_subgroups_by_enumeration([[first, first + half] for first in range(half)])
    weight = torch.nn.Parameter(torch.randn(4, 4, device="cuda"))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(2):
        x = torch.randn(4, 4, device="cuda")
        if rank < half:
            dist.send(x, rank + half)
        else:
            dist.recv(x, rank - half)
        (x @ weight).sum().backward()
        optimizer.step()
"""


@pytest.mark.slow
def test_messages_among_all_ranks_are_those_of_the_groups_that_have_both(tmp_path: Path) -> None:
    done = capture(program(tmp_path, PIPELINES), world_size=8)
    assert [entry.ranks for entry in done.captured.classes] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert [messages(trace) for trace in done.job.traces] == [[("send", 1)], [("recv", 0)]]
    assert [set(attribute(trace, "pg_name").values()) for trace in done.job.traces] == [{"pg_1"}, {"pg_1"}]


@pytest.mark.slow
def test_messages_without_such_a_group_make_every_rank_its_own_kind(tmp_path: Path) -> None:
    text = "".join(line for line in PIPELINES.splitlines(True) if "subgroups" not in line)
    done = capture(program(tmp_path, text), world_size=4)
    assert [entry.ranks for entry in done.captured.classes] == [(0,), (1,), (2,), (3,)]
    assert [messages(trace) for trace in done.job.traces] == [
        [("send", 2)],
        [("send", 3)],
        [("recv", 0)],
        [("recv", 1)],
    ]


TOLD = """
import torch, torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
length = torch.tensor([48 if rank == 1 else -1], device="cuda")
dist.broadcast(length, src=1)
if length.item() != 48:
    raise RuntimeError(f"rank {rank} was told {length.item()}")
weight = torch.nn.Parameter(torch.randn(int(length), 4, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(2):
    weight.sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "ranks", [pytest.param("all", marks=pytest.mark.slow), pytest.param("3", marks=pytest.mark.slow), "representative"]
)
def test_host_values_that_a_rank_broadcasts_are_told_the_others(tmp_path: Path, ranks: str) -> None:
    done = capture(program(tmp_path, TOLD), world_size=4, ranks=ranks)
    assert {entry.result.summary.peak["parameters"] for entry in done.captured.classes} == {4 * 48 * 4}


def test_a_failure_is_not_laid_to_a_broadcast_that_is_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="RuntimeError: rank 1 was told 47"):
        capture(program(tmp_path, TOLD.replace("48 if", "47 if")), world_size=4, ranks="0")

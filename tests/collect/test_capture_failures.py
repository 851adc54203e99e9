"""Programs that cannot be captured: one message that names the line and a way round."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from captures import capture, program

from chakrasim.cli.main import main
from chakrasim.errors import InputError

HEAD = """
import torch, torch.distributed as dist
weight = torch.nn.Parameter(torch.randn(4, 4, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=0.1)
for number in range(3):
    y = torch.randn(4, 4, device="cuda") @ weight
"""
TAIL = """
    y.sum().backward()
    optimizer.step()
"""


def failing(folder: Path, line: str, **options: Any) -> InputError:
    """What capturing a program with this line ends with."""
    with pytest.raises(InputError) as caught:
        capture(program(folder, HEAD + line + TAIL), **{"world_size": 1, **options})
    return caught.value


@pytest.mark.parametrize("line", ["    y = y[y > 0]", "    y = y * torch.nonzero(y).sum()", "    y.unique()"])
def test_shapes_that_depend_on_values(tmp_path: Path, line: str) -> None:
    error = failing(tmp_path, line)
    assert "depends on values" in error.message
    assert error.place == f"{tmp_path}/program.py:7"
    assert "fixed capacity" in str(error.remedy)


def test_a_shape_within_a_library_names_the_programs_line_too(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "library.py"
    library.parent.mkdir()
    library.write_text("def some(y):\n    return y[y > 0]\n")
    lines = f"    import sys; sys.path.append({str(library.parent)!r})\n    from library import some\n    some(y)"
    assert failing(tmp_path, lines).place == f"{tmp_path}/program.py:9, in {library}:2"


def test_an_error_of_the_programs_own(tmp_path: Path) -> None:
    error = failing(tmp_path, "    raise ValueError('mine')")
    assert error.message == "the program failed while it was captured: ValueError: mine"
    assert error.place == f"{tmp_path}/program.py:7"


def test_an_error_within_pythons_library_is_where_the_program_called_it(tmp_path: Path) -> None:
    lines = "    import multiprocessing\n    multiprocessing.Process(target=print).start()"
    error = failing(tmp_path, lines)
    assert "daemonic processes" in error.message
    assert error.place == f"{tmp_path}/program.py:8"


def test_a_division_by_a_placeholder(tmp_path: Path) -> None:
    assert "ZeroDivisionError" in failing(tmp_path, "    1 / y.sum().item()").message


def test_an_exit_code(tmp_path: Path) -> None:
    assert failing(tmp_path, "    import sys; sys.exit(7)").message == "the program ended with 7"


def test_too_few_steps(tmp_path: Path) -> None:
    error = failing(tmp_path, "    if number == 1: break")
    assert error.message == "the program ended before step 2 was over"
    assert error.found == "1 step of an optimizer"
    error = failing(tmp_path, "    continue")
    assert "--step 0" in str(error.remedy)


def test_a_message_from_anybody(tmp_path: Path) -> None:
    lines = '    number or dist.init_process_group("nccl")\n    dist.recv(y)'
    assert failing(tmp_path, lines, world_size=2).message == (
        "a receive from any rank cannot be captured: who sends is not known"
    )


def test_an_object_that_nobody_sends(tmp_path: Path) -> None:
    lines = '    number or dist.init_process_group("nccl")\n    dist.recv_object_list([None], src=1 - dist.get_rank())'
    assert "waits for an object that rank" in failing(tmp_path, lines, world_size=2).message


@pytest.mark.parametrize(
    ("ranks", "message"), [("0,x", "these are no ranks"), ("0,9", "no such rank"), ([], "no such")]
)
def test_ranks_that_there_are_not(tmp_path: Path, ranks: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        capture(program(tmp_path, HEAD + TAIL), world_size=4, ranks=ranks)


@pytest.mark.parametrize("command", ["capture --world-size 2", "collect"])
def test_of_a_script_that_there_is_not_is_told_before_pytorch_is_imported(tmp_path: Path, command: str) -> None:
    code = (
        "import sys\nfrom chakrasim.cli.main import main\n"
        f"assert main([*{command!r}.split(), 'none.py', '-o', 'out']) == 2\nassert 'torch' not in sys.modules\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert "none.py: there is no such script" in ran.stderr and ran.returncode == 0, ran.stderr


def test_a_script_that_there_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["capture", str(tmp_path / "none.py"), "--world-size", "2", "--output", str(tmp_path / "out")])
    assert code == 2
    assert "there is no such script" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

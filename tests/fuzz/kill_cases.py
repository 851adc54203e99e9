"""The commands that write: for each the words of an earlier run and of one that replaces its files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import chakrasim
from chakrasim.cli.main import main
from chakrasim.notes import Notes
from chakrasim.trace import encode_trace, read, read_trace
from chakrasim.trace.linked.file import read_linked

Read = Callable[[Path], object]
RECORDED = Path(chakrasim.__file__).parent / "demo" / "traces"
LAYER_TIMES = Path(__file__).parents[1] / "data" / "layer-times"

STEP = """\
model: {{preset: llama-7b, layers: 4, sequence: 512}}
parallel: {{dp: 2, tp: 2, pp: 2}}
batch: {{global_batch: {batch}}}
"""
TEXT = "DATA\n3\n" + "".join(f"layer{n} -1 {{time}} NONE 0 2 NONE 0 3 ALLREDUCE 8 4\n" for n in range(3))
PROGRAM = """\
import sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo" if "--gloo" in sys.argv else "nccl")
net = torch.nn.Linear(int(sys.argv[1]), 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    net(torch.ones(2, int(sys.argv[1]))).sum().backward()
    for parameter in net.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
"""
ALONE = """\
import torch

net = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    net(torch.ones(2, 8)).sum().backward()
    optimizer.step()
"""


@dataclass(frozen=True)
class Case:
    """Two runs of a command that write the same files of ``out``, with other contents.

    ``reads`` gives what files that belong together say, and refuses them where they are of two runs; without it every
    file stands for itself. ``repeats``: the same words give the same bytes. ``clears``: the command
    removes earlier outputs before it has new ones. ``modules`` are imported before, since they
    take long.
    """

    name: str
    old: str
    new: str
    reads: tuple[Read, ...] = ()
    repeats: bool = True
    clears: bool = False
    modules: tuple[str, ...] = ()

    def words(self, which: str) -> list[str]:
        """The command line of the old or the new run, in the folder of the case."""
        return (self.old if which == "old" else self.new).split()


def _job(name: str = "job") -> Read:
    return lambda out: [encode_trace(trace) for trace in read(out / name)]


def _groups(name: str) -> Read:
    from chakrasim.machine.groups import load_groups

    def reads(out: Path) -> object:
        if not (out / name).exists():
            return None
        load_groups(str(out / name), Notes())
        return (out / name).read_bytes()

    return reads


def _linked(out: Path) -> object:
    paths = sorted(out.glob("linked.*.json"))
    return [(read_linked(path).source, path.read_bytes()) for path in paths]


def _observed(out: Path) -> object:
    return len(chakrasim.link(out / "host.0.json.gz", out / "device.0.json.gz"))


GENERATED = "--type {} --size {} --ranks {} --output out/job"
_EXPANDED = (_job(), _groups("job.comm_group.json"))
_TRACE = (_job("chakra"), _groups("comm_group.json"))
_LOOK = "in/job.0.et"
_PAIR = "--host in/recorded/host.0.json.gz --device in/recorded/device.0.json.gz"

CASES = (
    Case("trace", "trace in/recorded -o out --step 3 --force", "trace in/recorded -o out --step 4 --force", _TRACE),
    Case(
        "trace in processes",
        "trace in/recorded -o out --step 3 --force --jobs 2",
        "trace in/recorded -o out --step 4 --force --jobs 2",
        _TRACE,
    ),
    Case(
        "link a folder",
        "link in/recorded -o out --step 3 --force",
        "link in/recorded -o out --step 4 --force",
        (_linked,),
    ),
    Case(
        "link",
        f"link {_PAIR} -o out/l.json --step 3 --force --json out/j",
        f"link {_PAIR} -o out/l.json --step 4 --force --json out/j",
    ),
    Case(
        "convert PyTorch",
        "convert PyTorch --input in/linked3.json --output out/c.et --force --json out/j",
        "convert PyTorch --input in/linked4.json --output out/c.et --force --json out/j",
    ),
    Case(
        "convert Text",
        "convert Text --input in/one.txt --output out/job --num-npus 3 --num-passes 1 --force",
        "convert Text --input in/two.txt --output out/job --num-npus 3 --num-passes 1 --force",
        _EXPANDED,
    ),
    Case(
        "generate transformer",
        "generate transformer --spec in/one.yaml --output out/job",
        "generate transformer --spec in/two.yaml --output out/job",
        (_job(),),
    ),
    Case(
        "generate transformer --expand",
        "generate transformer --spec in/one.yaml --output out/job --expand",
        "generate transformer --spec in/two.yaml --output out/job --expand",
        _EXPANDED,
    ),
    Case(
        "generate collective --expand, fewer ranks",
        f"generate collective {GENERATED.format('all_reduce', '1MiB', 6)} --expand",
        f"generate collective {GENERATED.format('all_to_all', '2MiB', 4)} --expand",
        _EXPANDED,
    ),
    Case(
        "generate collective, expanded before",
        f"generate collective {GENERATED.format('send_recv', '1MiB', 4)} --expand",
        f"generate collective {GENERATED.format('send_recv', '2MiB', 4)}",
        _EXPANDED,
    ),
    Case(
        "generate collective --expand, shared before",
        f"generate collective {GENERATED.format('send_recv', '1MiB', 4)}",
        f"generate collective {GENERATED.format('send_recv', '2MiB', 4)} --expand",
        _EXPANDED,
    ),
    Case(
        "generate reference-set",
        "generate reference-set --num-npus 1 --force --output-dir out --default-comm-size 64",
        "generate reference-set --num-npus 1 --force --output-dir out --default-comm-size 128 --default-runtime 9 "
        "--default-tensor-size 8",
        (lambda out: [encode_trace(read_trace(path)) for path in sorted(out.glob("*.et"))],),
    ),
    Case("retarget", "retarget in/job --to 8 -o out/job", "retarget in/job --to 16 -o out/job", (_job(),)),
    Case(
        "retarget --expand",
        "retarget in/job --to 8 -o out/job --expand",
        "retarget in/job --to 16 -o out/job --expand",
        _EXPANDED,
    ),
    Case("split", "split in/master.et -o out/job", "split in/other.et -o out/job", (_job(),)),
    Case("merge", "merge in/job -o out/m.et", "merge in/large -o out/m.et"),
    Case("jsonize", f"jsonize {_LOOK} -o out/j.json", "jsonize in/large.0.et -o out/j.json"),
    Case("draw", f"draw {_LOOK} -o out/p.graphml", "draw in/large.0.et -o out/p.graphml"),
    Case("timeline", "timeline in/one.log -o out/t.json", "timeline in/two.log -o out/t.json"),
    Case(
        "simulate",
        "simulate in/job --machine hgx-h100-8 --json out/r.json --timeline out/t.json",
        "simulate in/large --machine hgx-h100-8 --json out/r.json --timeline out/t.json",
    ),
    Case(
        "analyze summary",
        "analyze summary in/recorded/device.0.json.gz --json out/s.json",
        "analyze summary in/recorded/device.1.json.gz --json out/s.json",
    ),
    Case(
        "analyze critical-path",
        "analyze critical-path in/recorded/device.0.json.gz --json out/s.json --overlay out/o.json",
        "analyze critical-path in/recorded/device.1.json.gz --json out/s.json --overlay out/o.json",
    ),
    Case("doctor", "doctor in/recorded --json out/d.json", "doctor in/other --json out/d.json"),
    Case("info", "info in/job --json out/i.json", "info in/large --json out/i.json"),
    Case(
        "replay",
        "replay in/job --dry-run --json out/r.json --csv out/r.csv",
        "replay in/large --dry-run --json out/r.json --csv out/r.csv",
    ),
    Case(
        "calibrate",
        f"calibrate compute --data {LAYER_TIMES} --output out/d.yaml --json out/c.json",
        f"calibrate compute --data {LAYER_TIMES} --output out/d.yaml --json out/c.json --holdout Llama-3.1-8B",
    ),
    Case(
        "capture",
        "capture in/program.py --world-size 2 -o out/job -- 8",
        "capture in/program.py --world-size 4 -o out/job -- 16",
        (_job(),),
        modules=("torch", "torch.distributed", "chakrasim.collect.capturing.rank"),
    ),
    Case(
        "capture --expand",
        "capture in/program.py --world-size 2 -o out/job --expand -- 8",
        "capture in/program.py --world-size 2 -o out/job --expand -- 16",
        _EXPANDED,
        modules=("torch", "torch.distributed", "chakrasim.collect.capturing.rank"),
    ),
    Case(
        "collect",
        "collect in/alone.py -o out --force --active 1 --stop --no-verdict",
        "collect in/alone.py -o out --force --active 1 --stop --no-verdict",
        (_observed,),
        repeats=False,
        clears=True,
        modules=("torch", "torch.profiler"),
    ),
)


def make_inputs(folder: Path) -> None:
    """What the cases read, in ``folder``."""
    for name, ranks in (("recorded", (0, 1)), ("other", (0, 2))):
        (folder / name).mkdir(parents=True)
        for place, rank in enumerate(ranks):
            for kind in ("host", "device"):
                shutil.copy(RECORDED / f"{kind}.{rank}.json.gz", folder / name / f"{kind}.{place}.json.gz")
    for name, batch in (("one", 8), ("two", 16)):
        (folder / f"{name}.yaml").write_text(STEP.format(batch=batch))
        (folder / f"{name}.txt").write_text(TEXT.format(layers=3, time=batch))
        (folder / f"{name}.log").write_text(_log(batch))
    (folder / "program.py").write_text(PROGRAM)
    (folder / "alone.py").write_text(ALONE)
    host, device = folder / "recorded" / "host.0.json.gz", folder / "recorded" / "device.0.json.gz"
    for words in (
        f"generate collective --type all_reduce --size 1MiB --ranks 8 --expand --output {folder}/job",
        f"generate collective --type all_reduce --size 1MiB --ranks 8 --repeat 300 --expand --output {folder}/large",
        f"merge {folder}/job -o {folder}/master.et",
        f"merge {folder}/large -o {folder}/other.et",
        f"link --host {host} --device {device} -o {folder}/linked3.json --step 3",
        f"link --host {host} --device {device} -o {folder}/linked4.json --step 4",
    ):
        assert main(words.split()) == 0, words


def _log(count: int) -> str:
    """A log of a simulation in which nodes start and end."""
    lines = []
    for at in range(count):
        rest = f"node->id={at},node->name=COMP_NODE_{at},node->type=4"
        for what, tick in (("issue", 1000 * at), ("callback", 1000 * at + 500)):
            lines.append(f"[2026-03-26 10:00:00.000] [workload] [info] {what},sys->id=0,tick={tick},{rest}\n")
    return "".join(lines)

"""Made jobs in GOAL, SimAI's and AICB's formats, and what is in them counted by regular expressions."""

from __future__ import annotations

import random
import re
from collections import Counter

HEADER = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 2 vpp: 4 ga: 2 all_gpus: 32 "
    "checkpoints: 0 checkpoint_initiates: 0 pp_comm: 4096.0"
)
SIMAI = f"""{HEADER}
6
grad_gather\t-1\t1\tNONE\t0\t1\tNONE\t0\t1\tALLGATHER\t28078\t100
norm -1 0 BROADCAST 16384 1 NONE 0 1 NONE 0 0
embedding_layer\t-1\t622731\tALLREDUCE\t5033\t1\tNONE\t0\t150910\tNONE\t0\t100
attention\t-1\t1750840\tALLGATHER\t503316\t875420\tREDUCESCATTER\t0\t875420\tNONE\t0\t100
experts\t-1\t1\tALLTOALL_EP\t100663\t1\tALLTOALL_EP\t100663\t1\tNONE\t0\t100
experts\t-1\t7956\tREDUCESCATTER\t201326\t7956\tALLGATHER\t201326\t3\tREDUCESCATTER_DP_EP\t3865\t100
"""
NAMES = "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count"
_ROWS = """\
CommType.all_reduce,CommGroup.dp_group,4,8,init,None,None,,3.38,0.5,0.4,1
CommType.broadcast,CommGroup.tp_group,2,64,forward,None,0,,None,None,None,1
CommType.all_gather,CommGroup.dp_group,4,1024,step,None,None,,None,None,None,1
CommType.barrier,CommGroup.all,16,0,step,None,None,,None,None,None,1
CommType.computation,CommGroup.all,None,((8 16) (16 32)),forward,None,None,,1.5,None,None,1
"""
_FIRST = "CommType.isend,CommGroup.pp_group,1,4096,forward_step,None,None,send_next,None,None,None,1\n"
_LAST = "CommType.irecv,CommGroup.pp_group,1,4096,forward_step,None,None,recv_prev,None,None,None,1\n"
_END = "CommType.epoch_end,None,None,0,,None,None,,None,None,None,1\n"
AICB = (
    f"[ pp_stage0: [{', '.join(f'rank{rank}' for rank in range(8))}] ]\n{NAMES}\n{_ROWS}{_FIRST}{_END}"
    f"[ pp_stage1: [{', '.join(f'rank{rank}' for rank in range(8, 16))}] ]\n{NAMES}\n{_ROWS}{_LAST}{_END}"
)


def goal(seed: int, ranks: int = 4, most: int = 40) -> str:
    """A schedule that ends: rounds of messages between neighbours, with computations and dependencies at random."""
    draw = random.Random(seed)
    blocks: list[list[str]] = [[] for _ in range(ranks)]
    counts = [0] * ranks

    def add(rank: int, text: str) -> None:
        lines, label = blocks[rank], f"op{counts[rank]}"
        lines.append(f"{label}: {text}{draw.choice(('', ' cpu 1', ' cpu 2'))}")
        if counts[rank] and draw.random() < 0.8:
            lines.append(f"{label} {draw.choice(('requires', 'requires', 'irequires'))} op{counts[rank] - 1}")
        counts[rank] += 1

    for turn in range(draw.randrange(2, most)):
        size, tag = draw.choice((1, 8, 4096, 1 << 20)), draw.choice((turn, 7))
        rank = draw.randrange(ranks)
        add(rank, f"send {size}b to {(rank + 1) % ranks} tag {tag}")
        add((rank + 1) % ranks, f"recv {size}b from {rank} tag {tag}")
        add(draw.randrange(ranks), f"calc {draw.choice((0, 1, 999, 123456))}")
    parts = [f"\nrank {rank} {{\n" + "\n".join(lines) + "\n}\n" for rank, lines in enumerate(blocks)]
    return f"num_ranks {ranks}\n// made\n" + "".join(parts)


def count_goal(text: str) -> Counter[str]:
    """Operations, dependencies, bytes and ns of a schedule with an operation a line."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        for word in re.findall(r"\b(send|recv|calc|requires|irequires)\b", line):
            found[word] += 1
        found["bytes"] += sum(map(int, re.findall(r"send (\d+)b", line)))
        found["ns"] += sum(map(int, re.findall(r"calc (\d+)", line)))
    return found


def count_simai(text: str) -> Counter[str]:
    """Rows, ns of computations, and collectives with bytes by their names."""
    found: Counter[str] = Counter()
    number = r"\s+(\d+)\s+([A-Z_]+)\s+(\d+)"
    for match in re.finditer(rf"^\S+\s+-1{number * 3}\s+\d+\s*$", text, re.MULTILINE):
        found["rows"] += 1
        for at in (1, 4, 7):
            found["ns"] += int(match[at])
            if int(match[at + 2]):
                found[match[at + 1]] += 1
    return found


def count_aicb(text: str) -> Counter[str]:
    """Rows by the kind of their operation."""
    return Counter(re.findall(r"^CommType\.(\w+),", text, re.MULTILINE))

"""How short traces are as grammars, and that they come back byte for byte.

Made traces, the demo's recorded rank, and any other: a Chakra trace, or a folder with host.0.json.gz and
device.0.json.gz (as ``chakrasim collect`` writes them), which is linked and converted first.

python benchmarks/bench_grammar.py [NAME=PATH ...]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from typing import Any

import chakrasim as cs
from chakrasim.demo import TRACES
from chakrasim.synthesis.grammar.written import unwritten, written
from chakrasim.trace.chakra.encode import encode_trace
from chakrasim.trace.chakra.graph import Trace

MADE: dict[str, dict[str, Any]] = {
    "llama-7b, tp 4, pp 2, 8 micro-batches": {
        "model": "llama-7b", "parallel": {"tp": 4, "pp": 2}, "batch": {"micro_batches": 8, "micro_batch": 1}},
    "mixtral-8x7b, ep 8, tp 2, pp 4": {
        "model": "mixtral-8x7b", "parallel": {"ep": 8, "tp": 2, "pp": 4, "dp": 8},
        "batch": {"micro_batches": 8, "micro_batch": 1}},
    "llama-70b, ZeRO 3 over 64": {
        "model": "llama-70b", "parallel": {"dp": 64, "zero": 3}, "batch": {"micro_batches": 1, "micro_batch": 1}},
}  # fmt: skip


def traces(more: list[str]) -> Iterator[tuple[str, Trace]]:
    """Names and traces."""
    for name, spec in MADE.items():
        yield name, cs.transformer_job(spec).traces[0]
    for given in (f"the demo's rank 0={TRACES}", *more):
        name, _, path = given.partition("=")
        if os.path.isdir(path):
            files = (os.path.join(path, f"{side}.0.json.gz") for side in ("host", "device"))
            yield name, cs.convert(cs.link(*files))
        else:
            yield name, cs.trace.read_trace(path)


def main() -> None:
    """Print a line a trace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("more", nargs="*", metavar="NAME=PATH")
    print("| trace | nodes | kinds | symbols | nodes a symbol | structure: kinds | symbols | nodes a symbol | CPU |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, trace in traces(parser.parse_args().more):
        begin = time.process_time()
        whole = written(trace)
        took = time.process_time() - begin
        if encode_trace(unwritten(whole)) != encode_trace(trace):
            raise SystemExit(f"{name}: what comes back is another trace")
        short = written(trace, sizes=False)
        columns = (name, len(trace), len(whole.kinds), whole.grammar.symbols, f"{whole.ratio:.1f}", len(short.kinds),
                   short.grammar.symbols, f"{short.ratio:.1f}", f"{took:.1f} s")  # fmt: skip
        print("| " + " | ".join(f"{one:,}" if isinstance(one, int) else str(one) for one in columns) + " |", flush=True)


if __name__ == "__main__":
    main()

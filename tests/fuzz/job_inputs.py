"""Small intact inputs of the tools that make, change and run jobs, and of those that know devices."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import tool_inputs
from damage import Files

from chakrasim.cli.main import main
from chakrasim.machine import device_text

MACHINE = """\
format: 1
name: cluster
network:
  - {topology: Switch, npus: 2, bandwidth: 400 GB/s, latency: 500 ns}
  - {topology: Ring, npus: RANKS, bandwidth: 50 GB/s, latency: 2 us}
compute: {profile: device.yaml}
memory: {bandwidth: 3350 GB/s}
collectives:
  splits: 2
  active-chunks: 1
  algorithms: {all-reduce: ring, all-gather: ring, reduce-scatter: ring, all-to-all: direct}
"""
MODEL = "{layers: 2, hidden: 64, heads: 4, vocabulary: 256, sequence: 16}"
SPECS = (
    f"model: {MODEL}\nparallel: {{dp: 2, tp: 2, pp: 2, sp: true}}\nbatch: {{global_batch: 4, micro_batch: 1}}\n",
    f"model: {MODEL}\nparallel:\n  dp: 4\n  zero: 3\n  fsdp: 2\nbatch:\n  micro_batches: 2\nrecompute: full\n"
    "optimizer: sgd\n",
    """\
model:
  layers: 4
  hidden: 64
  feed_forward: 192
  heads: 8
  kv_heads: 4
  vocabulary: 512
  sequence: 32
  gated: true
  position: learned
  norm: layer
  dropout: true
  moe: {experts: 4, top_k: 2, every: 2, feed_forward: 64, shared_feed_forward: 32}
parallel: {dp: 2, tp: 2, pp: 2, ep: 2, virtual_stages: 2, zero: 1}
schedule: interleaved
batch: {micro_batch: 2, micro_batches: 2}
recompute: selective
dtype: float16
gradient_dtype: float16
optimizer: {kind: adamw, state_bytes: 8}
clip_gradients: true
flash_attention: false
overlap: {tp: false, dp: true, pp: false, fsdp: true, bucket: 1 MiB}
""",
)


@cache
def specs() -> tuple[Files, ...]:
    """Descriptions of transformers, with a device."""
    return tuple({"step.yaml": spec.encode(), "device.yaml": _device()} for spec in SPECS)


def _device() -> bytes:
    return device_text("h100").encode()


def _made(ranks: int, *words: str) -> Files:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "step.yaml")
        source.write_text(words[0])
        given = ["transformer", "--spec", str(source), *words[1:]] if ":" in words[0] else ["collective", *words]
        if main(["generate", *given, "--output", f"{folder}/job", "--quiet"]):
            raise AssertionError(words)
        found = {path.name: path.read_bytes() for path in sorted(Path(folder).glob("job.*"))}
    return {**found, "machine.yaml": MACHINE.replace("RANKS", str(ranks // 2)).encode(), "device.yaml": _device()}


@cache
def jobs() -> tuple[Files, ...]:
    """Jobs whose ranks share traces, or, expanded, with a group file; a machine and its device beside them."""
    steps = tuple(_made(ranks, spec) for ranks, spec in zip((8, 4, 8), SPECS, strict=True))
    collective = ("--ranks", "4", "--size", "1MiB", "--repeat", "2")
    return (
        *steps,
        *steps[:2],
        _made(8, SPECS[0], "--expand"),
        _made(4, "--type", "broadcast", *collective),
        _made(4, "--type", "send_recv", *collective),
    )


CONFIG: dict[str, Any] = {"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000}
MODELS = {
    "meta-llama/Llama-3.1-8B": {**CONFIG, "hidden_size": 4096, "intermediate_size": 14336},
    "mistralai/Mixtral-8x7B-v0.1": {
        **CONFIG, "hidden_size": 4096, "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2
    },
}  # fmt: skip


@cache
def layer_times() -> tuple[Files, ...]:
    """Measured layers of two models, and the models' dimensions."""
    root = tool_inputs.DATA / "layer-times"
    files = {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("layers.csv"))}
    for name, data in files.items():
        lines = data.splitlines(keepends=True)
        files[name] = b"".join([lines[0], *lines[1::4]])
    files = {name: data for name, data in files.items() if "tp4" not in name}
    known = json.dumps(MODELS).encode()
    first = {name: data for name, data in files.items() if "Llama" in name}
    as_yaml = "".join(
        f"{name}:\n" + "".join(f"  {key}: {value}\n" for key, value in model.items()) for name, model in MODELS.items()
    )
    attention = "prefill_chunk_size,kv_cache_size,batch_size,is_prefill,time_stats.attn_prefill.median\n" + "".join(
        f"{size},{keys},1,True,{0.01 + size * keys / 1e8}\n" for size in (64, 512, 2048) for keys in (64, 1024, 4096)
    )
    folder = "H100/meta-llama/Llama-3.1-8B/tp1"
    return (
        {**files, "models.json": known},
        {
            **first,
            f"{folder}/attention.csv": attention.encode(),
            "models.yaml": as_yaml.encode(),
            "device.yaml": _device(),
        },
    )

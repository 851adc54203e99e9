"""A row of a table of training steps as what is simulated: a spec of the generator, and a machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from chakrasim.calibration.measurements.csv_rows import number_of
from chakrasim.errors import InputError
from chakrasim.validation.steps.rows import StepRow

if TYPE_CHECKING:
    from chakrasim.generator.spec.spec import Spec

BOARDS: Final = (
    (r"A100", "a100"),
    (r"H200-SXM", "h200"),
    (r"H100-SXM", "h100"),
    (r"V100-SXM2", "v100"),
)
"""Boards by name of the GPU, those whose device profile is shipped."""
_DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_KNOWN: Final = {
    "task": (("", "pretrain", "sft"), "the generator knows training of all parameters"),
    "class": (("", "dense"), "the generator knows no experts as these models have them"),
    "cp": (("", "1"), "the generator knows no context parallelism"),
    "attention": (("", "mha", "gqa"), "the generator knows attention with heads of keys and values"),
    "window": (("", "0"), "the generator knows no sliding windows"),
    "offload": (("", "none"), "the generator keeps everything in the GPU's memory"),
    "precision": (tuple(_DTYPES), "the generator's matrix products are of 16 bits or more"),
    "recompute": (("none", "selective", "full"), "the generator knows these kinds of recomputation"),
}
"""What can be simulated, by column, and why nothing else."""


@dataclass(frozen=True)
class Described:
    """A row that can be simulated.

    Attributes
    ----------
    row: it.
    spec: of the generator.
    board, gpus, nic: of the machine; ``nic`` empty: the board's own.
    assumed: what the row leaves open, in words.
    """

    row: StepRow
    spec: Spec
    board: str
    gpus: int
    nic: str
    assumed: tuple[str, ...]


def described(row: StepRow) -> Described:
    """What a row says. Raises InputError, with the reason, for what cannot be simulated."""
    from chakrasim.generator.spec.file import load_spec

    for column, (known, why) in _KNOWN.items():
        if row.get(column) not in known:
            raise InputError(why, place=row.place, found=f"{column} {row.get(column) or 'blank'}",
                             expected=", ".join(filter(None, known)))  # fmt: skip
    assumed: list[str] = []
    board, gpus = _board(row), _whole(row, "gpus")
    entries = _entries(row, assumed)
    spec = load_spec(entries)
    if spec.parallel.ranks != gpus:
        raise InputError("the split does not make so many GPUs", place=row.place, found=f"{spec.parallel.ranks} ranks",
                         expected=f"{gpus} GPUs")  # fmt: skip
    return Described(row, spec, board, gpus, _nic(row, gpus, assumed), tuple(assumed))


def _entries(row: StepRow, assumed: list[str]) -> Mapping[str, Any]:
    """The spec as its file would have it."""
    tp, vocabulary = _whole(row, "tp"), _whole(row, "vocab")
    layers, pp, pieces = _whole(row, "layers"), _whole(row, "pp"), _whole(row, "vp") if row.get("vp") else 1
    gated, of_foundry = row.is_set("gated_ffn"), "foundry" in row.get("framework").lower()
    padded = -(-vocabulary // (128 * tp)) * 128 * tp if vocabulary % tp else vocabulary
    if padded != vocabulary:
        assumed.append(f"vocabulary padded to {padded}")
    assumed.append("rotary positions and RMS norms" if gated else "learned positions and layer norms")
    model = {
        "name": row.get("model", "transformer"), "layers": layers, "hidden": _whole(row, "hidden"),
        "feed_forward": _whole(row, "ffn"), "heads": _whole(row, "heads"),
        "kv_heads": _whole(row, "kv_heads", "heads"), "vocabulary": padded, "sequence": _whole(row, "seq_len"),
        "gated": gated, "tied_embeddings": row.is_set("tied_embeddings"),
        "position": "rotary" if gated else "learned", "norm": "rms" if gated else "layer",
        "bias": not gated and not of_foundry,
    }  # fmt: skip
    if row.get("head_dim"):
        model["head_size"] = _whole(row, "head_dim")
    parallel = {
        "dp": _whole(row, "dp"), "tp": tp, "pp": pp, "sp": tp > 1 and row.is_set("sequence_parallel"),
        "zero": _whole(row, "zero_stage", least=0) if row.get("zero_stage") else 0, "virtual_stages": pieces,
        "balance": _balance(row, layers, pp * pieces, assumed),
    }  # fmt: skip
    batch = {"global_batch": _whole(row, "global_batch"), "micro_batch": _whole(row, "micro_batch")}
    return {
        "model": model,
        "parallel": parallel,
        "batch": batch,
        "recompute": row.get("recompute"),
        "dtype": _DTYPES[row.get("precision")],
    }


def _balance(row: StepRow, layers: int, pieces: int, assumed: list[str]) -> str:
    """How stages share layers: as the row says, else evenly, or so that embedding and head make them even."""
    if layers % pieces == 0 and "embeddings" not in row.get("stage_balance"):
        return "even"
    balance = "ends" if (layers + 2) % pieces == 0 else "layers"
    if row.get("stage_balance"):
        return "ends" if "embeddings" in row.get("stage_balance") else "layers"
    assumed.append("stages share layers, embedding and head evenly" if balance == "ends" else "stages share layers as "
                   "evenly as it goes")  # fmt: skip
    return balance


def _board(row: StepRow) -> str:
    name = row.get("gpu")
    found = next((board for pattern, board in BOARDS if re.search(pattern, name)), None)
    if found is None:
        known = ", ".join(pattern for pattern, _ in BOARDS)
        raise InputError("no device profile of this GPU", place=row.place, found=name or "blank", expected=known)
    return found


def _nic(row: StepRow, gpus: int, assumed: list[str]) -> str:
    """The speed of a GPU's port between nodes, where there are several."""
    if gpus <= (_whole(row, "gpus_per_node") if row.get("gpus_per_node") else 8):
        return ""
    text = row.get("nic_gbps_per_gpu")
    if not text:
        assumed.append("the board's usual NICs")
        return ""
    if not number_of(text) > 0:
        raise _no_number(row, "nic_gbps_per_gpu", text, "Gb/s above 0")
    return f"{number_of(text):g}G"


def _whole(row: StepRow, column: str, instead: str = "", least: int = 1) -> int:
    """A whole number; of a blank column that ``instead`` of it."""
    text = row.get(column) or (row.get(instead) if instead else "")
    if not text.isascii() or not text.isdigit() or len(text) > 19 or not least <= int(text) < 1 << 60:
        raise _no_number(row, column, text, f"a whole number of {least} or more")
    return int(text)


def _no_number(row: StepRow, column: str, text: str, expected: str) -> InputError:
    place = f"{row.place}, column {column}"
    return InputError("this is no such number", place=place, found=repr(text[:40]), expected=expected)

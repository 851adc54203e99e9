"""Where a GPU may take TF32 for float32: as the program has set `torch.backends`, at the time of each operator."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import Final

import torch

from chakrasim.operators.describe import OperatorWork
from chakrasim.trace.work import WorkKind

TF32: Final = "tfloat32"

_KIND_OF: Final = {WorkKind.GEMM: "matmul", WorkKind.CONVOLUTION: "conv"}
_SETTING_OF: Final = {
    "matmul": "torch.backends.cuda.matmul",
    "conv": "torch.backends.cudnn.conv",
    "rnn": "torch.backends.cudnn.rnn",
}


class Precision:
    """Of the operators of one program; ``counted`` says how many are in TF32, by the setting that allows it."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()
        self._narrow: dict[OperatorWork, OperatorWork] = {}

    def __call__(self, work: OperatorWork) -> OperatorWork:
        """The work in the type that a GPU computes it in."""
        if work.dtype != "float32" or work.kind not in _KIND_OF:
            return work
        setting = "rnn" if "rnn" in work.name else _KIND_OF[work.kind]
        if not allows_tf32(setting):
            return work
        self.counted[f"float32 operators in TF32, which {_SETTING_OF[setting]} allows"] += 1
        if work not in self._narrow:
            self._narrow[work] = replace(work, dtype=TF32)
        return self._narrow[work]


def allows_tf32(setting: str) -> bool:
    """Whether "matmul", "conv" or "rnn" on a GPU take TF32 now; NVIDIA's libraries heed an environment variable too."""
    if os.environ.get("NVIDIA_TF32_OVERRIDE") == "0":
        return False
    getter = getattr(torch._C, "_get_fp32_precision_getter", None)
    if getter is not None:
        return bool(getter("cuda", setting) == "tf32")
    known = torch._C._get_cublas_allow_tf32() if setting == "matmul" else torch._C._get_cudnn_allow_tf32()
    return bool(known)

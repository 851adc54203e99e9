"""``chakrasim.experiment``: published experiments by their names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Final, cast

from chakrasim.errors import InputError, near
from chakrasim.experiments.result import Experiment
from chakrasim.progress import Progress


@dataclass(frozen=True)
class Known:
    """An experiment that there is: its module here, what it does, what ``data`` may be ("" for nothing)."""

    module: str
    summary: str
    data: str = ""


EXPERIMENTS: Final[Mapping[str, Known]] = MappingProxyType({
    "chakra-paper": Known("paper", "the Chakra paper's two machines: four models, splits over 64 NPUs"),
    "mlsys26-figure-6": Known(
        "recorded", "recorded jobs replayed, beside figure 6", "PyTorch's traces: a folder, or one of such folders"
    ),
    "mlsys26-figure-7": Known("infiniband", "collectives on 400 and 100 Gb/s, beside figure 7"),
    "mlsys26-figure-12": Known("networks", "Mixtral 8x7B on three networks at five bandwidths, beside figure 12"),
    "wiki-gpus": Known(
        "gpus", "all-reduces of H100, V100, GPU counts held out", "CSV: machine, gpus, link_GBps, size_bytes, time_us"
    ),
    "wiki-tpus": Known("tpus", "all-reduces of TPU v3 as curves without a scale", "CSV: machine,size_bytes,latency"),
    "gpu-to-cpu-sync": Known("sync", "what the host waits for, by critical path", "a device trace"),
    "pytorch-tutorial": Known("tutorial", "PyTorch, Chakra, simulator, end to end, with the tutorial's network"),
    "gloo-replay": Known("gloo", "recorded communication replayed on gloo ranks, measured and simulated"),
})  # fmt: skip


def experiment(
    name: str, *, data: str | os.PathLike[str] | None = None, progress: Progress | None = None
) -> Experiment:
    """Run a published experiment again: its tables, what was assumed, and what could not be compared.

    Parameters
    ----------
    name: one of `EXPERIMENTS`, which ``chakrasim experiment`` lists.
    data: a file or folder of your own in place of, or beside, what ships with the package, where an experiment takes
        one; `EXPERIMENTS` says what.
    progress: called before each step with how many are done, how many there are, and what it is, and at the end.

    Raises
    ------
    InputError: for unknown names and unusable data, and where what an experiment needs is not installed.
    """
    known = EXPERIMENTS.get(name)
    if known is None:
        raise InputError(
            "there is no such experiment",
            place="NAME",
            found=name[:80],
            expected=f"one of {', '.join(EXPERIMENTS)}",
            remedy=near(name, EXPERIMENTS) or None,
        )
    if data is not None and not known.data:
        raise InputError("this experiment takes no data of yours", place="--data", found=os.fspath(data),
                         remedy=f"leave it out of {name}")  # fmt: skip
    run = import_module(f"chakrasim.experiments.{known.module}").run
    return cast(Experiment, run(*([data] if known.data else []), progress=progress))

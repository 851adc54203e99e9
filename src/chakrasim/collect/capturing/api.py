"""`chakrasim.collect.capture`: a step of a PyTorch program on any number of ranks, without GPU or cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from chakrasim.collect.capturing.script_modules import check_script
from chakrasim.errors import InputError
from chakrasim.startup import cores
from chakrasim.text.amounts import ranks_text, size_text
from chakrasim.text.shown import Shown

if TYPE_CHECKING:
    from chakrasim.collect.capturing.job import CapturedJob, RankClass
    from chakrasim.trace.job.job import Job

FORMAT: Final = "chakrasim-capture-1"


@dataclass(frozen=True)
class Capture(Shown):
    """What `capture` gives.

    Attributes
    ----------
    job: traces of all ranks, for `chakrasim.simulate`; of the chosen ranks if some were chosen.
    ranks: the chosen ranks; empty if the job is of all ranks.
    captured: the job with its classes and what each amounts to.
    profile: the DeviceProfile that durations and the verdict on memory come from, or None.
    assumptions: what was assumed, made up or left out, in sentences.
    warnings: what is doubtful.
    """

    job: Job
    ranks: tuple[int, ...]
    captured: CapturedJob
    profile: Any
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]

    def _in_short(self) -> dict[str, str]:
        classes = self.captured.classes
        figures = {
            "ranks": f"{self.captured.world:,}",
            "classes": f"{len(classes):,}",
            "nodes": f"{sum(map(len, self.job.traces)):,}",
            "peak memory": size_text(max((entry.result.summary.peak_bytes for entry in classes), default=0)),
        }
        if self.ranks:
            figures["captured"] = f"rank {ranks_text(self.ranks)}"
        return figures | ({"warnings": f"{len(self.warnings):,}"} if self.warnings else {})

    def write(self, prefix: str | os.PathLike[str], *, expand: bool = False, compress: bool = False) -> list[str]:
        """Write the traces; returns the names of the files.

        Equal ranks share ``PREFIX.class-I.et``, and ``PREFIX.ranks.json`` says who runs which; ``expand`` gives every
        rank ``PREFIX.RANK.et``, as chosen ranks always have. Raises InputError.
        """
        from chakrasim.collect.capturing.files import write_chosen
        from chakrasim.trace.job.file import write_job

        if self.ranks:
            return write_chosen(prefix, self.captured, self.ranks, compress)
        return write_job(prefix, self.job, expand=expand, compress=compress)

    def to_mapping(self) -> dict[str, Any]:
        """Plain values for JSON."""
        classes = [self._class(index, entry) for index, entry in enumerate(self.captured.classes)]
        return {
            "format": FORMAT,
            "ranks": self.captured.world,
            "chosen_ranks": list(self.ranks),
            "device_profile": None if self.profile is None else self.profile.name,
            "total_flops": sum(entry["total_flops"] * entry["rank_count"] for entry in classes),
            "classes": classes,
            "process_groups": {
                role: {"groups": len(groups), "size": len(groups[0]) if groups else 0}
                for role, groups in self.captured.roles.items()
            },
            "verified_ranks": list(self.captured.verified),
            "assumptions": list(self.assumptions),
            "warnings": list(self.warnings),
        }

    def verdict(self, entry: RankClass) -> tuple[bool, str] | None:
        """Whether a class fits the device's memory, and the sentence; None without a profile."""
        if self.profile is None:
            return None
        from chakrasim.collect.capturing.recorded.memory import verdict

        return verdict(entry.result.summary.peak_bytes, int(self.profile.memory_bytes))

    def _class(self, index: int, entry: RankClass) -> dict[str, Any]:
        content = entry.result.summary.to_mapping()
        verdict = self.verdict(entry)
        if verdict is not None:
            content["memory"] |= {
                "fits": verdict[0],
                "verdict": verdict[1],
                "capacity_bytes": self.profile.memory_bytes,
            }
        return {
            "class": index,
            "captured_rank": entry.result.rank,
            "rank_count": len(entry.ranks),
            **content,
            "placeholders": entry.result.placeholders,
            "counted": entry.result.counted,
            "operators_without_flops": entry.result.unknown_flops,
        }


def capture(
    program: str | os.PathLike[str] | Callable[[], object],
    *,
    world_size: int,
    ranks: str | Iterable[int] = "representative",
    arguments: Sequence[str] = (),
    is_module: bool = False,
    step: int = 2,
    device_profile: Any = None,
    with_gpu: bool = True,
    devices_per_node: int = 8,
    verify: bool | None = None,
    workers: int | None = None,
    progress: Callable[[str], None] | None = None,
    patience_s: float | None = None,
    tokens: int | None = None,
) -> Capture:
    """Run one step of a program on fake tensors and a fake process group.

    Raises InputError for a program that fails or that cannot be captured; it names the line of the program.

    Long because all its options are described here.

    Parameters
    ----------
    program: a script, which is run unchanged as `torchrun` would run each rank; or a function, called once for each
        step (the first call may set up; it is run in another process, and leaves nothing behind).
    world_size: how many ranks the program believes that there are.
    ranks: "representative": ranks that are equal by construction are captured once; "all"; or the ranks to capture.
    arguments: of the script.
    is_module: ``program`` is the name of a module, found from the current folder as ``python -m`` does.
    step: which step is recorded, from 1; a script's steps end when its first optimizer has stepped. 0: all that the
        script does.
    device_profile: name, file, mapping or DeviceProfile that gives compute nodes durations, and says whether memory
        suffices.
    with_gpu: whether the program finds GPUs (`torch.cuda.is_available()`).
    devices_per_node: GPUs, and ranks, of a node: what LOCAL_RANK counts to.
    verify: capture a second rank of every class and compare; default: if that is cheap.
    workers: ranks that are captured at the same time; default: as many as there are processors, at most 8.
    progress: is told which ranks come next, and twice a second what each is at.
    patience_s: how long a loop may go on whose end hangs on values, which there are not; 20 times as long may pass
        without a step of an optimizer. Default: 40.
    tokens: of the recorded step, over all ranks: noted in the traces for whoever says how many pass in a second.
    """
    from chakrasim.collect.capturing.workers import require_fork
    from chakrasim.collect.observing.job import require_torch
    from chakrasim.machine.device.file import load_device

    if not callable(program):
        check_script(os.fspath(program), is_module)  # before PyTorch is imported, which takes seconds
    require_fork()
    require_torch()
    chosen = _chosen(ranks, world_size)
    profile = None if device_profile is None else load_device(device_profile)
    _preload()
    from chakrasim.collect.capturing.job import JobCapture, assumptions
    from chakrasim.collect.capturing.rank import UserProgram

    if callable(program):
        what = UserProgram(None, (), program, step, with_gpu, devices_per_node)
    else:
        what = UserProgram(os.fspath(program), tuple(arguments), None, step, with_gpu, devices_per_node, is_module)
    count = workers or min(cores(), 8)
    run = JobCapture(what, world_size, profile, count, progress or (lambda text: None), _patience(patience_s),
                     tokens)  # fmt: skip
    captured = run.representatives(verify) if chosen is None else run.chosen(chosen)
    everybody = chosen is None or len(chosen) == world_size
    return Capture(
        captured.job,
        () if everybody else tuple(chosen or ()),
        captured,
        profile,
        assumptions(captured, chosen is None),
        captured.warnings,
    )


def _chosen(ranks: str | Iterable[int], world: int) -> list[int] | None:
    """The ranks to capture one by one; None for representatives."""
    from chakrasim.trace.job.job import MAX_RANKS

    if not 1 <= world <= MAX_RANKS:
        raise InputError("no such number of ranks", found=world, expected=f"1 to {MAX_RANKS:,}", place="world_size")
    if isinstance(ranks, str):
        if ranks == "representative":
            return None
        if ranks == "all":
            return list(range(world))
        try:
            ranks = [int(word) for word in ranks.split(",")]
        except ValueError:
            raise InputError(
                "these are no ranks", found=repr(ranks), expected="all, representative, or numbers as in 0,1,8"
            ) from None
    chosen = sorted(set(ranks))
    outside = [rank for rank in chosen if not 0 <= rank < world]
    if outside or not chosen:
        raise InputError("no such rank", found=outside[0] if outside else "none", expected=f"0 to {world - 1}")
    return chosen


def _patience(given_s: float | None) -> float:
    from chakrasim.collect.capturing.watch import PATIENCE_S

    if given_s is None:
        return PATIENCE_S
    if not given_s > 0:
        raise InputError("no such time", found=given_s, expected="more than 0 seconds", place="patience_s")
    return given_s


def _preload() -> None:
    """Import here what every rank's process would import for itself."""
    import torch.distributed.checkpoint.state_dict
    import torch.distributed.fsdp
    import torch.distributed.pipelining
    import torch.distributed.tensor.parallel
    import torch.testing._internal.distributed.fake_pg  # noqa: F401

    import chakrasim.collect.capturing.rank  # noqa: F401

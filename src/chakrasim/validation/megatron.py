"""Megatron-LM on A100: published iteration times against generated and simulated ones.

Nothing here is fitted to the measured times. What a kernel takes is the device profile's matter, what a message takes
`chakrasim.validation.selene`'s; docs/explanation-validation.md says where each figure comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from chakrasim.files.picture import Drawn
from chakrasim.progress import Progress, told
from chakrasim.validation.breakdown import Breakdown, breakdown
from chakrasim.validation.runs import MeasuredRun, megatron_runs
from chakrasim.validation.selene import NCCL_CHANNELS, PROCESSORS, collective_ns, selene

if TYPE_CHECKING:
    from chakrasim.generator.layers.tape import Row
    from chakrasim.generator.spec.spec import Spec
    from chakrasim.machine import DeviceProfile

SOURCE: Final = "arXiv:2205.05198, table 5: Megatron-LM on Selene, A100-SXM4-80GB"


@dataclass(frozen=True)
class Prediction:
    """A measured run beside its simulation. Times in seconds; ``parts`` say where the simulated one went, on a GPU of
    the last pipeline stage."""

    run: MeasuredRun
    seconds: float
    parts: Breakdown

    @property
    def error_pct(self) -> float:
        """How much longer the prediction is than the measurement, in percent of the latter."""
        return 100 * (self.seconds / self.run.seconds - 1)


@dataclass(frozen=True)
class Validation(Drawn):
    """Predictions of a set of runs."""

    predictions: tuple[Prediction, ...]
    device: str
    source: str = SOURCE

    @property
    def mean_error_pct(self) -> float:
        """Mean of the absolute errors, in percent."""
        return fmean(abs(one.error_pct) for one in self.predictions)

    @property
    def max_error_pct(self) -> float:
        """The largest absolute error, in percent."""
        return max(abs(one.error_pct) for one in self.predictions)

    def to_json(self) -> dict[str, Any]:
        """Plain values, as `chakrasim validate megatron --json` writes them."""
        return {
            "source": self.source,
            "device": self.device,
            "mean_error_pct": round(self.mean_error_pct, 3),
            "max_error_pct": round(self.max_error_pct, 3),
            "runs": [
                {
                    "name": one.run.name,
                    "ranks": one.run.ranks,
                    "measured_s": one.run.seconds,
                    "predicted_s": round(one.seconds, 4),
                    "error_pct": round(one.error_pct, 2),
                    "parts_s": {name: round(value, 4) for name, value in one.parts.items()},
                }
                for one in self.predictions
            ],
        }


def validate_megatron(
    runs: Sequence[MeasuredRun] | None = None,
    *,
    device: str | DeviceProfile = "a100",
    progress: Progress | None = None,
) -> Validation:
    """Predict the iteration time of measured runs, by default the eight of arXiv:2205.05198.

    Parameters
    ----------
    device: a profile's name or file, or a profile.
    progress: called before each run with how many are done, how many there are, and its name, and at the end.
    """
    from chakrasim.machine import load_device

    profile = load_device(device)
    chosen = megatron_runs() if runs is None else tuple(runs)
    predictions = tuple(predict(run, profile) for run in told(chosen, lambda run: run.name, progress))
    return Validation(predictions, profile.name)


def predict(run: MeasuredRun, profile: DeviceProfile) -> Prediction:
    """Generate one training step of a run, and simulate it on as many nodes as there are pipeline stages."""
    from chakrasim.generator.layers.condense import Alone, condense
    from chakrasim.generator.transformer import generate_transformer
    from chakrasim.simulator.api import simulate

    def alone(row: Row) -> Alone | None:
        inside = row.values["pg_name"] == "tp"
        return Alone(collective_ns(row), NCCL_CHANNELS / PROCESSORS) if inside else None

    step = generate_transformer(spec_of(run), rewrite=lambda tape: condense(tape, profile.durations_ns, alone))
    result = simulate(step.job, machine=selene(run.pipeline))
    return Prediction(run, result.makespan_ns / 1e9, breakdown(result, run.ranks - 1))


def spec_of(run: MeasuredRun) -> Spec:
    """What ran, as a spec of the generator.

    Megatron-LM of that time (commit 00129014dc of 28 April 2022) had no flash attention, summed input gradients over
    ranks during weight gradients (section 6.2 of the paper), and let the device wait for messages between stages.
    """
    from chakrasim.generator.spec.file import load_spec

    return load_spec(
        {
            "model": {
                "name": run.name,
                "layers": run.layers,
                "hidden": run.hidden,
                "feed_forward": 4 * run.hidden,
                "heads": run.heads,
                "vocabulary": run.vocabulary,
                "sequence": run.sequence,
                "position": "learned",
                "norm": "layer",
                "bias": True,
                "dropout": True,
                "tied_embeddings": True,
            },
            "parallel": {
                "tp": run.tensor,
                "pp": run.pipeline,
                "sp": run.selective,
                "virtual_stages": run.chunks,
                "scatter_gather": True,
            },
            "batch": {"micro_batch": run.micro_batch, "micro_batches": run.micro_batches},
            "recompute": "selective" if run.selective else "full",
            "dtype": "float16",
            "gradient_dtype": "float32",
            "optimizer": "adamw",
            "clip_gradients": True,
            "flash_attention": False,
            "overlap": {"tp": True, "pp": False},
        }
    )

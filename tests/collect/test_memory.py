"""The timeline of live storages: against the profiler's allocation record, by category, and its verdict."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from chakrasim.collect.capturing.pretended.patches import Patches  # noqa: E402
from chakrasim.collect.capturing.recorded.memory import (  # noqa: E402
    ACTIVATIONS,
    COMMUNICATION,
    GRADIENTS,
    OPTIMIZER_STATE,
    PARAMETERS,
    TEMPORARIES,
    MemoryTimeline,
    labelled,
    verdict,
)


class Recording(TorchDispatchMode):
    def __init__(self, timeline: MemoryTimeline) -> None:
        super().__init__()
        self.timeline = timeline
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.timeline.at(self.calls, "forward")
        self.calls += 1
        result = func(*args, **(kwargs or {}))
        self.timeline.observe(result)
        return result


def training(mark: Callable[[], None], width: int = 64) -> None:
    """Three steps of a small model; ``mark`` at the begin of each and at the end."""
    model = torch.nn.Sequential(
        torch.nn.Embedding(100, width),
        torch.nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, dropout=0.0),
        torch.nn.Linear(width, 100),
    )
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        mark()
        tokens = torch.zeros(4, 32, dtype=torch.int64)
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    mark()


def recorded(program: Callable[[Callable[[], None]], None]) -> list[int]:
    """Peaks between the marks of a real run, by the profiler's allocation record."""
    marks = 0

    def mark() -> None:
        nonlocal marks
        with torch.profiler.record_function(f"mark {marks}"):
            marks += 1

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        program(mark)
    events = sorted(profile.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    live, peaks = 0, [0]
    for event in events:
        if event.name() == "[memory]":
            live += event.nbytes()
        elif event.name().startswith("mark "):
            peaks.append(0)
        peaks[-1] = max(peaks[-1], live)
    return peaks[1:-1]


def test_peak_of_fake_steps_is_that_of_the_profiler() -> None:
    timeline, marks = MemoryTimeline(), []
    with Patches() as made, FakeTensorMode(), labelled(timeline), Recording(timeline):
        timeline.watch_resizes(made)
        training(lambda: marks.append(timeline.mark()))
    peaks = [timeline.peak(first, last) for first, last in pairwise(marks)]
    real = recorded(training)
    # The first step has no optimizer state at its begin.
    assert real[0] < real[1] == real[2]
    assert [peak.live_bytes for peak in peaks] == pytest.approx(real, rel=0.01)
    parameters = 4 * sum(p.numel() for p in _parameters())
    assert peaks[1].by_category[PARAMETERS] == parameters
    assert 2 * parameters <= peaks[1].by_category[OPTIMIZER_STATE] <= 2 * parameters + 200
    assert sum(peaks[1].by_category.values()) == peaks[1].live_bytes
    assert timeline.live_bytes == 0


def _parameters() -> list[Any]:
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128)
    return [*torch.nn.Embedding(100, 64).parameters(), *layer.parameters(), *torch.nn.Linear(64, 100).parameters()]


def test_gradients_are_named() -> None:
    timeline = MemoryTimeline()
    with labelled(timeline), Recording(timeline):
        layer = torch.nn.Linear(100, 100, bias=False)
        optimizer = torch.optim.SGD(layer.parameters())
        layer(torch.ones(1, 100)).sum().backward()
        optimizer.step()
    assert timeline.peak().by_category[GRADIENTS] == timeline.peak().by_category[PARAMETERS] == 40_000


def test_storage_that_is_resized() -> None:
    """FSDP2 gives parameters' memory back by resizing their storage, which no operator shows."""
    timeline = MemoryTimeline()
    with Patches() as made, Recording(timeline):
        timeline.watch_resizes(made)
        whole = torch.empty(1000)
        timeline.label([whole], COMMUNICATION)
        whole.untyped_storage().resize_(0)
        assert timeline.live_bytes == 0
        whole.untyped_storage().resize_(4000)
        assert timeline.live_bytes == 4000
    assert timeline.peak().by_category[COMMUNICATION] == 4000
    assert "resize_" not in vars(torch.UntypedStorage)


def test_views_share_a_storage_and_numbers_are_never_used_again() -> None:
    timeline = MemoryTimeline()
    x = torch.empty(10)
    number = timeline.storage(x)
    assert timeline.storage(x.view(2, 5)[1]) == number
    view = x[3:]
    del x
    assert timeline.live_bytes == 40
    del view
    assert timeline.live_bytes == 0
    seen = set()
    for _ in range(20):
        seen.add(timeline.storage(torch.empty(10)))
    assert len(seen) == 20 and number not in seen


def test_peak_between_marks_and_columns() -> None:
    timeline = MemoryTimeline()
    timeline.at(0, "forward")
    big = torch.empty(1000)
    timeline.observe(big)
    del big
    start = timeline.mark()
    timeline.at(1, "backward")
    small = torch.empty(10)
    timeline.observe([small])
    assert (timeline.peak().live_bytes, timeline.peak().node) == (4000, 0)
    peak = timeline.peak(start)
    assert (peak.live_bytes, peak.node, peak.by_category[TEMPORARIES], peak.by_category[ACTIVATIONS]) == (40, 1, 40, 0)
    columns = timeline.timeline()
    assert columns["node"].tolist() == [0, 1]
    assert columns["live"].tolist() == [4000, 40]
    assert columns[TEMPORARIES].tolist() == [0, 40]
    assert columns[ACTIVATIONS].tolist() == [4000, 0]
    assert timeline.timeline(start)["live"].tolist() == [0, 40]
    assert MemoryTimeline().peak().live_bytes == 0


def test_verdict() -> None:
    assert verdict(2**30, 2**30) == (True, "fits: a peak of 1.00 GiB in 1.00 GiB leaves 0.00 GiB")
    fits, sentence = verdict(2**31, 2**30)
    assert not fits
    assert sentence == "out of memory: a peak of 2.00 GiB is 1.00 GiB more than the device's 1.00 GiB"

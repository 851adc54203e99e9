"""How fast would this training job run on that machine?

To simulate:

    simulate                how long a workload takes on a machine, and where the time goes: a SimulationResult
    replay_recorded         what was measured, replayed without a machine
    Notes                   what collects warnings and remarks of a function that is given one
    Limits                  bounds of what a run may cost: nodes, events, bytes
    Protocol                how messages and collectives are carried out: queues, rendezvous, broadcasts
    summary                 what the command line prints of a result, as text
    write_timeline          the run over time, for https://ui.perfetto.dev
    write_gantt             a picture: what chosen ranks do over time
    write_parts             a picture: where the time of several results goes
    write_memory_traces     tensors in local memory over time
    load_machine            a preset or a machine file; preset_names says which presets there are
    load_device             a device profile, which says how long work takes on a GPU
    load_groups             communicator groups of a file
    estimate                how long a training step of a model takes, with an interval: a StepEstimate
    plan                    the best split of a model over so many GPUs that fits, and why others lose: a Plan
    sweep                   many splits and machines, and what nothing else beats: a SweepResult
    compare                 two runs, simulated or recorded: the causes of the difference, which sum to it
    compare_jobs            two jobs, or two sets: how alike they are, and what would be decided by either
    explain                 why a run takes as long as it does: critical path over all ranks, waiting, derivatives
    what_if                 what is if ranks, operators or collectives take longer or shorter
    goodput                 how much of the time is training, with failures, checkpoints and restarts
    predict_collective      how long one collective takes as NCCL or RCCL runs it, with an interval
    run_flows               Flows that share a network's links, without a workload: a FlowResult

Workloads without hardware (PyTorch is needed for the first):

    capture                 a PyTorch program for any number of ranks, on fake tensors
    generate_transformer    one training step of a transformer, from a short description
    transformer_job         the same as a Job alone
    collective_job          one collective
    convert_text            text workloads of ASTRA-sim 1.0

Workloads from a real run:

    observe                 records steps of a training loop
    doctor                  what is wrong with a recording
    trace_directory         PyTorch's traces of all ranks to Chakra traces, in files
    link, convert           the same in memory: a host and a device trace linked; a linked trace to Chakra
    align, compare_ranks    between the two: all ranks on one clock, and beside each other
    link_directory          linked traces of all ranks, in files
    discover                which files of a folder belong to which rank
    bind                    a captured job with the durations of a recorded run of it
    retarget                the job on another number of ranks
    learn, synthesize       the program of many jobs, and jobs of any size made from it
    read_model, write_model   such a program as a file
    obfuscate               jobs that can be shared, with what is guaranteed of them and what it costs

Chakra traces:

    read, write             a trace per rank
    read_job, write_job     a Job: ranks that share traces
    Trace, TraceBuilder     the graph, and what makes one node by node
    merge_traces            several ranks in one master trace; split_trace parts them

Measurements:

    calibrate_compute       a device profile fitted to measured kernels
    validate_collectives    predictions beside measured collectives of NCCL and RCCL
    calibrate_collectives   a machine's collectives fitted to logs of nccl-tests
    calibrate_steps         a device profile fitted to measured training steps
    validate_megatron       predictions beside published iteration times
    validate_steps          simulations beside published training steps
    experiment              published experiments run again, by name: an Experiment

Packages: ``analysis`` (where the time of a recorded trace goes), ``trace`` (readers, writers, columns), ``machine``
(typed configurations), ``collectives`` (schedules; register an algorithm), ``simulator`` (parts of a result),
``generator``, ``collect``, ``replay`` (a trace's communication run for real), ``calibration``, ``demo`` (a shipped
trace to try things on).

Warnings: ``Notes`` collects them; every function that can warn takes one as ``notes``.
Errors: ``InputError`` (input that cannot be used), ``StallError`` (a run that cannot end); both are a
``ChakrasimError``.

Names are loaded when first used: importing chakrasim costs little.
"""

from typing import TYPE_CHECKING, Any

from chakrasim import moved
from chakrasim.lazy import lazily, offer
from chakrasim.version import __version__

if TYPE_CHECKING:
    from chakrasim import (
        analysis,
        calibration,
        collect,
        collectives,
        demo,
        generator,
        machine,
        replay,
        simulator,
        trace,
    )
    from chakrasim.calibration import calibrate_collectives, calibrate_compute
    from chakrasim.collect import capture, observe
    from chakrasim.comparison.compare import compare
    from chakrasim.comparison.jobs.api import compare_jobs
    from chakrasim.converter.binding.api import bind
    from chakrasim.converter.folder.across_ranks import compare_ranks
    from chakrasim.converter.folder.link_folder import link_directory
    from chakrasim.converter.folder.trace_folder import trace_directory
    from chakrasim.converter.linked.api import convert
    from chakrasim.converter.master import merge_traces, split_trace
    from chakrasim.converter.retarget.api import retarget
    from chakrasim.converter.text_workload.api import convert_text
    from chakrasim.diagnosis.doctor import doctor
    from chakrasim.diagnosis.files.discover import discover
    from chakrasim.errors import ChakrasimError, InputError, StallError
    from chakrasim.estimation.api import estimate
    from chakrasim.estimation.result import StepEstimate
    from chakrasim.experiments.api import experiment
    from chakrasim.explanation.explain import explain
    from chakrasim.generator import collective_job, generate_transformer, transformer_job
    from chakrasim.linker.across_ranks.clocks import align
    from chakrasim.linker.api import link
    from chakrasim.machine import load_device, load_groups, load_machine, preset_names
    from chakrasim.notes import Notes
    from chakrasim.obfuscation.api import obfuscate
    from chakrasim.reliability.goodput import goodput
    from chakrasim.report.picture.gantt import write_gantt
    from chakrasim.report.picture.parts import write_parts
    from chakrasim.report.tables.simulation import summary
    from chakrasim.report.timeline.memory import write_memory_traces
    from chakrasim.report.timeline.simulation import write_timeline
    from chakrasim.scenarios.simulated import what_if
    from chakrasim.simulator.api import replay_recorded, simulate
    from chakrasim.simulator.context import Limits, Protocol
    from chakrasim.simulator.flow.alone.api import run_flows
    from chakrasim.simulator.flow.alone.flows import Flows
    from chakrasim.simulator.flow.alone.result import FlowResult
    from chakrasim.simulator.outcome.result import SimulationResult
    from chakrasim.simulator.prediction import predict_collective
    from chakrasim.sweeps.plan import plan
    from chakrasim.sweeps.sweep import sweep
    from chakrasim.synthesis.api import learn, synthesize
    from chakrasim.synthesis.file import read_model, write_model
    from chakrasim.trace import Job, Trace, TraceBuilder, read, read_job, write, write_job
    from chakrasim.validation.megatron import validate_megatron
    from chakrasim.validation.scoreboard.api import validate_collectives
    from chakrasim.validation.steps.api import validate_steps
    from chakrasim.validation.steps.calibrate import calibrate_steps

moved.install()


def _plot(result: object, **options: Any) -> str:
    """What ``plot()`` of results, which know nothing of reports, shows."""
    from chakrasim.report.picture.plots import plot_svg

    return plot_svg(result, **options)


offer("plot", _plot)

__all__ = [
    "ChakrasimError",
    "FlowResult",
    "Flows",
    "InputError",
    "Job",
    "Limits",
    "Notes",
    "Protocol",
    "SimulationResult",
    "StallError",
    "StepEstimate",
    "Trace",
    "TraceBuilder",
    "__version__",
    "align",
    "analysis",
    "bind",
    "calibrate_collectives",
    "calibrate_compute",
    "calibrate_steps",
    "calibration",
    "capture",
    "collect",
    "collective_job",
    "collectives",
    "compare",
    "compare_jobs",
    "compare_ranks",
    "convert",
    "convert_text",
    "demo",
    "discover",
    "doctor",
    "estimate",
    "experiment",
    "explain",
    "generate_transformer",
    "generator",
    "goodput",
    "learn",
    "link",
    "link_directory",
    "load_device",
    "load_groups",
    "load_machine",
    "machine",
    "merge_traces",
    "obfuscate",
    "observe",
    "plan",
    "predict_collective",
    "preset_names",
    "read",
    "read_job",
    "read_model",
    "replay",
    "replay_recorded",
    "retarget",
    "run_flows",
    "simulate",
    "simulator",
    "split_trace",
    "summary",
    "sweep",
    "synthesize",
    "trace",
    "trace_directory",
    "transformer_job",
    "validate_collectives",
    "validate_megatron",
    "validate_steps",
    "what_if",
    "write",
    "write_gantt",
    "write_job",
    "write_memory_traces",
    "write_model",
    "write_parts",
    "write_timeline",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "calibration": ("calibrate_collectives", "calibrate_compute"),
        "collect": ("capture", "observe"),
        "comparison.compare": ("compare",),
        "comparison.jobs.api": ("compare_jobs",),
        "converter.binding.api": ("bind",),
        "converter.folder.across_ranks": ("compare_ranks",),
        "converter.folder.link_folder": ("link_directory",),
        "converter.folder.trace_folder": ("trace_directory",),
        "converter.linked.api": ("convert",),
        "converter.master": ("merge_traces", "split_trace"),
        "converter.retarget.api": ("retarget",),
        "converter.text_workload.api": ("convert_text",),
        "diagnosis.doctor": ("doctor",),
        "diagnosis.files.discover": ("discover",),
        "errors": ("ChakrasimError", "InputError", "StallError"),
        "estimation.api": ("estimate",),
        "estimation.result": ("StepEstimate",),
        "experiments.api": ("experiment",),
        "explanation.explain": ("explain",),
        "generator": ("collective_job", "generate_transformer", "transformer_job"),
        "linker.across_ranks.clocks": ("align",),
        "linker.api": ("link",),
        "machine": ("load_device", "load_groups", "load_machine", "preset_names"),
        "notes": ("Notes",),
        "reliability.goodput": ("goodput",),
        "report.picture.gantt": ("write_gantt",),
        "report.picture.parts": ("write_parts",),
        "report.tables.simulation": ("summary",),
        "report.timeline.memory": ("write_memory_traces",),
        "report.timeline.simulation": ("write_timeline",),
        "scenarios.simulated": ("what_if",),
        "simulator.api": ("replay_recorded", "simulate"),
        "simulator.context": ("Limits", "Protocol"),
        "simulator.flow.alone.api": ("run_flows",),
        "simulator.flow.alone.flows": ("Flows",),
        "simulator.flow.alone.result": ("FlowResult",),
        "simulator.outcome.result": ("SimulationResult",),
        "simulator.prediction": ("predict_collective",),
        "sweeps.plan": ("plan",),
        "sweeps.sweep": ("sweep",),
        "obfuscation.api": ("obfuscate",),
        "synthesis.api": ("learn", "synthesize"),
        "synthesis.file": ("read_model", "write_model"),
        "trace": ("Job", "Trace", "TraceBuilder", "read", "read_job", "write", "write_job"),
        "validation.megatron": ("validate_megatron",),
        "validation.scoreboard.api": ("validate_collectives",),
        "validation.steps.api": ("validate_steps",),
        "validation.steps.calibrate": ("calibrate_steps",),
    },
)

"""What is asked: a job's steps, its machines' failures, its checkpoints and restarts, as a file says them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from chakrasim.config.kinds import number, text, whole
from chakrasim.config.section import Section, Source, open_section
from chakrasim.config.table import REQUIRED, Key, Kind, Values, mapping, names, read
from chakrasim.config.values import parse_decimal
from chakrasim.notes import Notes

DAY_S: Final = 86_400.0
BEST: Final = "best"
LONGEST_S: Final = 1e12
BYTES_PER_PARAMETER: Final = 14
"""Of a checkpoint: weights in 2 bytes, their master copy in 4, two moments of Adam in 4 each."""


def _seconds(low: float = 0.0) -> Kind:
    return number(low, LONGEST_S, f"seconds, from {low:g} to {LONGEST_S:g}", "seconds")


def _interval(section: Section, key: str) -> float | None:
    if section.entries[key] == BEST:
        return None
    return float(_seconds(1e-9).read(section, key))


def _rates(section: Section, key: str) -> dict[str, float]:
    entries = section.entries[key]
    if not isinstance(entries, Mapping):
        value = parse_decimal(entries) if isinstance(entries, str) else entries
        if isinstance(value, bool) or not isinstance(value, int | float):
            section.refuse(key, "not failures", "failures a day and node by component: {gpu: 0.002, network: 0.001}")
        return {"all": float(_RATE.read(section, key))}
    below = section.below(key, tuple(map(str, entries)))
    return {str(name): float(_RATE.read(below, name)) for name in entries}


_RATE: Final = number(0, 1e6, "failures a day and node, from 0 on", "failures a day and node")


def _power(section: Section, key: str) -> dict[str, float]:
    entry = section.entries[key]
    if not isinstance(entry, str):
        found: dict[str, float] = _WATTS.read(section, key)
        return found
    from chakrasim.machine import load_device

    power = load_device(entry).power
    if power is None:
        section.refuse(key, "nobody says what this device draws", "{busy_w: WATTS, idle_w: WATTS}, or a100 or h100")
    return {"busy_w": power.busy_w, "idle_w": power.idle_w}


POWER: Final = (
    Key("busy_w", number(0, 1e6, "watts", "watts"), REQUIRED, "of each GPU, with its share of the node, in training"),
    Key("idle_w", number(0, 1e6, "watts", "watts"), REQUIRED, "while the job stands"),
)
_WATTS: Final = mapping(POWER)
SPEC: Final = (
    Key("step_s", _seconds(1e-12), REQUIRED, "of a step without failures"),
    Key("nodes", whole(1, 10**9), REQUIRED, "of the job; one that fails stops all"),
    Key("failures", Kind(_rates, "mapping", {}), REQUIRED, "by component: failures a day and node"),
    Key("checkpoint_write_s", _seconds(), None, "C: how long training stands while a checkpoint is written"),
    Key("checkpoint_interval_s", Kind(_interval, "seconds, or `best`", {}), None, "T: from the begin of one period of "
        "work to the next, its checkpoint included, as Aupy, Robert and Vivien count it", shown="`best`"),
    Key("restart_s", _seconds(), 0.0, "R: from a node's being there until training goes on"),
    Key("downtime_s", _seconds(), 0.0, "D: from a failure until the restart begins"),
    Key("spares", whole(0, 10**9), None, "nodes that stand ready; without it there is always one"),
    Key("repair_s", _seconds(), DAY_S, "until a failed node is a spare again"),
    Key("days", number(1e-6, 1e7, "days, from 1e-6 to 1e7", "days"), 30.0, "of the run"),
    Key("seed", whole(0, 2**63 - 1), 0, "of what is drawn"),
    Key("steps", whole(1, 10**15), None, "how many are wanted: how many days they take"),
    Key("model", text, None, "a model's name: its checkpoint's bytes, 14 a parameter"),
    Key("checkpoint_bytes", whole(1, 2**62), None, "of a checkpoint, instead of its time"),
    Key("storage_bytes_per_s", number(1, 1e18, "bytes a second", "bytes a second"), None, "what storage takes"),
    Key("asynchronous_share", number(0, 1, "a share from 0 to 1", "share"), 0.0, "of writing that halts nothing"),
    Key("gpus_per_node", whole(1, 4096), 8, "for money and energy"),
    Key("price_per_gpu_hour", number(0, 1e9, "an amount of money", "money"), None, "what an hour of a GPU costs"),
    Key("power", Kind(_power, "mapping, or a device", {}), None, "of a GPU by what the job does, or a device whose "
        "profile says it, such as h100: energy"),
)  # fmt: skip


@dataclass(frozen=True)
class GoodputSpec:
    """A job and what goes wrong; see `SPEC` for each. ``checkpoint_interval_s`` None: the best."""

    step_s: float
    nodes: int
    failures: Mapping[str, float]
    checkpoint_write_s: float
    checkpoint_interval_s: float | None = None
    restart_s: float = 0.0
    downtime_s: float = 0.0
    spares: int | None = None
    repair_s: float = DAY_S
    days: float = 30.0
    seed: int = 0
    steps: int | None = None
    gpus_per_node: int = 8
    price_per_gpu_hour: float | None = None
    power: Mapping[str, float] | None = None
    checkpoint_bytes: int | None = None

    @property
    def rate_per_s(self) -> float:
        """Failures of any kind, of the whole job, a second; 0 for less than one in 10^22 years."""
        rate = self.nodes * sum(self.failures.values()) / DAY_S
        return rate if rate > 1e-30 else 0.0


def load_spec(source: Source, notes: Notes) -> GoodputSpec:
    """A spec's file, or the mapping that it holds. Raises InputError."""
    section = open_section(source, "goodput spec", "yaml", notes)
    section.refuse_unknown(names(SPEC))
    null = [key for key, value in section.entries.items() if value is None or getattr(value, "is_null", False)]
    section = replace(section, entries={key: value for key, value in section.entries.items() if key not in null})
    values = read(section, SPEC)
    write, size = _write_s(section, values)
    share = values.pop("asynchronous_share")
    for name in ("model", "storage_bytes_per_s"):
        values.pop(name)
    values |= {"checkpoint_write_s": write * (1 - share), "checkpoint_bytes": size}
    interval = values["checkpoint_interval_s"]
    if interval is not None and interval <= values["checkpoint_write_s"]:
        section.fail("checkpoint_interval_s", "no work fits between two checkpoints", found=f"{interval:g} s",
                     expected=f"more than a checkpoint takes, {values['checkpoint_write_s']:g} s")  # fmt: skip
    return GoodputSpec(**values)


def _write_s(section: Section, values: Values) -> tuple[float, int | None]:
    """How long a checkpoint takes to write, and its bytes where they are known."""
    size, speed = values["checkpoint_bytes"], values["storage_bytes_per_s"]
    if size is None and values["model"] is not None:
        from chakrasim.generator.formulas import parameter_count
        from chakrasim.generator.spec.file import load_spec as load_transformer

        size = BYTES_PER_PARAMETER * parameter_count(load_transformer({"model": values["model"]}).model)
    if values["checkpoint_write_s"] is not None:
        return float(values["checkpoint_write_s"]), size
    if size is None or speed is None:
        section.fail("checkpoint_write_s", "the key is missing",
                     expected="seconds, or checkpoint_bytes (or model) and storage_bytes_per_s")  # fmt: skip
    return size / speed, size

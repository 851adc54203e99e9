"""What a network of packets is told: the keys of the reference's configuration (packet-network.md, 12), typed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, NoReturn

from chakrasim.errors import InputError, near
from chakrasim.notes import Notes

_PREFIXES: Final = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
_BINARY: Final = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
RATE_UNITS: Final = {
    **{f"{prefix}{unit}": factor for unit in ("bps", "b/s") for prefix, factor in _PREFIXES.items()},
    **{f"{prefix}{unit}": 8 * factor for unit in ("Bps", "B/s") for prefix, factor in _PREFIXES.items()},
    **{f"{prefix}b/s": factor for prefix, factor in _BINARY.items()},
    **{f"{prefix}B/s": 8 * factor for prefix, factor in _BINARY.items()},
    "": 1,
}
"""Bit/s of one of each unit."""
DELAY_UNITS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_AMOUNT: Final = re.compile(r"([0-9]{1,30}\.?[0-9]{0,30}(?:[eE][+-]?[0-9]{1,2})?)\s*([A-Za-z/]{0,5})", re.ASCII)
_DIGITS: Final = re.compile("[0-9]{1,18}")
FASTEST: Final = 1 << 44
"""Bit/s; what is faster leaves no room for products."""
SLOWEST: Final = 1000
LATEST_US: Final = 10**15


def rate_bps(text: str) -> int:
    """A rate such as ``100Gbps`` in bit/s, truncated. Raises ValueError."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or match[2] not in RATE_UNITS:
        raise ValueError("a rate such as 100Gbps or 50Mb/s")
    rate = int(float(match[1]) * RATE_UNITS[match[2]])
    if not SLOWEST <= rate <= FASTEST:
        raise ValueError("a rate from 1kbps to 17000Gbps")
    return rate


def whole_number(word: str) -> int | None:
    """A number of up to 18 digits, or None."""
    return int(word) if _DIGITS.fullmatch(word) else None


def delay_ns(text: str) -> int:
    """A delay such as ``0.005ms`` in ns, rounded. Raises ValueError."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or match[2] not in DELAY_UNITS:
        raise ValueError("a delay such as 0.005ms or 500ns")
    delay = round(float(match[1]) * DELAY_UNITS[match[2]])
    if delay > 10**12:
        raise ValueError("a delay of up to 1000s")
    return delay


@dataclass(frozen=True)
class LinkDown:
    """A link that goes down for good."""

    at_ns: int
    a: int
    b: int


@dataclass(frozen=True)
class Settings:
    """How hosts and switches behave.

    Each field stands for a key of the reference's configuration, which has the same name in capitals; the defaults are
    those of packet-network.md, 12, and the package's own where the reference has none or a fault.

    Attributes
    ----------
    cc_mode
        1 DCQCN, 3 HPCC, 7 TIMELY, 8 DCTCP, 10 HPCC-PINT, 20 Swift, any other: no control but the window
    rate_ai, rate_hai, min_rate, dctcp_rate_ai
        bit/s
    alpha_resume_interval, rate_decrease_interval, rp_timer
        us, fractions too
    buffer_size
        MiB of a switch
    headroom_packets
        ours: packets that a headroom holds beside what its link has under way, some times over
    kmin_map, kmax_map, pmax_map
        by rate of a port in bit/s: kB of 1000 bytes, and a probability
    fct_output_file, pfc_output_file, qlen_mon_file
        paths of files that are written when they are asked for
    qlen_mon_start, qlen_mon_end
        ns between which queues go into the file
    """

    cc_mode: int = 1
    packet_payload_size: int = 1000
    enable_qcn: bool = True
    has_win: bool = True
    global_t: bool = True
    var_win: bool = False
    fast_react: bool = True
    multi_rate: bool = True
    sample_feedback: bool = False
    mi_thresh: int = 5
    u_target: float = 0.95
    int_multi: int = 1
    pint_log_base: float = 1.05
    pint_prob: float = 1.0
    rate_ai: int = 50_000_000
    rate_hai: int = 100_000_000
    min_rate: int = 100_000_000
    dctcp_rate_ai: int = 1_000_000_000
    ewma_gain: float | None = None
    alpha_resume_interval: float = 55.0
    rate_decrease_interval: float = 4.0
    rp_timer: float = 900.0
    fast_recovery_times: int = 5
    clamp_target_rate: bool = False
    rate_bound: bool = True
    l2_ack_interval: int | None = None
    l2_chunk_size: int = 0
    l2_back_to_zero: bool = False
    ack_high_prio: bool = False
    buffer_size: int = 16
    kmin_map: Mapping[int, float] = field(default_factory=dict)
    kmax_map: Mapping[int, float] = field(default_factory=dict)
    pmax_map: Mapping[int, float] = field(default_factory=dict)
    pause_time: int = 5
    headroom_factor: int = 3
    headroom_packets: int = 0
    error_rate_per_link: float = 0.0
    nic_total_pause_time: int = 0
    link_down: LinkDown | None = None
    fct_output_file: str = ""
    pfc_output_file: str = ""
    qlen_mon_file: str = ""
    qlen_mon_start: int = 0
    qlen_mon_end: int = 1 << 62


_OTHER_NAMES: Final = {"KMIN": "KMIN_MAP", "KMAX": "KMAX_MAP", "PMAX": "PMAX_MAP"}
WITHOUT_EFFECT: Final = (
    *("TOPOLOGY_FILE", "FLOW_FILE", "TRACE_FILE", "TRACE_OUTPUT_FILE", "SIMULATOR_STOP_TIME", "ENABLE_TRACE"),
    *("DATA_RATE", "LINK_DELAY", "USE_DYNAMIC_PFC_THRESHOLD", "PACKET_LEVEL_ECMP", "FLOW_LEVEL_ECMP"),
)
"""Keys that say where files are, or that the reference reads without effect."""
_LIMITS: Final[Mapping[str, tuple[float, float]]] = {
    "PACKET_PAYLOAD_SIZE": (1, 65_000),
    "INT_MULTI": (1, 1 << 20),
    "PINT_LOG_BASE": (1.001, 1000),
    "PINT_PROB": (0, 1),
    "U_TARGET": (1e-6, 1000),
    "EWMA_GAIN": (0, 1),
    "BUFFER_SIZE": (0, 2047),
    "ERROR_RATE_PER_LINK": (0, 1),
    "HEADROOM_FACTOR": (0, 1000),
    "HEADROOM_PACKETS": (0, 1000),
    "NIC_TOTAL_PAUSE_TIME": (0, 1 << 30),
}
_FIELDS: Final = {entry.name.upper(): str(entry.type) for entry in fields(Settings)}
_RATES: Final = ("RATE_AI", "RATE_HAI", "MIN_RATE", "DCTCP_RATE_AI")


def is_key(word: str) -> bool:
    """Whether a word is a key of a configuration."""
    return word in _FIELDS or word in WITHOUT_EFFECT or word in _OTHER_NAMES


def settings_of(values: Mapping[str, Any], file: str, notes: Notes, *, silent: bool = False) -> Settings:
    """Settings from keys and values, as JSON has them or `read_pairs` found them.

    ``silent``: unknown keys are passed over, as in the reference; else they are refused with the name of the key that
    was meant. Raises InputError.
    """
    found: dict[str, Any] = {}
    for given, value in values.items():
        key = _OTHER_NAMES.get(given, given)
        if key in _FIELDS:
            found[key.lower()] = _value(key, value, file)
        elif key not in WITHOUT_EFFECT:
            if not silent:
                known = [*_FIELDS, *WITHOUT_EFFECT]
                raise InputError(
                    "unknown key", file=file, place=given, expected="a key of the network's configuration",
                    remedy=near(given, known) or "leave it out",
                )  # fmt: skip
            notes.note(f"{file}: {given}: unknown key, passed over")
    return replace(Settings(), **found)


def _value(key: str, value: Any, file: str) -> Any:
    """A value in the type of its field, within its limits."""
    kind = _FIELDS[key]
    try:
        if key == "LINK_DOWN":
            return _link_down(value)
        if key in _RATES:
            return rate_bps(str(value))
        if kind.startswith("Mapping"):
            return {int(rate): _number(entry, float) for rate, entry in _pairs_of(value)}
        if kind == "str":
            return str(value)
        if kind == "bool":
            return bool(_number(value, int))
        number = _number(value, float if kind.startswith("float") else int)
    except ValueError as error:
        _refuse(key, value, str(error), file)
    low, high = _LIMITS.get(key, (0, 2**53))
    if not low <= number <= high:
        _refuse(key, value, f"a number from {low:,} to {high:,}", file)
    return number


def _refuse(key: str, value: Any, expected: str, file: str) -> NoReturn:
    raise InputError("this is no value for the key", file=file, place=key, found=str(value)[:60], expected=expected)


def _number(value: Any, kind: type) -> Any:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError("a number") from None
    if number != number or abs(number) == float("inf"):
        raise ValueError("a finite number")
    if kind is int and number != int(number):
        raise ValueError("a whole number")
    return kind(number)


def _pairs_of(value: Any) -> list[tuple[Any, Any]]:
    """A map from rates to numbers: an object, or the words ``n rate value rate value ...``."""
    if isinstance(value, Mapping):
        return [(_number(rate, int), entry) for rate, entry in value.items()]
    words = str(value).split()
    if not words or (count := whole_number(words[0])) is None or len(words) != 2 * count + 1:
        raise ValueError("the number of rates, then each rate in bit/s with its value")
    return [(_number(rate, int), entry) for rate, entry in zip(words[1::2], words[2::2], strict=True)]


def _link_down(value: Any) -> LinkDown | None:
    numbers = [whole_number(word) for word in str(value).split()]
    if len(numbers) != 3 or None in numbers or max(filter(None, numbers), default=0) > LATEST_US:
        raise ValueError("three whole numbers: us after 2 s, and the two nodes")
    time, a, b = (number or 0 for number in numbers)
    return LinkDown(2_000_000_000 + 1000 * time, a, b) if time else None


def read_pairs(text: str) -> dict[str, str]:
    """The keys and values of a configuration file: words, of which maps and LINK_DOWN take several; the last wins."""
    words = [word for line in text.splitlines() for word in line.split("#", 1)[0].split()]
    found: dict[str, str] = {}
    at = 0
    while at < len(words):
        key, taken = words[at], 1
        if key in ("KMIN_MAP", "KMAX_MAP", "PMAX_MAP") and at + 1 < len(words):
            taken = 1 + 2 * (whole_number(words[at + 1]) or 0)
        elif key == "LINK_DOWN":
            taken = 3
        elif key not in _FIELDS and key not in WITHOUT_EFFECT:
            taken = 0 if at + 1 >= len(words) or words[at + 1] in _FIELDS else 1
        found[key] = " ".join(words[at + 1 : at + 1 + taken])
        at += 1 + taken
    return found

"""Device profiles as data: ``devices/NAME.yaml`` or a user's file of the same form.

`keys` has the keys, and docs/reference-machine.md what they mean.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from chakrasim.config.section import no_such, open_named
from chakrasim.config.table import names, read
from chakrasim.machine.device.keys import DEVICE
from chakrasim.machine.device.profile import DeviceProfile
from chakrasim.trace.work import WORK_KINDS

_FOLDER = Path(__file__).parents[1] / "devices"
_KIND = "device profile"
_REST = r"(sxm|pcie|nvl|hbm[0-9]?e?|gb|[0-9]+w|[0-9])*[a-z]?"
"""What labels add to a device's name."""


@cache
def device_names() -> tuple[str, ...]:
    """The names of the shipped devices."""
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.yaml")))


def device_like(name: str) -> str | None:
    """The shipped device that a label such as "H100", "TPU-v6e-1" or "NVIDIA H100 80GB HBM3" means, or None."""
    label = re.sub(r"[^a-z0-9]", "", name.lower())
    label = re.sub(r"^(nvidia|amd|google|instinct|geforce|tesla)*", "", label)
    for known in sorted(device_names(), key=len, reverse=True):
        base, _, variant = known.partition("-")
        for begins, holds in ((known.replace("-", ""), ""), (base, variant)):
            if re.fullmatch(begins + _REST, label) and holds in label[len(begins) :]:
                return known
    return None


def device_text(name: str) -> str:
    """The profile of a shipped device, as its file holds it. Raises InputError for an unknown name."""
    if name not in device_names():
        raise no_such("no such device", name, device_names())
    return (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def load_device(source: str | os.PathLike[str] | Mapping[str, Any] | DeviceProfile) -> DeviceProfile:
    """A device profile: the name of a shipped one, a file, the mapping such a file holds, or the profile itself.

    A shipped name wins over a file of that name (write ``./name`` for the file). Raises InputError for a name that is
    not known, and with the place for unknown keys, missing units and values out of range.
    """
    if isinstance(source, DeviceProfile):
        return source
    if isinstance(source, str):
        source = source.lower() if source.lower() in device_names() else source
    elif isinstance(source, os.PathLike):
        source = Path(source)
    neither = "neither a shipped device nor a file"
    section = open_named(source, _KIND, device_names(), device_text, label="device", neither=neither, notes=None)
    section.refuse_unknown(names(DEVICE))
    values = read(section, DEVICE)
    del values["format"]
    efficiency = {WORK_KINDS[name]: found for name, found in values.pop("efficiency").items()}
    return DeviceProfile(**values, efficiency=efficiency)


def dump_device(profile: DeviceProfile) -> str:
    """A profile as the text of a file that `load_device` reads back, up to the six digits of its figures."""
    lines = ["format: 1", f"name: {profile.name}", "source: >"]
    lines += [f"  {line}" for line in (profile.source or "not stated").splitlines()]
    lines += ["", f"memory: {profile.memory_bytes / 1e9:.6g} GB", f"bandwidth: {profile.bandwidth / 1e9:.6g} GB/s"]
    lines += ["peak:", *(f"  {dtype}: {peak / 1e12:.6g} TFLOP/s" for dtype, peak in profile.peak.items())]
    if profile.sustained:
        lines += ["sustained:", *(f"  {dtype}: {share:.6g}" for dtype, share in profile.sustained.items())]
    lines += [f"processors: {profile.processors}"]
    if (power := profile.power) is not None:
        watts = {"busy": power.busy_w, "idle": power.idle_w, "communicating": power.communicating_w}
        lines += ["power:", *(f"  {name}: {value:.6g} W" for name, value in watts.items() if value is not None)]
    lines += [f"vector: {profile.vector / 1e12:.6g} TFLOP/s", "", "efficiency:"]
    for kind, found in profile.efficiency.items():
        lines += [f"  {kind.name.lower()}:", f"    start: {found.start_ns:.6g} ns", f"    step: {found.step_ns:.6g} ns"]
        lines += [f"    {name}: {getattr(found, name):.6g}" for name in ("compute", "bandwidth", "knee", "tail")]
        lines += [f"    backward: {found.backward:.6g}"] if found.backward else []
        lines += [f"    narrow: {found.narrow:.6g}"] if found.narrow < 1 else []
        if found.cache_bytes:
            lines += [f"    cached: {found.cached:.6g}", f"    cache: {found.cache_bytes / 1e6:.6g} MB"]
        if (blocks := found.tiling) is not None:
            lines += [f"    processors: {blocks.processors}", f"    tile: {blocks.rows} x {blocks.columns}"]
            lines += [f"    ramp: {blocks.ramp}"] if blocks.ramp else []
    return "\n".join(lines) + "\n"

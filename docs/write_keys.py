"""Writes what is made of the tables of keys: tables on the reference pages, and JSON schemas for editors.

``python docs/write_keys.py`` writes them anew; a test fails where they differ from the tables.
"""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

from chakrasim.config.table import Assumed, Derived, Empty, Key, Required, Table, object_schema
from chakrasim.generator.spec import keys as spec
from chakrasim.machine.device.keys import DEVICE
from chakrasim.machine.graph.changes import CHANGES
from chakrasim.machine.graph.families.table import BUILT_IN
from chakrasim.machine.graph.network_file import NETWORK_GRAPH
from chakrasim.machine.machine_keys import MACHINE
from chakrasim.machine.memory import MEMORY
from chakrasim.machine.network import NETWORK
from chakrasim.machine.system_file import SYSTEM
from chakrasim.simulator.jobs_file import JOBS

DOCS = Path(__file__).resolve().parent
SCHEMAS = DOCS.parent / "src" / "chakrasim" / "config" / "schemas"

TABLES: dict[str, dict[str, Table]] = {
    "reference-machine.md": {
        "machine": MACHINE,
        "device": DEVICE,
        "system": SYSTEM,
        "network": NETWORK,
        "memory": MEMORY,
    },
    "reference-topologies.md": {"graph": NETWORK_GRAPH, "changes": CHANGES},
    "howto-run-several-jobs.md": {"jobs": JOBS},
    "reference-transformer-spec.md": {
        "model": spec.MODEL,
        "moe": spec.MOE,
        "latents": spec.LATENTS,
        "hybrid": spec.HYBRID,
        "parallel": spec.PARALLEL,
        "batch": spec.BATCH,
        "rest": tuple(key for key in spec.SPEC if key.name not in ("model", "parallel", "batch")),
        "overlap": spec.OVERLAP,
        "offload": spec.OFFLOAD,
    },
}
"""By page: its tables by the names in their marks."""

_DEEP = ("reference-machine.md", "reference-topologies.md", "howto-run-several-jobs.md")
"""Pages that show the keys of mappings below."""

SCHEMA_OF: dict[str, dict[str, Any]] = {
    "machine": {"title": "chakrasim machine", **object_schema(MACHINE)},
    "changes": {"title": "chakrasim changes of a network", **object_schema(CHANGES)},
    "device": {"title": "chakrasim device profile", **object_schema(DEVICE)},
    "jobs": {"title": "chakrasim jobs", **object_schema(JOBS)},
    "transformer": {"title": "chakrasim transformer spec", **spec.schema_of(spec.SPEC, ""), "required": ["model"]},
    "astra-sim-system": {"title": "ASTRA-sim system", **object_schema(SYSTEM, strict=False)},
    "astra-sim-network": {"title": "ASTRA-sim network", **object_schema(NETWORK, strict=False)},
    "astra-sim-memory": {"title": "ASTRA-sim remote memory", **object_schema(MEMORY, strict=False)},
}


def table_text(table: Table, *, deep: bool) -> str:
    """A table of keys in Markdown; ``deep``: with the keys of mappings below."""
    lines = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
    return "\n".join([*lines, *_rows(table, "", deep)]) + "\n"


def _rows(table: Table, before: str, deep: bool) -> list[str]:
    rows = []
    for cells, keys in groupby(table, lambda key: f"{key.kind.shown} | {_default(key)} | {key.meaning}"):
        alike = list(keys)
        rows.append("| " + ", ".join(f"`{before}{key.name}`" for key in alike) + f" | {cells} |")
        if deep:
            rows += _rows(alike[0].kind.keys, before + alike[0].name + alike[0].kind.joint, deep)
    return rows


def _default(key: Key) -> str:
    default = key.default
    if key.shown or isinstance(default, Required):
        return key.shown or "required"
    if isinstance(default, Derived):
        return default.shown
    if isinstance(default, Assumed):
        return f"`{default.value}`, with a warning"
    if isinstance(default, bool):
        return "true" if default else "false"
    if isinstance(default, str):
        return f"`{default}`" if default else "empty"
    if default is None or isinstance(default, Empty) or default in ({}, ()):
        return "none"
    return f"{default:g}"


def families_text() -> str:
    """Every family: what it is, how it is put together, its keys."""
    parts = []
    for family in BUILT_IN:
        rules = " ".join((family.build.__doc__ or "").split())
        said = f"{family.meaning[0].upper()}{family.meaning[1:]}."
        parts.append(f"### {family.name}\n\n{said} {rules}".rstrip() + f"\n\n{table_text(family.keys, deep=True)}")
    return "\n".join(parts)


def page_text(page: str, text: str) -> str:
    """A page with its tables written anew between ``<!-- keys: NAME -->`` and ``<!-- end -->``."""

    def written(match: re.Match[str]) -> str:
        if match[1] == "families":
            return f"<!-- keys: families -->\n\n{families_text()}\n<!-- end -->"
        table = table_text(TABLES[page][match[1]], deep=page in _DEEP)
        return f"<!-- keys: {match[1]} -->\n\n{table}\n<!-- end -->"

    return re.sub(r"<!-- keys: (\w+) -->.*?<!-- end -->", written, text, flags=re.DOTALL)


def schema_text(name: str) -> str:
    """A schema as its file holds it."""
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **SCHEMA_OF[name]}, indent=1) + "\n"


def main() -> None:
    """Write all pages and schemas."""
    for page in TABLES:
        file = DOCS / page
        file.write_text(page_text(page, file.read_text(encoding="utf-8")), encoding="utf-8")
    SCHEMAS.mkdir(exist_ok=True)
    for name in SCHEMA_OF:
        (SCHEMAS / f"{name}.json").write_text(schema_text(name), encoding="utf-8")


if __name__ == "__main__":
    main()

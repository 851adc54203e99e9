"""Tables of keys: their pages and schemas are up to date, and the schemas refuse nothing that the readers take."""

from __future__ import annotations

import copy
import importlib.util
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from chakrasim import InputError
from chakrasim.config import schema_text
from chakrasim.config.decode import decode_yaml
from chakrasim.config.section import open_section
from chakrasim.config.table import names, read
from chakrasim.config.values import Scalar, parse_decimal
from chakrasim.generator.spec.file import load_spec
from chakrasim.machine import (
    device_names,
    device_text,
    load_device,
    load_machine,
    load_memory,
    load_network,
    load_system,
    preset_names,
    preset_text,
)
from chakrasim.machine.graph.changes import load_changes
from chakrasim.notes import Notes
from chakrasim.simulator.jobs_file import JOBS

ROOT = Path(__file__).resolve().parents[2]
FABRIC = {"ranks": 8, "parts": [{"leaf-spine": {"hosts-per-leaf": 4, "spines": 2, "bandwidth": "400 Gb/s"}}]}


def load_changes_of_a_fabric(source: Any) -> Any:
    """The changes of the network that the page about them has."""
    return load_changes(source, load_machine({"network": {"graph": FABRIC}, "collectives": {"splits": 1}}).graph)


def jobs_of(source: Any) -> Any:
    """What a jobs file says, without the traces that it names."""
    section = open_section(source, "jobs file", "yaml", Notes())
    section.refuse_unknown(names(JOBS))
    return read(section, JOBS)


LOADERS: dict[str, Callable[..., Any]] = {
    "changes": load_changes_of_a_fabric,
    "jobs": jobs_of,
    "machine": load_machine,
    "device": load_device,
    "transformer": load_spec,
    "astra-sim-system": load_system,
    "astra-sim-network": load_network,
    "astra-sim-memory": load_memory,
}


@pytest.fixture(scope="module")
def writer() -> Any:
    """docs/write_keys.py as a module."""
    spec = importlib.util.spec_from_file_location("write_keys", ROOT / "docs" / "write_keys.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def core(value: Any) -> Any:
    """What an editor makes of a YAML file: scalars by YAML's core schema."""
    if isinstance(value, dict):
        return {key: core(item) for key, item in value.items()}
    if isinstance(value, list):
        return [core(item) for item in value]
    if not isinstance(value, Scalar) or value.quoted:
        return value
    if value.is_null or value in ("true", "false"):
        return None if value.is_null else value == "true"
    number = parse_decimal(value)
    return str(value) if number is None else int(number) if set(value) <= set("+-0123456789") else number


def refusal(name: str, text: str) -> str | None:
    """What the schema says against the text of a file."""
    content = json.loads(text) if text.startswith("{") else core(decode_yaml(text.encode(), "file"))
    validator = jsonschema.Draft7Validator(json.loads(schema_text(name)))
    return "; ".join(error.message for error in validator.iter_errors(content)) or None


def good_files() -> list[tuple[str, str, str]]:
    """Kind, name and text of presets, demo machines, and examples of the pages."""
    demo = sorted((ROOT / "src" / "chakrasim" / "demo" / "machines").glob("*.yaml"))
    machines = [(name, preset_text(name)) for name in preset_names()] + [(f.name, f.read_text("utf-8")) for f in demo]
    page = (ROOT / "docs" / "reference-machine.md").read_text("utf-8").split("```yaml\n")
    jobs = (ROOT / "docs" / "howto-run-several-jobs.md").read_text("utf-8").split("```yaml file=packed.yaml\n")[1]
    fail = (ROOT / "docs" / "howto-let-links-fail.md").read_text("utf-8").split("```yaml file=failures.yaml\n")[1]
    spec = (ROOT / "docs" / "reference-transformer-spec.md").read_text("utf-8").split("```yaml file=step.yaml\n")[1]
    come = (ROOT / "docs" / "howto-come-from-astra-sim.md").read_text("utf-8")
    astra = {"system": "json file=system.json", "network": "yaml file=network.yml", "memory": "json file=memory.json"}
    return [
        *(("machine", name, text) for name, text in machines),
        ("machine", "page", page[1].split("```")[0]),
        ("device", "page", page[2].split("```")[0]),
        *(("device", name, device_text(name)) for name in device_names()),
        ("jobs", "page", jobs.split("```")[0]),
        ("changes", "page", fail.split("```")[0]),
        ("transformer", "page", spec.split("```")[0]),
        *((f"astra-sim-{kind}", "page", come.split(f"```{mark}\n")[1].split("```")[0]) for kind, mark in astra.items()),
    ]


GOOD = good_files()


def test_pages_have_the_tables(writer: Any) -> None:
    for page, tables in writer.TABLES.items():
        text = (ROOT / "docs" / page).read_text("utf-8")
        assert all(f"<!-- keys: {name} -->" in text for name in tables)
        assert writer.page_text(page, text) == text, "run python docs/write_keys.py"


def test_schemas_are_those_of_the_tables(writer: Any) -> None:
    assert set(writer.SCHEMA_OF) == set(LOADERS) == {file.stem for file in writer.SCHEMAS.glob("*")}
    for name in LOADERS:
        assert schema_text(name) == writer.schema_text(name), "run python docs/write_keys.py"
        jsonschema.Draft7Validator.check_schema(json.loads(schema_text(name)))
    with pytest.raises(InputError, match="no such schema; found 'x'; expected one of astra-sim-memory, "):
        schema_text("x")


@pytest.mark.parametrize(("kind", "name", "text"), GOOD, ids=[f"{kind}-{name}" for kind, name, _ in GOOD])
def test_files_of_ours_are_what_the_schemas_expect(kind: str, name: str, text: str) -> None:
    assert refusal(kind, text) is None


@pytest.mark.parametrize(
    ("kind", "old", "new", "said"),
    [
        ("machine", "network:", "netwrok:", "'netwrok' was unexpected"),
        ("machine", "npus:", "ranks:", "'ranks' was unexpected"),
        ("machine", "npus: 8", "npus: 1", "1 is not valid under any of the given schemas"),
        ("machine", "400 GiB/s", "400 Gb/s", "'400 Gb/s' does not match"),
        ("machine", "400 GiB/s", "400", "400 is not of type 'string'"),
        ("machine", "roofline: true", "roofline: 1", "1 is not of type 'boolean'"),
        ("machine", "localBWAware", "localbwaware", "'localbwaware' is not one of ['baseline', 'localBWAware']"),
        ("machine", "all-reduce:", "allreduce:", "'allreduce' is not one of ['all-reduce', "),
        ("device", "compute: 0.8", "compute: 1.8", "1.8 is not valid under any of the given schemas"),
        ("device", "float32: 67", "fp32: 67", "'fp32' is not one of ['float64', "),
        ("jobs", "islands: whole", "islands: all", "'all' is not one of ['any', 'whole']"),
        ("jobs", "start: 100 us", "start: 100", "100 is not of type 'string'"),
        ("changes", "down: leaf0-spine0", "broken: leaf0-spine0", "'broken' was unexpected"),
        ("changes", "at: 30 us", "at: 30", "30 is not of type 'string'"),
        ("transformer", "batch:", "batches:", "'batches' was unexpected"),
        ("transformer", "tp: 8", "tp: 0", "0 is not valid under any of the given schemas"),
        ("transformer", "sp: true", "sp: yes", "'yes' is not of type 'boolean'"),
        ("astra-sim-system", '"LIFO"', '"lifo"', "'lifo' is not one of ['LIFO', "),
        ("astra-sim-network", "npus_count: [ 8 ]", "npus_count: 8", "8 is not of type 'array'"),
        ("astra-sim-memory", '"memory-type"', '"type"', "'memory-type' is a required property"),
    ],
)
def test_mistakes_that_schemas_find(kind: str, old: str, new: str, said: str, tmp_path: Path) -> None:
    text = next(text for of, name, text in GOOD if of == kind and name == "page")
    assert old in text, text
    wrong = text.replace(old, new)
    assert said in str(refusal(kind, wrong))
    file = tmp_path / "file"
    file.write_text(wrong)
    with pytest.raises(InputError):
        LOADERS[kind](file)


ODD: list[Any] = [
    *(None, True, False, 0, 1, 2, -1, 0.5, 2.0, 1e300, 2**40, "", "x", "8", "010", "1.5", "4 ns", "1,000"),
    *("false", "5 GB/s", "ring", "LIFO", "fifo", "Ring", "pool", "h100", "BF16", "1F1B", "3 MiB"),
    *([], {}, [1], ["ring"], [[]], {"x": 1}),
]


def places(content: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all values."""
    below = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [place for key, item in below for place in ((*before, key), *places(item, (*before, key)))]


def changed(content: Any, place: tuple[Any, ...], draw: random.Random) -> Any:
    """The content with another value, another key or nothing at a place."""
    content = copy.deepcopy(content)
    node = content
    for key in place[:-1]:
        node = node[key]
    if draw.random() < 0.2 and isinstance(node, dict):
        value = node.pop(place[-1])
        if draw.random() < 0.7:
            node[f"{place[-1]}s"] = value
    else:
        node[place[-1]] = draw.choice(ODD)
    return content


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", LOADERS)
def test_what_a_schema_refuses_the_reader_refuses(kind: str, tmp_path: Path) -> None:
    draw = random.Random(f"schema {kind}")
    texts = [text for of, name, text in GOOD if of == kind and (name == "page" or of == "device")]
    file, refused = tmp_path / "file", 0
    for _ in range(120):
        good = draw.choice(texts)
        content = json.loads(good) if good.startswith("{") else yaml.load(good, Loader=yaml.BaseLoader)
        if kind == "transformer" and draw.random() < 0.5:
            content["model"] = {"preset": "llama-7b", "num_layers": 4, "hidden": 64, "moe": {"experts": 4, "top_k": 2}}
        content = changed(content, draw.choice(places(content)), draw)
        text = json.dumps(content) if good.startswith("{") else yaml.safe_dump(content).replace("'", "")
        try:
            said = refusal(kind, text)
        except InputError:
            continue
        if said is not None:
            refused += 1
            file.write_text(text)
            with pytest.raises(InputError):
                LOADERS[kind](file)
    assert refused > 5

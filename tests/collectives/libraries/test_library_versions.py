"""Which library a text means, and which table speaks for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chakrasim import InputError
from chakrasim.collectives.libraries.tables import nccl_table, nccl_versions, rccl_tables
from chakrasim.collectives.libraries.versions import library_of


@pytest.mark.parametrize(
    ("text", "name", "table", "noted"),
    [
        ("nccl", "nccl", "2.30.7", False),
        ("NCCL unknown", "nccl", "2.30.7", False),
        ("nccl-2.27.7", "nccl", "2.27.7", False),
        ("nccl-2.27", "nccl", "2.27.7", False),
        ("nccl-2.27.3", "nccl", "2.27.7", True),
        ("NCCL 2.22.3+cuda12.2", "nccl", "2.22.3", False),
        ("NCCL 2.9.9+cuda11.2", "nccl", "2.8.4", True),
        ("nccl-2.4.0", "nccl", "2.8.4", True),
        ("nccl-2.99.1", "nccl", "2.30.7", True),
        ("rccl", "rccl", "2.20.5", False),
        ("rccl-unknown", "rccl", "2.20.5", False),
        ("rccl-2.22.3-HEAD:7d8d67c", "rccl", "2.20.5", True),
    ],
)
def test_the_table_of_a_version(text: str, name: str, table: str, noted: bool) -> None:
    library = library_of(text)
    assert (library.name, library.table, library.note is not None) == (name, table, noted)
    assert library.asked == text


def test_a_note_names_both_versions() -> None:
    assert library_of("nccl-2.27.3").note == "there is no table of NCCL 2.27.3; that of 2.27.7 speaks for it"


@pytest.mark.parametrize("text", ["onecl", "", "oneCCL 2021.15", "nccl!", "ncc"])
def test_other_libraries_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"not a library whose choices are known.*expected nccl or rccl"):
        library_of(text)


@pytest.mark.parametrize("text", ["nccl-two", "nccl-2", "nccl-2.x.3", "rccl-2.22.3.4.5", "nccl-2..3"])
def test_versions_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="version of the library is not one"):
        library_of(text)


def test_the_tables_are_those_of_the_reference(shared_dir: Path) -> None:
    reference = json.loads((shared_dir / "reference" / "nccl-tables.json").read_bytes())
    assert list(nccl_versions()) == list(reference["nccl"])
    for version, known in reference["nccl"].items():
        table = nccl_table(version)
        for place, hops in known["hwLat"].items():
            for algorithm in ("Ring", "Tree"):
                assert table.hop[place.lower()][algorithm.lower()] == tuple(hops[algorithm])
        for generation, row in zip(known["perChMaxTreeBw"], table.tree, strict=False):
            assert row == tuple(known["perChMaxTreeBw"][generation])
        for protocol, curve in known["treeCorrectionFactor"].items():
            assert table.correction[protocol] == tuple(curve)
    for index, model in enumerate(rccl_tables().models):
        curves = reference["rccl"][f"tuning_model_{index}"]["ringCorrectionFactor"]
        assert {key: tuple(curve) for key, curve in curves.items()} == dict(model.ring)

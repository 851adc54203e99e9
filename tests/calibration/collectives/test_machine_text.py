"""Machine files of calibrations: they load, and give back the constants and what the library sees of the machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from made_curves import MANY, ONE, Made, written

from chakrasim import InputError, Notes, load_machine
from chakrasim.calibration import CollectiveCalibration, calibrate_collectives, machine_entries, machine_text
from chakrasim.calibration.collectives.machine_text import file_names, whole_site
from chakrasim.calibration.measurements.curves import MachineRow
from chakrasim.collectives.libraries.calibrated import weights_name
from chakrasim.collectives.libraries.model import shipped_model
from chakrasim.machine.site import Sites

SIZES = tuple(1 << power for power in range(10, 30, 3))
MACHINES = {
    "nvswitch": (ONE, 1, 8),
    "several nodes": (MANY, 3, 24),
    "one rank a node": (MANY, 2, 2),
    "fewer ports than GPUs": (replace(MANY, nics_per_node=4, nic_Gbps=200.0, network="EFA"), 2, 16),
    "more ports than GPUs": (replace(MANY, nics_per_node=32, nic_Gbps=100.0, network="EFA v2"), 2, 16),
    "direct": (MachineRow("d", "A100-SXM4-40GB", 4, "NVLink3 direct", 300.0, "Slingshot", 2, 200.0, 50.0, "AMD"), 2, 8),
    "cube mesh": (MachineRow("c", "V100", 8, "NVLink2 cube mesh", 150.0, "InfiniBand", 4, 100.0, 50.0, "Intel"), 2, 16),
    "pcie": (MachineRow("p", "L40S", 8, "PCIe 4 x16", 32.0, "none", 0, 0.0, 0.0), 1, 8),
    "xgmi": (MachineRow("x", "MI300X", 8, "XGMI full mesh 7 links", 448.0, "RoCE", 8, 400.0, 400.0), 2, 16),
    "racks": (
        MachineRow("r", "GB200", 4, "NVLink5 rack of 72", 900.0, "InfiniBand", 4, 400.0, 200.0, "Grace"),
        36,
        144,
    ),
}


def calibrated(
    folder: Path, row: MachineRow = ONE, nodes: int = 1, ranks: int = 8, **given: Any
) -> CollectiveCalibration:
    library = {"library": "RCCL", "version": "2.20.5"} if row.gpu.startswith("MI") else {}
    made = [Made(kind, row, kind, ranks, nodes, sizes=SIZES, constants={"launch": 0.2}, **{**library, **given})
            for kind in ("all_reduce", "all_gather")]  # fmt: skip
    return calibrate_collectives(written(folder, made))


@pytest.mark.parametrize("name", MACHINES)
def test_a_file_gives_back_what_it_was_written_from(name: str, tmp_path: Path) -> None:
    row, nodes, ranks = MACHINES[name]
    (group,) = calibrated(tmp_path / "data", row, nodes, ranks).groups
    (tmp_path / "machine.yaml").write_text(machine_text(group))
    notes = Notes()
    machine = load_machine(tmp_path / "machine.yaml", notes)
    assert list(notes) == []
    assert machine.calibrated == group.calibrated
    assert machine.library is not None
    site = whole_site(group.curves)
    assert Sites(machine.graph, machine.make, machine.library).of(range(machine.ranks)) == replace(
        site, ranks=machine.ranks
    )
    assert machine.ranks == site.nodes * site.board
    assert load_machine(machine_entries(group)).calibrated == group.calibrated


def test_the_environment_that_was_set_is_kept(tmp_path: Path) -> None:
    (group,) = calibrated(tmp_path / "data", env="NCCL_ALGO=Ring NCCL_BUFFSIZE=8388608 (set 3)").groups
    machine = load_machine(machine_entries(group))
    assert machine.settings == group.curves[0].settings
    assert machine.settings.buffer_bytes == 8388608


def test_a_library_whose_version_is_not_known(tmp_path: Path) -> None:
    (group,) = calibrated(tmp_path / "data", version="unknown").groups
    assert machine_entries(group)["collectives"]["library"] == "nccl"


def test_each_group_has_a_file(tmp_path: Path) -> None:
    made = [Made("a", sizes=SIZES), Made("b", sizes=SIZES, collective="all_gather"),
            Made("c", sizes=SIZES, version="2.28.9"), Made("d", sizes=SIZES, version="2.28.9+cuda", env="set 1 (a/b)"),
            Made("e", sizes=SIZES, version="2.28.9+cuda", env="set 1, (a b)")]  # fmt: skip
    groups = calibrate_collectives(written(tmp_path / "data", made)).groups
    names = file_names(groups, "out/machine.yaml")
    assert names[0] == "out/machine.yaml"
    assert sorted(names[1:]) == [
        "out/machine.one.nccl-2.28.9+cuda.2.yaml",
        "out/machine.one.nccl-2.28.9+cuda.set-1-a-b.yaml",
        "out/machine.one.nccl-2.28.9.yaml",
    ]


TWO = {"launch": 0.1, "copy": 0.1}


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return machine_entries(calibrated(tmp_path_factory.mktemp("data")).groups[0])


def changed(entries: dict[str, Any], **constants: Any) -> dict[str, Any]:
    copy: dict[str, Any] = yaml.safe_load(yaml.safe_dump(entries))
    copy["collectives"]["constants"] |= constants
    return copy


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"values": {"lunch": 0.1}}, r"\$\.collectives\.constants\.values\.lunch: unknown key; .*did you mean launch"),
        ({"values": {"launch": "fast"}}, "out of range; found 'fast'; expected a natural logarithm from -20 to 20"),
        ({"values": {"launch": 99}}, "out of range; found 99; expected a natural logarithm from -20 to 20"),
        ({"covariance": [[1.0]]}, r"covariance: the matrix has another size; found .*; expected \d+ rows of"),
        ({"values": TWO, "covariance": [[1.0, 0.5], [0.1, 1.0]]}, "the matrix is not symmetric"),
        ({"values": TWO, "covariance": [[1.0, 2.0], [2.0, 1.0]]}, "variances below 0"),
        ({"residual": [0.1]}, "residual: not one for each class of sizes; found 1; expected 4"),
        ({"residual": [0.1, 0.1, 0.1, -1]}, "out of range; found -1; expected a standard deviation"),
        ({"unseen": [0.1, 0.2]}, "unseen: not one for each class of sizes; found 2; expected 4"),
        ({"measured": {"all_reduce": "8 of 2"}}, "not a number of ranks; found '8 of 2'; expected such as 8, or 16 on"),
        ({"measured": {"all_reduce": ["2 on 8"]}}, "not a number of ranks; found '2 on 8'"),
        ({"measured": {"all_reduction": "8"}}, "unknown key; .*did you mean all_reduce"),
        ({"error": {"small": 3}}, "unknown key; .*expected one of to 64 KiB, to 4 MiB, below 128 MiB, from 128 MiB"),
    ],
)  # fmt: skip
def test_constants_that_are_none(entries: dict[str, Any], constants: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_machine(changed(entries, **constants))


def test_more_than_twelve_constants(entries: dict[str, Any]) -> None:
    from chakrasim.collectives.libraries.terms import CONSTANTS

    values = dict.fromkeys(list(CONSTANTS)[:13], 0.1)
    with pytest.raises(InputError, match="values: too many constants; found 13; expected at most 12"):
        load_machine(changed(entries, values=values))


def test_constants_of_other_weights_are_a_warning(entries: dict[str, Any]) -> None:
    assert entries["collectives"]["constants"]["weights"] == weights_name()
    (warning,) = load_machine(changed(entries, weights="0123456789ab")).warnings
    assert "fitted with other weights of the model: run chakrasim calibrate collectives again" in warning
    model = shipped_model()
    other = replace(model, weights={name: value + 0.1 for name, value in model.weights.items()})
    assert weights_name(other) != weights_name()


def test_constants_without_a_library_are_a_warning(entries: dict[str, Any]) -> None:
    copy = changed(entries)
    del copy["collectives"]["library"]
    assert any("the key has no effect without a library" in text for text in load_machine(copy).warnings)


def test_simulations_take_the_constants(entries: dict[str, Any]) -> None:
    import chakrasim as cs

    slower = {name: value + 1.0 for name, value in entries["collectives"]["constants"]["values"].items()}
    builder = cs.TraceBuilder()
    builder.add(0, "all-gather", 7, attrs={"is_cpu_op": False, "comm_type": 2, "comm_size": 1 << 16})
    trace = builder.build()
    plain, late = (cs.simulate(trace, ranks=8, machine=load_machine(one)).makespan_ns
                   for one in (entries, changed(entries, values=slower)))  # fmt: skip
    assert late > 1.5 * plain

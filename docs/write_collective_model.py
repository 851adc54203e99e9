"""Fit the weights of the model of collectives to a folder of measurements and write them where they are shipped.

python docs/write_collective_model.py DIR "what was measured, and when"
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from chakrasim.calibration.collectives.design import design_of
from chakrasim.calibration.collectives.intervals import fit_model
from chakrasim.calibration.measurements.csv_folder import read_folder
from chakrasim.collectives.libraries import model
from chakrasim.validation.scoreboard.predictions import pooled_curve


def main(folder: str, basis: str) -> None:
    """Only curves that count for pooled figures are fitted."""
    measured = read_folder(folder)
    curves = tuple(one for one in measured.curves if pooled_curve(one, measured.machines.get(one.machine)))
    design, refused = design_of(replace(measured, curves=curves))
    fitted = fit_model(design, basis, lambda done, total, name: print(f"{done} of {total} {name}", file=sys.stderr))
    text = json.dumps(fitted.to_json(), indent=1) + "\n"
    Path(model.__file__).with_name("model.json").write_text(text, encoding="utf-8")
    print(f"{len(design):,} points of {len(design.curves)} curves, {len(refused)} refused")


if __name__ == "__main__":
    main(*sys.argv[1:3])

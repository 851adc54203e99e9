"""What a calibration found of one machine and library, and what of it counts for a collective."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from chakrasim.collectives.libraries.model import Constants, Model, shipped_model
from chakrasim.collectives.libraries.site import Site

CLASS_NAMES: Final = ("to 64 KiB", "to 4 MiB", "below 128 MiB", "from 128 MiB")
"""Of sizes, as errors are told by."""
MOST_CONSTANTS: Final = 12
"""Freed for a machine and library: those that its points say most about."""
Case = tuple[str, int, int]
"""A collective by its kind's name, nodes and ranks."""


@dataclass(frozen=True)
class Calibrated:
    """Constants with what they were fitted to.

    Attributes
    ----------
    constants: of the machine and library.
    unseen: residual by size class of collectives and numbers of ranks that were not measured.
    measured: those that were.
    library: whose times they are, such as ``nccl-2.27.7``.
    errors: mean absolute error in per cent of sizes held out, by class of sizes.
    weights: which weights of the model they go with (`weights_name`).
    """

    constants: Constants
    unseen: tuple[float, ...] = ()
    measured: frozenset[Case] = frozenset()
    library: str = ""
    errors: Mapping[str, float] = field(default_factory=dict)
    weights: str = ""

    def of_collective(self, kind: str, site: Site) -> Constants:
        """The constants, with what is left over where nothing like the collective was measured."""
        return self.constants if case_of(kind, site) in self.measured else self.elsewhere

    @property
    def elsewhere(self) -> Constants:
        """The constants for what was not measured."""
        return replace(self.constants, residual=self.unseen) if self.unseen else self.constants

    @property
    def outdated(self) -> bool:
        """Whether the model has other weights by now, so that the constants do not go with them."""
        return self.weights not in ("", weights_name())


def case_of(kind: str, site: Site) -> Case:
    """What a collective of a group is measured as."""
    return kind, site.merged().nodes, site.nranks


def weights_name(model: Model | None = None) -> str:
    """A short name of a model's weights (of the shipped model), which no other weights have."""
    told = (model or shipped_model()).to_json()
    text = json.dumps([told["weights"], told["offsets"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]

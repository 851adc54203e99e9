"""Chakra traces that nobody recorded: made from a description."""

from typing import TYPE_CHECKING

from chakrasim.lazy import lazily

if TYPE_CHECKING:
    from chakrasim.generator.collective import collective_job
    from chakrasim.generator.spec.file import load_spec
    from chakrasim.generator.transformer import generate_transformer, transformer_job

__all__ = ["collective_job", "generate_transformer", "load_spec", "transformer_job"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "collective": ("collective_job",),
        "spec.file": ("load_spec",),
        "transformer": ("generate_transformer", "transformer_job"),
    },
)

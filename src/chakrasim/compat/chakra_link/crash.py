"""What the reference tools of Chakra 1.0.0 cannot digest, said in one message."""

from __future__ import annotations

from chakrasim.errors import InputError


def crash(message: str, kind: str, *, file: str, place: str | None = None, found: object = None) -> InputError:
    """The error for an input on which the reference tool itself stops with an exception of class ``kind``."""
    return InputError(
        f"{message} (here the reference tool stops with {kind})",
        file=file,
        place=place,
        found=found,
        remedy="leave out --compat chakra",
    )

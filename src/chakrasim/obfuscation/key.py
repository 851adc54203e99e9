"""The key of a release, and pseudonyms under it."""

from __future__ import annotations

import os
import secrets
from hashlib import blake2b
from typing import Final

from chakrasim.errors import InputError
from chakrasim.files.storage import read_bytes

LEAST_BYTES: Final = 16
_MADE_BYTES: Final = 32
_MOST_BYTES: Final = 1 << 16
_LETTERS: Final = bytes.maketrans(b"0123456789abcdef", b"abcdefghijklmnop")
"""No digits: a pseudonym has no numbers in it that could be taken for some of the program's."""


class Pseudonyms:
    """Pseudonyms under a key: with the same key the same name gets the same one, in every trace; without it nobody can
    try a name. Raises InputError for a key that is too short."""

    def __init__(self, key: bytes) -> None:
        if len(key) < LEAST_BYTES:
            raise InputError("the key of the pseudonyms is too short", found=f"{len(key)} bytes",
                             expected=f"{LEAST_BYTES} random bytes or more",
                             remedy="name a file that is not there yet: it gets a new key")  # fmt: skip
        # BLAKE2b takes keys of 64 bytes at most; longer ones are hashed, as HMAC does (RFC 2104).
        self._key = key if len(key) <= blake2b.MAX_KEY_SIZE else blake2b(key).digest()

    def of(self, what: str, name: str | bytes) -> str:
        """``what_`` and sixteen letters, which depend on both, and on the key (BLAKE2b, RFC 7693)."""
        raw = name if isinstance(name, bytes) else _bytes_of(name)
        digest = blake2b(what.encode() + b"\0" + raw, key=self._key, digest_size=8).hexdigest()
        return f"{what}_{digest.encode().translate(_LETTERS).decode()}"


def _bytes_of(text: str) -> bytes:
    """As UTF-8; of names read from bytes that are none these bytes, of a JSON file's halves of characters theirs."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def new_key() -> bytes:
    """A random key, which nobody keeps unless it is written."""
    return secrets.token_bytes(_MADE_BYTES)


def read_key(path: str | os.PathLike[str]) -> bytes | None:
    """The key in a file: all its bytes; None where there is no such file. Raises InputError for a file that cannot be
    read, and for a key that is too short."""
    name = os.fspath(path)
    if not os.path.lexists(name):
        return None
    key = read_bytes(name, _MOST_BYTES, "the key of the pseudonyms")
    try:
        Pseudonyms(key)
    except InputError as fault:
        raise InputError(fault.message, file=name, found=fault.found, expected=fault.expected,
                         remedy=fault.remedy) from None  # fmt: skip
    return key


def write_key(path: str | os.PathLike[str], key: bytes) -> None:
    """Write a key into a new file that its owner alone may read. Raises InputError."""
    try:
        with os.fdopen(os.open(os.fspath(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(key)
    except (OSError, ValueError) as fault:
        raise InputError("the file of the key cannot be made", file=path, found=str(fault)) from None

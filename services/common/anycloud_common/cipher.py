"""Encryption of stored secrets: AES-256-GCM under one key of the installation, bound to the place of the value.

A sealed value is `key id (4 bytes) ‖ nonce (12 bytes) ‖ ciphertext and tag`. Table, column and row id go in as
associated data, so a value copied to another row or column does not open.
"""

import base64
import binascii
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_KEY_ID_BYTES = 4
_NONCE_BYTES = 12
_TAG_BYTES = 16
_KEY_BYTES = 32


class CipherError(Exception):
    """A value did not open, or the key file is not one. The text holds neither key nor data."""


@dataclass(frozen=True)
class Cipher:
    """Seals and opens values under one key. Safe to share between threads."""

    key_id: bytes
    _aead: AESGCM = field(repr=False)

    @classmethod
    def load(cls, path: Path) -> "Cipher":
        """Reads the key file, creating it (mode 0600) when absent; of several processes that create it, one wins.

        The file is one line: the key id in hex, a space, the key in base64.
        Raises CipherError when the file holds anything else, and OSError when it can't be read or made.
        """
        if not path.exists():
            _create_key_file(path)
        key_id, key = _parse(path)
        return cls(key_id, AESGCM(key))

    def seal(self, plaintext: bytes, table: str, column: str, row_id: str) -> bytes:
        """The sealed form of a value of this table, column and row. Two calls never give the same bytes."""
        nonce = os.urandom(_NONCE_BYTES)
        return self.key_id + nonce + self._aead.encrypt(nonce, plaintext, _place(table, column, row_id))

    def open(self, sealed: bytes, table: str, column: str, row_id: str) -> bytes:
        """The plaintext. Raises CipherError when the key is another one, or the value was changed or moved."""
        where = f"{table}.{column} of {row_id}"
        if len(sealed) < _KEY_ID_BYTES + _NONCE_BYTES + _TAG_BYTES:
            raise CipherError(f"{where} is not a sealed value: it is too short")
        key_id, nonce, data = _split(sealed)
        if key_id != self.key_id:
            raise CipherError(
                f"{where} was sealed with key {key_id.hex()}, and this installation has {self.key_id.hex()}"
            )
        try:
            return self._aead.decrypt(nonce, data, _place(table, column, row_id))
        except InvalidTag:
            raise CipherError(f"{where} does not open: it was changed, or sealed for another place") from None


def _split(sealed: bytes) -> tuple[bytes, bytes, bytes]:
    end = _KEY_ID_BYTES + _NONCE_BYTES
    return sealed[:_KEY_ID_BYTES], sealed[_KEY_ID_BYTES:end], sealed[end:]


def _place(table: str, column: str, row_id: str) -> bytes:
    return "\0".join((table, column, row_id)).encode()


def _create_key_file(path: Path) -> None:
    """Makes the complete file under another name and links it into place, so nobody ever reads half a key."""
    content = f"{os.urandom(_KEY_ID_BYTES).hex()} {base64.b64encode(os.urandom(_KEY_BYTES)).decode()}\n"
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mkstemp makes it 0600
    scratch = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        scratch.chmod(0o600)
        try:
            path.hardlink_to(scratch)
        except FileExistsError:
            return  # another process was first: its key is the installation's
        _sync_directory(path.parent)
    finally:
        scratch.unlink()


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _parse(path: Path) -> tuple[bytes, bytes]:
    try:
        key_id_text, key_text = path.read_text(encoding="ascii").split()
        key_id, key = bytes.fromhex(key_id_text), base64.b64decode(key_text, validate=True)
    except (ValueError, binascii.Error):
        key_id, key = b"", b""
    if len(key_id) != _KEY_ID_BYTES or len(key) != _KEY_BYTES:
        raise CipherError(f"{path} is not a key file of this installation")
    return key_id, key

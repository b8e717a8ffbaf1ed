"""Keys and tokens of a new management VM, made here and known to nobody else."""

from __future__ import annotations

import secrets

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

Keys = dict[str, str]


def new_keys() -> Keys:
    """`host*`: the machine's own SSH key, so that we know the machine; `user*`: ours, so that it knows us; `token` and
    `agentToken`: K3s's. Private halves are in OpenSSH's format."""
    host, user = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    return {
        "hostPrivate": _private(host),
        "hostPublic": _public(host),
        "userPrivate": _private(user),
        "userPublic": _public(user),
        "token": secrets.token_hex(32),
        "agentToken": secrets.token_hex(32),
    }


def _private(key: Ed25519PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def _public(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()

"""Signed tokens of accounts. Elliptic keys, as 200 Nodes must get theirs within a second."""

import base64
import secrets

import orjson
from anycloud_control_plane.certificates import load_key
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from anycloud_sandbox.state import Json

SHA256 = hashes.SHA256()


class TokenSigner:
    """JSON Web Tokens by ES256, with the signature in DER: nobody but this class reads it."""

    def __init__(self, key: str) -> None:
        self._key = load_key(key)
        self._checked: dict[str, Json] = {}  # a review for every Job must be cheap: a signature is checked once

    def sign(self, claims: Json) -> str:
        parts = ({"alg": "ES256", "typ": "JWT"}, {"jti": secrets.token_hex(8), **claims})
        text = ".".join(_encode(orjson.dumps(part)) for part in parts)
        return f"{text}.{_encode(self._key.sign(text.encode(), ec.ECDSA(SHA256)))}"

    def claims(self, token: str) -> Json | None:
        """The claims of a token that this key signed; whether they still hold is the caller's to judge."""
        if token not in self._checked:
            text, _, signature = token.rpartition(".")
            try:
                self._key.public_key().verify(_decode(signature), text.encode(), ec.ECDSA(SHA256))
            except (ValueError, InvalidSignature):
                return None
            self._checked[token] = orjson.loads(_decode(text.partition(".")[2]))
        return self._checked[token]


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

"""Certificates and signed tokens. Elliptic keys throughout: 200 Nodes must get theirs within a second."""

import base64
import datetime as dt
import ipaddress
import secrets
from collections.abc import Sequence

import orjson
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from anycloud_sandbox.state import Json

Key = ec.EllipticCurvePrivateKey
PEM, SHA256 = serialization.Encoding.PEM, hashes.SHA256()


def new_key() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()


def load_key(pem: str) -> Key:
    key = serialization.load_pem_private_key(pem.encode(), None)
    assert isinstance(key, Key)
    return key


def request_pem(key: str, common_name: str, organization: str = "anycloud sandbox") -> str:
    pairs = ((NameOID.ORGANIZATION_NAME, organization), (NameOID.COMMON_NAME, common_name))
    subject = x509.Name([x509.NameAttribute(oid, text) for oid, text in pairs])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return builder.sign(load_key(key), SHA256).public_bytes(PEM).decode()


class Authority:
    """A certificate authority, of a cluster, of the kubelets or the edge's: its key, and its certificate in PEM."""

    def __init__(self, key: str, pem: str) -> None:
        self.key, self.pem, self._key = key, pem, load_key(key)

    @classmethod
    def new(cls, name: str) -> "Authority":
        made = cls(new_key(), "")
        made.pem = made.sign(request_pem(made.key, name), ca=True)
        return made

    def issue(self, name: str, addresses: Sequence[str] = ()) -> str:
        """A key and its certificate, for a client or a server, in one PEM text."""
        key = new_key()
        return key + self.sign(request_pem(key, name), addresses)

    def sign(self, request: str, addresses: Sequence[str] = (), ca: bool = False) -> str:
        asked, now, day = x509.load_pem_x509_csr(request.encode()), dt.datetime.now(dt.UTC), dt.timedelta(days=1)
        issuer = asked.subject if ca else x509.load_pem_x509_certificate(self.pem.encode()).subject
        key, number = asked.public_key(), x509.random_serial_number()
        builder = x509.CertificateBuilder(issuer, asked.subject, key, number)
        builder = builder.not_valid_before(now - day).not_valid_after(now + 3650 * day)
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False),
            (x509.SubjectKeyIdentifier.from_public_key(key), False),
            (x509.BasicConstraints(ca, None), True),
            (x509.KeyUsage(not ca, False, False, False, False, ca, ca, False, False), True),
        ]
        names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        for extension, critical in [*extensions, *([(x509.SubjectAlternativeName(names), False)] if names else [])]:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self._key, SHA256).public_bytes(PEM).decode()


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

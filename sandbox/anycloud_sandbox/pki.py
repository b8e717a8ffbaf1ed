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


def new_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: Key) -> str:
    return key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()


def load_key(pem: str) -> Key:
    key = serialization.load_pem_private_key(pem.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def request_pem(key: Key, common_name: str, organization: str = "anycloud sandbox") -> str:
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name(common_name, organization))
    return builder.sign(key, SHA256).public_bytes(PEM).decode()


def _name(common_name: str, organization: str = "anycloud sandbox") -> x509.Name:
    pairs = ((NameOID.ORGANIZATION_NAME, organization), (NameOID.COMMON_NAME, common_name))
    return x509.Name([x509.NameAttribute(oid, text) for oid, text in pairs])


class Authority:
    """A certificate authority: of a cluster, of the kubelets, or the edge's."""

    def __init__(self, name: str, document: Json | None = None) -> None:
        self.key, self._name = load_key(document["key"]) if document else new_key(), _name(name)
        self.pem: str = document["certificate"] if document else self.sign(self._name, self.key.public_key(), ca=True)

    def document(self) -> Json:
        return {"key": key_pem(self.key), "certificate": self.pem}

    def issue(self, common_name: str, addresses: Sequence[str] = ()) -> str:
        """A key and its certificate, for a client or a server, in one PEM text."""
        key = new_key()
        return key_pem(key) + self.sign(_name(common_name), key.public_key(), addresses)

    def sign_request(self, request: x509.CertificateSigningRequest) -> str:
        return self.sign(request.subject, request.public_key())

    def sign(self, subject: x509.Name, key: object, addresses: Sequence[str] = (), ca: bool = False) -> str:
        assert isinstance(key, ec.EllipticCurvePublicKey)
        now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
        builder = x509.CertificateBuilder(self._name, subject, key, x509.random_serial_number())
        builder = builder.not_valid_before(now - day).not_valid_after(now + 3650 * day)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca, None), critical=True)
        builder = builder.add_extension(
            x509.KeyUsage(not ca, False, False, False, False, ca, ca, False, False), critical=True
        )
        if addresses:
            names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, SHA256).public_bytes(PEM).decode()


class TokenSigner:
    """JSON Web Tokens by ES256, with the signature in DER: nobody but this class reads it."""

    def __init__(self, key: Key) -> None:
        self._key = key
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

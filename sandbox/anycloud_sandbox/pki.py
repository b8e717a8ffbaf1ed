"""Certificates and signed tokens. Elliptic keys throughout: 200 Nodes must get theirs within a second."""

from __future__ import annotations

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
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from anycloud_sandbox.state import Json

Key = ec.EllipticCurvePrivateKey


def new_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: Key) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def load_key(pem: str) -> Key:
    key = serialization.load_pem_private_key(pem.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _name(common_name: str, organization: str | None = None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def request_pem(key: Key, common_name: str, organization: str) -> str:
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name(common_name, organization))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


class Authority:
    """A certificate authority: of a cluster, or the edge's origin CA."""

    def __init__(self, key: Key, certificate: x509.Certificate) -> None:
        self.key, self.certificate = key, certificate
        self.pem = certificate.public_bytes(serialization.Encoding.PEM).decode()

    @classmethod
    def new(cls, name: str) -> Authority:
        key = new_key()
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = cls._builder(_name(name), _name(name), key.public_key(), days=3650)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(usage, critical=True)
        return cls(key, builder.sign(key, hashes.SHA256()))

    @classmethod
    def load(cls, document: Json) -> Authority:
        return cls(load_key(document["key"]), x509.load_pem_x509_certificate(document["certificate"].encode()))

    def document(self) -> Json:
        return {"key": key_pem(self.key), "certificate": self.pem}

    def issue(self, common_name: str, organization: str | None = None, hosts: Sequence[str] = ()) -> tuple[str, str]:
        """A certificate for client and server use, and its key."""
        key = new_key()
        return self._sign(_name(common_name, organization), key.public_key(), hosts), key_pem(key)

    def sign_request(self, request: x509.CertificateSigningRequest) -> str:
        return self._sign(request.subject, request.public_key(), ())

    def _sign(self, subject: x509.Name, public_key: object, hosts: Sequence[str]) -> str:
        builder = self._builder(subject, self.certificate.subject, public_key, days=365)
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = builder.add_extension(usages, critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
        )
        if hosts:
            names = [_host(host) for host in hosts]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()

    @staticmethod
    def _builder(subject: x509.Name, issuer: x509.Name, public_key: object, days: int) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
        builder = builder.public_key(public_key).serial_number(x509.random_serial_number())  # type: ignore[arg-type]
        builder = builder.not_valid_before(now - dt.timedelta(minutes=5)).not_valid_after(now + dt.timedelta(days=days))
        return builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(public_key),  # type: ignore[arg-type]
            critical=False,
        )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class TokenSigner:
    """JSON Web Tokens by ES256."""

    def __init__(self, key: Key) -> None:
        self._key = key
        self._known: dict[str, Json] = {}  # tokens whose signature was checked: a review per Job must be cheap

    def sign(self, claims: Json) -> str:
        claims = {"jti": secrets.token_hex(8), **claims}
        text = f"{_encode(orjson.dumps({'alg': 'ES256', 'typ': 'JWT'}))}.{_encode(orjson.dumps(claims))}"
        r, s = decode_dss_signature(self._key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{_encode(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    def claims(self, token: str) -> Json | None:
        """The claims of a token that this key signed; whether they still hold is the caller's to judge."""
        if token not in self._known:
            try:
                text, signature = token.rsplit(".", 1)
                raw = _decode(signature)
                pair = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
                self._key.public_key().verify(pair, text.encode(), ec.ECDSA(hashes.SHA256()))
                claims = orjson.loads(_decode(text.split(".")[1]))
            except (ValueError, InvalidSignature):
                return None
            if len(self._known) > 10_000:
                self._known.clear()
            self._known[token] = claims
        return self._known[token]

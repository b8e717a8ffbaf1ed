"""Keys and certificates of a control plane."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM
_LIFE = dt.timedelta(days=3650)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def load_key(pem: str) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()


def public_pem(key: ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(_PEM, form).decode()


def request_pem(key: ec.EllipticCurvePrivateKey, common_name: str, organization: str) -> str:
    """A certificate request, as a kubelet sends it."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name(common_name, organization))
    return builder.sign(key, hashes.SHA256()).public_bytes(_PEM).decode()


class Authority:
    """A certificate authority; `pem` is its own certificate."""

    def __init__(self, name: str) -> None:
        self.key = new_key()
        self._name = _name(name)
        self.pem = self._sign(self._name, self.key.public_key(), (), authority=True)

    @classmethod
    def load(cls, key: str, pem: str) -> Self:
        """One that was made before, from its key and its certificate in PEM."""
        made = cls.__new__(cls)
        made.key, made.pem = load_key(key), pem
        made._name = x509.load_pem_x509_certificate(pem.encode()).subject
        return made

    def issue(self, common_name: str, organization: str = "", hosts: Sequence[str] = ()) -> str:
        """A new key and its certificate, for client or server, in one PEM text."""
        key = new_key()
        return key_pem(key) + self._sign(_name(common_name, organization), key.public_key(), hosts)

    def sign(self, request: str, hosts: Sequence[str] = ()) -> str:
        """The certificate that a request asks for, whatever its subject."""
        asked = x509.load_pem_x509_csr(request.encode())
        key = asked.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        return self._sign(asked.subject, key, hosts)

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, hosts: Sequence[str], authority: bool = False
    ) -> str:
        now = dt.datetime.now(dt.UTC)
        serial = x509.random_serial_number()
        builder = x509.CertificateBuilder(self._name, subject, key, serial, now - dt.timedelta(hours=1), now + _LIFE)
        builder = builder.add_extension(x509.BasicConstraints(authority, None), critical=True)
        usage = x509.KeyUsage(not authority, False, False, False, False, authority, authority, False, False)
        builder = builder.add_extension(usage, critical=True)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_host, hosts))), critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(_PEM).decode()


def _name(common_name: str, organization: str = "") -> x509.Name:
    pairs = [(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([x509.NameAttribute(oid, text) for oid, text in [*pairs, (NameOID.COMMON_NAME, common_name)]])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)

"""The key of an origin certificate, and the request to sign it."""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class OriginKey:
    """Both as PEM. `request` proves the key and names the host."""

    request: str
    key: str = field(repr=False)


def new_origin_key(host: str) -> OriginKey:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    names = x509.SubjectAlternativeName([x509.DNSName(host)])
    request = x509.CertificateSigningRequestBuilder(subject).add_extension(names, critical=False)
    signed = request.sign(key, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return OriginKey(signed.public_bytes(Encoding.PEM).decode(), private.decode())

"""Credentials between their messages and their stored document, whose keys are the contract's."""

from __future__ import annotations

from typing import Any, Final

from anycloudapi.cluster.v1 import credentials_pb2
from anycloudapi.common.v1 import types_pb2

from anycloud_cluster.domain.credential import TAG, Credential, Document

_MEMBERS: Final = {
    "aws": "AWS",
    "gcp": "GCP",
    "azure": "Azure",
    "lambda_labs": "Lambda",
    "cloudflare": "Cloudflare",
}
_OF_PROVIDER: Final = {provider: member for member, provider in _MEMBERS.items()}
_JURISDICTION: Final = "jurisdiction"
PROVIDERS: Final = {
    "AWS": types_pb2.CLOUD_PROVIDER_AWS,
    "GCP": types_pb2.CLOUD_PROVIDER_GCP,
    "Azure": types_pb2.CLOUD_PROVIDER_AZURE,
    "Lambda": types_pb2.CLOUD_PROVIDER_LAMBDA,
    "Cloudflare": types_pb2.CLOUD_PROVIDER_CLOUDFLARE,
}


def document(credential: types_pb2.CloudCredential) -> Document | None:
    """None when no provider is given."""
    member = credential.WhichOneof("provider")
    return None if member is None else {TAG: _MEMBERS[member], **_fields(getattr(credential, member))}


def changes(message: credentials_pb2.CredentialChanges) -> Document:
    return _fields(message)


def redacted(credential: Credential) -> credentials_pb2.RedactedCredential:
    message = credentials_pb2.RedactedCredential(name=credential.name, auth_failed_at=credential.auth_failed_at)
    member = getattr(message, _OF_PROVIDER[credential.provider])
    member.SetInParent()
    for field in member.DESCRIPTOR.fields:
        value = credential.shown.get(field.json_name)
        if value is not None:
            setattr(member, field.name, _number(value) if field.name == _JURISDICTION else value)
    return message


def _fields(message: Any) -> dict[str, Any]:
    return {
        field.json_name: _name(value) if field.name == _JURISDICTION else value for field, value in message.ListFields()
    }


def _name(jurisdiction: int) -> str:
    return types_pb2.CloudflareJurisdiction.Name(jurisdiction).removeprefix("CLOUDFLARE_JURISDICTION_").lower()  # type: ignore[arg-type]


def _number(jurisdiction: str) -> int:
    return types_pb2.CloudflareJurisdiction.Value(f"CLOUDFLARE_JURISDICTION_{jurisdiction.upper()}")

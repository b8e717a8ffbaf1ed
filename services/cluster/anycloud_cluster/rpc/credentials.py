"""Saving, changing and removing credentials. No answer holds key material."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from anycloud_common import holds, ids
from anycloud_common.cipher import Cipher
from anycloud_common.errors import ApiError
from anycloud_common.rest import Invalid
from anycloud_common.store import Store, Tx
from anycloud_providers.protocol import ProviderError
from anycloudapi.cluster.v1 import credentials_pb2, credentials_pb2_grpc
from anycloudapi.common.v1 import errors_pb2
from google.protobuf import empty_pb2
from sqlalchemy import Connection

from anycloud_cluster.domain.credential import TAG, Credential, Document, cloud_of, merged
from anycloud_cluster.domain.ports import Clouds
from anycloud_cluster.rpc import documents
from anycloud_cluster.store import credentials
from anycloud_cluster.store.tables import PREFIX

# Whose it is can't be asked now; worth another try.
_TRANSIENT = ("unreachable", "throttled", "capacity")


class CredentialsServicer(credentials_pb2_grpc.CredentialsServicer):
    def __init__(self, store: Store, cipher: Cipher, clouds: Clouds) -> None:
        self._store = store
        self._cipher = cipher
        self._clouds = clouds

    async def ListCredentials(
        self, request: credentials_pb2.ListCredentialsRequest, context: Any
    ) -> credentials_pb2.ListCredentialsResponse:
        found = await self._store.read(credentials.everything)
        return credentials_pb2.ListCredentialsResponse(credentials=[documents.redacted(c) for c in found])

    async def GetCredential(
        self, request: credentials_pb2.GetCredentialRequest, context: Any
    ) -> credentials_pb2.RedactedCredential:
        return documents.redacted(await self._found(request.name))

    async def SaveCredential(self, request: credentials_pb2.SaveCredentialRequest, context: Any) -> empty_pb2.Empty:
        if problem := ids.check_name("Credential", request.name):
            raise Invalid(problem, "name")
        document = documents.document(request.credential)
        if document is None:
            raise Invalid("must name a provider", "credential")
        account = await self._account(document, Invalid)
        await self._store.write(lambda tx: self._save(tx, request.name, request.overwrite, document, account))
        return empty_pb2.Empty()

    async def UpdateCredential(self, request: credentials_pb2.UpdateCredentialRequest, context: Any) -> empty_pb2.Empty:
        old = await self._found(request.name)
        refuse = partial(_refusal, "CREDENTIAL_UPDATE_INVALID", old.name)
        changes = documents.changes(request.changes)
        try:
            document = merged(credentials.opened(self._cipher, old), changes)
        except ValueError as error:
            raise refuse(str(error)) from None
        if changes:
            account = await self._account(document, refuse)
            await self._store.write(lambda tx: self._update(tx, old, document, account))
        return empty_pb2.Empty()

    async def DeleteCredential(self, request: credentials_pb2.DeleteCredentialRequest, context: Any) -> empty_pb2.Empty:
        def delete(tx: Tx) -> None:
            found = credentials.find(tx.conn, request.name)
            if found is None:
                return
            if not request.force and (owners := _owners(tx.conn, found)):
                data = errors_pb2.CredentialInUseData(name=found.name, workload_ids=owners)
                text = f"Credential {found.name} is in use by {', '.join(owners)}; first {_ends(tx.conn, found)}."
                raise ApiError("CREDENTIAL_IN_USE", text, data)
            credentials.remove(tx, found)

        await self._store.write(delete)
        return empty_pb2.Empty()

    async def _found(self, name: str) -> Credential:
        found = await self._store.look(lambda conn: credentials.find(conn, name))
        if found is None:
            raise _refusal("CREDENTIAL_NOT_FOUND", name, f"There is no credential {name!r}.")
        return found

    async def _account(self, document: Document, refuse: Callable[[str], Exception]) -> str:
        """Whose credential it is, asked of its cloud."""
        kind = cloud_of(document)
        if kind is None:
            raise refuse(f"credentials of {document[TAG]} can't be checked by this release; use AWS, GCP or Azure")
        try:
            provider = self._clouds.open(kind, document)
            try:
                return await provider.identity.account()
            finally:
                await provider.close()
        except ProviderError as error:
            if error.kind in _TRANSIENT:
                text = f"{kind} can't be asked now whose credential it is ({error.message}); try again in a moment."
                raise ApiError("API_RESTARTING", text) from None
            raise refuse(f"{kind} doesn't accept this credential: {error.message}") from None

    def _save(self, tx: Tx, name: str, overwrite: bool, document: Document, account: str) -> None:
        old = credentials.find(tx.conn, name)
        if old is not None and not overwrite:
            text = f"There is a credential {name} already; save it with overwrite to replace it."
            raise _refusal("CREDENTIAL_NAME_EXISTS", name, text)
        if old is not None:
            self._replace(tx, old, document, account, Invalid)
            return
        if credentials.by_id(tx.conn, name) is not None:
            raise Invalid(f"{name} is the id of another credential.", "name")
        credential_id = ids.new("cred")
        sealed = credentials.sealed(self._cipher, credential_id, document)
        credentials.add(tx, credential_id, name, document=document, account=account, data=sealed)

    def _update(self, tx: Tx, seen: Credential, document: Document, account: str) -> None:
        now = credentials.by_id(tx.conn, seen.id)
        if now is None or now.revision != seen.revision:
            text = f"Credential {seen.name} was changed or deleted meanwhile; read it again and repeat."
            raise _refusal("CREDENTIAL_CHANGED", seen.name, text)
        self._replace(tx, now, document, account, partial(_refusal, "CREDENTIAL_UPDATE_INVALID", seen.name))

    def _replace(
        self, tx: Tx, old: Credential, document: Document, account: str, refuse: Callable[[str], Exception]
    ) -> None:
        """New keys of the same account are used at once; another account only while nobody holds the credential."""
        if (document[TAG], account) != (old.provider, old.account) and (owners := _owners(tx.conn, old)):
            raise refuse(
                f"credential {old.name} is of {old.provider} account {old.account} and in use by {', '.join(owners)}; "
                f"keys of {document[TAG]} account {account} need a credential of another name"
            )
        credentials.replace(tx, old, document, account, credentials.sealed(self._cipher, old.id, document))


def _owners(conn: Connection, credential: Credential) -> list[str]:
    return [owner.id for owner in holds.owners(conn, PREFIX, credentials.KIND, credential.id)]


def _ends(conn: Connection, credential: Credential) -> str:
    """The commands that end what holds it."""
    owners = holds.owners(conn, PREFIX, credentials.KIND, credential.id)
    return ", ".join(f"`anycloud {owner.kind} delete {owner.id}`" for owner in owners)


def _refusal(code: str, name: str, text: str) -> ApiError:
    sentence = text[:1].upper() + text[1:].rstrip(".") + "."
    return ApiError(code, sentence, errors_pb2.CredentialErrorData(name=name))

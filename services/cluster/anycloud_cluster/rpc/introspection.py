"""Whose token it is, for this service and those that stand on it."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Any, Protocol

from anycloud_common.calls import Principal
from anycloud_common.clock import Clock
from anycloud_common.store import Store
from anycloudapi.cluster.internal.v1 import cluster_pb2, cluster_pb2_grpc
from sqlalchemy import Connection

from anycloud_cluster.domain.access import Account, principal_id
from anycloud_cluster.store import access


class Tokens(Protocol):
    async def principal(self, digest: bytes) -> Principal | None:
        """Who holds the token with this SHA-256, or None."""
        ...


class LocalToken:
    """The one token of an installer: whoever can read its file owns the installation."""

    def __init__(self, path: Path) -> None:
        self._digest = hashlib.sha256(path.read_text(encoding="utf-8").strip().encode()).digest()

    async def principal(self, digest: bytes) -> Principal | None:
        return Principal("local", "local", "local", owner=True) if hmac.compare_digest(digest, self._digest) else None


class IssuedTokens:
    """Tokens of a hosted API, issued to its owner and to whom the owner let in."""

    def __init__(self, store: Store, clock: Clock, owner: Account) -> None:
        self._store = store
        self._clock = clock
        self._owner = owner

    async def principal(self, digest: bytes) -> Principal | None:
        return await self._store.look(lambda conn: self._principal(conn, digest))

    def _principal(self, conn: Connection, digest: bytes) -> Principal | None:
        account = access.holder(conn, digest, self._clock.now_ms())
        if account is None:
            return None
        owner = account.user_id == self._owner.user_id
        if not owner and not access.is_granted(conn, account.user_id):
            return None
        return Principal(principal_id(account.user_id), account.username, "user", owner)


class IntrospectionServicer(cluster_pb2_grpc.IntrospectionServicer):
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def Introspect(self, request: cluster_pb2.IntrospectRequest, context: Any) -> cluster_pb2.IntrospectResponse:
        found = await self._tokens.principal(request.token_sha256)
        if found is None:
            return cluster_pb2.IntrospectResponse()
        message = cluster_pb2.Principal(id=found.id, name=found.name, owner=found.owner)
        return cluster_pb2.IntrospectResponse(principal=message)

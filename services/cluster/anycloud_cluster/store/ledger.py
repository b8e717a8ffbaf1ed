"""The ledger's rows: everything made outside is one of them first, and stays one until the provider says it is gone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from anycloud_common.cipher import Cipher
from anycloud_common.store import Tx, leases
from sqlalchemy import ColumnElement, Connection, Row, bindparam, insert, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from anycloud_cluster.domain.resource import (
    ENDED,
    RELEASED_AFTER,
    Kind,
    LedgerIdentity,
    Resource,
    State,
    Wanted,
)
from anycloud_cluster.store.tables import RESOURCE

KIND = "resource"
_THERE = (State.PENDING, State.RUNNING, State.RELEASING)  # it exists, as far as is known
_COLUMNS = [column for column in RESOURCE.c if column.name not in ("lock_owner", "lock_token")]


_FIND = select(*_COLUMNS).where(RESOURCE.c.id == bindparam("token"))
_RELEASING = select(RESOURCE.c.id).where(
    RESOURCE.c.owner_id == bindparam("owner_id"),
    RESOURCE.c.state == State.RELEASING,
    RESOURCE.c.kind.in_(bindparam("kinds", expanding=True)),
)
_SENT = update(RESOURCE).where(RESOURCE.c.id == bindparam("this")).values(sent_at=bindparam("now"))


@lru_cache
def _update(columns: frozenset[str], guarded: bool) -> ReturningUpdate[Any]:
    """The row `this`, if its lease is `guard`: these columns, as `new_…`, and the next version."""
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in columns}
    where = RESOURCE.c.id == bindparam("this")
    if guarded:
        where &= RESOURCE.c.lock_token == bindparam("guard")
    return update(RESOURCE).where(where).values({**values, "version": RESOURCE.c.version + 1}).returning(*_COLUMNS)


class ReleasedBefore(Exception):
    """The token was released; it is never used again."""


class OtherRequest(Exception):
    """The token stands for another resource than the one that is asked for."""


@dataclass
class Wakes:
    """Who is told after a commit. Set once, when the process is put together."""

    resource: Callable[[str], None] = lambda token: None
    owner: Callable[[str, str], None] = lambda kind, owner_id: None


class Ledger:
    """Writes to the ledger, each inside the caller's transaction."""

    def __init__(self, cipher: Cipher, identity: LedgerIdentity, wakes: Wakes) -> None:
        self._cipher = cipher
        self._identity = identity
        self._wakes = wakes

    def ensure(self, tx: Tx, wanted: Wanted, cluster_id: str, attempt: int = 1) -> Resource:
        """Records the resource, or the next attempt of one that failed; what is known of it now.

        Raises ReleasedBefore or OtherRequest.
        """
        row = find(tx.conn, wanted.token)
        if row is None:
            return self._insert(tx, wanted, cluster_id, attempt)
        if row.state in (State.RELEASING, *ENDED):
            raise ReleasedBefore(f"{wanted.token} was released before")
        if not self._same(row, wanted):
            raise OtherRequest(f"{wanted.token} stands for another {row.kind}")
        if row.state is State.FAILED and attempt > row.attempt:
            return self.try_again(tx, row, attempt)
        return row

    def try_again(self, tx: Tx, row: Resource, attempt: int | None = None) -> Resource:
        """The next attempt of one that failed, with the same request."""
        changes = {"attempt": attempt or row.attempt + 1, "state": State.PENDING}
        return self.write(tx, row, {**changes, **_NO_FAILURE}, guard=None)

    def release(self, tx: Tx, token: str) -> Resource:
        """Final: the reconciler ends it, and the token is never used again. Known or not, tried again or not."""
        row = find(tx.conn, token)
        if row is None:
            tx.conn.execute(insert(RESOURCE).values(_tombstone(token, tx.now)))
            tx.change(KIND, token, 1)
            return _existing(tx.conn, token)
        if row.state in ENDED:
            return row
        if row.state is State.RELEASING:
            return row
        nothing_made = row.sent_at is None and not row.provider_id
        changes: dict[str, Any] = {"state": State.RELEASED if nothing_made else State.RELEASING}
        return self.write(tx, row, {**changes, **_NO_FAILURE}, guard=None)

    def retry_release(self, tx: Tx, row: Resource) -> None:
        """On a person's word the wait after a failure is over, and the failures before are forgotten."""
        self.write(tx, row, no_failure(), guard=None)

    def abandon(self, tx: Tx, row: Resource) -> None:
        """Its cluster is forgotten: what there is stays, and nobody here touches it any more."""
        self.write(tx, row, {"state": State.ABANDONED}, guard=None)

    def write(self, tx: Tx, row: Resource, changes: Mapping[str, Any], *, guard: str | None) -> Resource:
        """Stores facts and tells of them.

        guard: the lease's token, which is given back by this; None for facts that are true whoever works on the row.
        """
        values = {**changes, "updated_at": tx.now}
        if guard is not None:
            values |= {"lock_owner": None, "lock_token": None}
        if values.get("state") in ENDED:
            values["sealed_user_data"] = None
        given = {f"new_{name}": value for name, value in values.items()} | {"this": row.id}
        if guard is not None:
            given["guard"] = guard
        written = tx.conn.execute(_update(frozenset(values), guard is not None), given).first()
        if written is None:
            return _existing(tx.conn, row.id)
        tx.change(KIND, row.id, row.version + 1)
        tx.after_commit(partial(self._wakes.resource, row.id))
        tx.after_commit(partial(self._wakes.owner, row.owner_kind, row.owner_id))
        if values.get("state", State.PENDING) not in _THERE:
            self._wake_waiting(tx, row)
        return _resource(written)

    def made(self, tx: Tx, row: Resource, changes: Mapping[str, Any], *, guard: str | None) -> Resource:
        """Stores what a create brought. A release that came meanwhile stays, and finds it."""
        now = find(tx.conn, row.id)
        if now is not None and now.state is not State.PENDING:
            changes = {key: value for key, value in changes.items() if key != "state"}
        return self.write(tx, row, changes, guard=guard)

    def user_data(self, row: Resource) -> bytes:
        if row.sealed_user_data is None:
            return b""
        return self._cipher.open(row.sealed_user_data, RESOURCE.name, "sealed_user_data", row.id)

    def _insert(self, tx: Tx, wanted: Wanted, cluster_id: str, attempt: int) -> Resource:
        values = _tombstone(wanted.token, tx.now) | {
            "kind": wanted.kind,
            "role": wanted.role,
            "owner_kind": wanted.owner_kind,
            "owner_id": wanted.owner_id,
            "credential_id": wanted.credential_id,
            "provider": wanted.provider,
            "account": wanted.account,
            "region": wanted.region,
            "zone": wanted.zone,
            "name": wanted.name,
            "spec": _json(wanted.spec),
            "sealed_user_data": self._sealed(wanted),
            "tags": _json(self._identity.tags(cluster_id, wanted)),
            "attempt": attempt,
            "state": State.PENDING,
        }
        tx.conn.execute(insert(RESOURCE).values(values))
        tx.change(KIND, wanted.token, 1)
        tx.after_commit(partial(self._wakes.resource, wanted.token))
        return _existing(tx.conn, wanted.token)

    def _sealed(self, wanted: Wanted) -> bytes | None:
        if wanted.user_data is None:
            return None
        return self._cipher.seal(wanted.user_data, RESOURCE.name, "sealed_user_data", wanted.token)

    def _same(self, row: Resource, wanted: Wanted) -> bool:
        asked = (wanted.kind, wanted.owner_kind, wanted.owner_id, wanted.region, wanted.zone, wanted.name)
        stored = (row.kind, row.owner_kind, row.owner_id, row.region, row.zone, row.name)
        same_spec = dict(row.spec) == dict(wanted.spec)
        return stored == asked and same_spec and self.user_data(row) == (wanted.user_data or b"")

    def _wake_waiting(self, tx: Tx, ended: Resource) -> None:
        """Releases of the same owner that may have waited for this one."""
        waiting = [kind for kind, others in RELEASED_AFTER.items() if ended.kind in others]
        if waiting:
            given = {"owner_id": ended.owner_id, "kinds": waiting}
            for token in tx.conn.execute(_RELEASING, given).scalars():
                tx.after_commit(partial(self._wakes.resource, token))


_NO_FAILURE: dict[str, Any] = {
    "failure_kind": None,
    "failure_message": None,
    "failure_at": None,
    "failure_count": 0,
}


def no_failure() -> dict[str, Any]:
    return dict(_NO_FAILURE)


def failed(row: Resource, kind: str, message: str, now: int) -> dict[str, Any]:
    """Columns of one more failure in a row."""
    return {
        "failure_kind": kind,
        "failure_message": message,
        "failure_at": now,
        "failure_count": row.failure_count + 1,
    }


def find(conn: Connection, token: str) -> Resource | None:
    row = conn.execute(_FIND, {"token": token}).first()
    return None if row is None else _resource(row)


def of_owner(conn: Connection, owner_kind: str, owner_id: str) -> Sequence[Resource]:
    """In the order in which they were asked for."""
    return _all(conn, RESOURCE.c.owner_kind == owner_kind, RESOURCE.c.owner_id == owner_id)


def unfinished(conn: Connection) -> Sequence[Resource]:
    """Rows that the reconciler has work with."""
    return _all(conn, RESOURCE.c.state.in_([State.PENDING, State.RELEASING]))


def machines_of(conn: Connection, provider: str, account: str) -> Sequence[Resource]:
    """Machines of an account that its provider knows, until their end is confirmed."""
    living = [State.PENDING, State.RUNNING, State.RELEASING]
    return _all(
        conn,
        RESOURCE.c.kind == Kind.MACHINE,
        RESOURCE.c.provider == provider,
        RESOURCE.c.account == account,
        RESOURCE.c.state.in_(living),
        RESOURCE.c.provider_id != "",
    )


def of_account(conn: Connection, provider: str, account: str) -> Sequence[Resource]:
    """Everything that was ever asked for in an account."""
    return _all(conn, RESOURCE.c.provider == provider, RESOURCE.c.account == account)


def accounts(conn: Connection) -> Sequence[tuple[str, str]]:
    """(provider, account) of all machines that aren't gone."""
    living = RESOURCE.c.kind == Kind.MACHINE, RESOURCE.c.state.not_in([*ENDED, State.FAILED])
    rows = conn.execute(select(RESOURCE.c.provider, RESOURCE.c.account).where(*living).distinct())
    return [(provider, account) for provider, account in rows]


def waits_for_others(conn: Connection, row: Resource) -> bool:
    """Whether there is still something of the same owner that has to go first."""
    earlier = RELEASED_AFTER[Kind(row.kind)]
    if not earlier:
        return False
    where = (RESOURCE.c.owner_id == row.owner_id, RESOURCE.c.state.in_(_THERE), RESOURCE.c.kind.in_(earlier))
    return conn.execute(select(RESOURCE.c.id).where(*where).limit(1)).first() is not None


def begin(tx: Tx, token: str, *, sending: bool) -> str | None:
    """Takes the row's lease, and notes that a create is about to be sent; None while somebody else has it."""
    lease = leases.take(tx, RESOURCE, token)
    if lease is not None and sending:
        tx.conn.execute(_SENT, {"this": token, "now": tx.now})
    return lease


def give_back(tx: Tx, token: str, lease: str) -> None:
    """Ends the lease of a pass that learnt nothing."""
    leases.release(tx, RESOURCE, token, lease)


def _all(conn: Connection, *where: ColumnElement[bool]) -> list[Resource]:
    rows = conn.execute(select(*_COLUMNS).where(*where).order_by(RESOURCE.c.created_at, RESOURCE.c.id))
    return [_resource(row) for row in rows]


def _existing(conn: Connection, token: str) -> Resource:
    found = find(conn, token)
    if found is None:
        raise LookupError(f"the ledger has no row {token}")
    return found


def _resource(row: Row[Any]) -> Resource:
    parsed = {"spec": json.loads(row.spec), "tags": json.loads(row.tags), "state": State(row.state)}
    return Resource(**{**row._mapping, **parsed})


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), sort_keys=True)


def _tombstone(token: str, now: int) -> dict[str, Any]:
    """A released row of which nothing but its token is known."""
    texts = ("kind", "role", "owner_kind", "owner_id", "credential_id", "provider", "account", "region", "name")
    return {
        "id": token,
        **dict.fromkeys(texts, ""),
        **dict.fromkeys(("provider_id", "address", "url"), ""),
        "spec": "{}",
        "tags": "{}",
        "attempt": 0,
        "state": State.RELEASED,
        "ssh_port": 0,
        "failure_count": 0,
        "version": 1,
        "created_at": now,
        "updated_at": now,
    }

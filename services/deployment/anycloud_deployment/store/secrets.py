"""Saved Secrets. Their values are sealed, and leave this module only towards the Kubernetes Secret of a Deployment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anycloud_common import ids
from anycloud_common.cipher import Cipher
from anycloud_common.store import Tx
from sqlalchemy import Connection, delete, insert, select, update

from anycloud_deployment.store.tables import secrets

KIND = "secret"


@dataclass(frozen=True)
class Saved:
    """What may be told of a Secret."""

    name: str
    created_at: int
    updated_at: int


@dataclass(frozen=True)
class Resolved:
    """The merged values of several Secrets, a later one before an earlier; or the names that don't exist."""

    values: Mapping[str, str]
    missing: tuple[str, ...]


class Secrets:
    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher

    def save(self, tx: Tx, name: str, values: Mapping[str, str]) -> str:
        """Creates the Secret or replaces all of its values; gives its id."""
        row = tx.conn.execute(select(secrets.c.id).where(secrets.c.name_key == name.lower())).first()
        secret_id: str = ids.new("sec") if row is None else row.id
        sealed = self._cipher.seal(json.dumps(dict(values)).encode(), secrets.name, "values", secret_id)
        if row is None:
            new = {"id": secret_id, "name": name, "name_key": name.lower(), "created_at": tx.now}
            tx.conn.execute(insert(secrets).values({**new, "values": sealed, "updated_at": tx.now}))
        else:
            changed = {"values": sealed, "updated_at": tx.now}
            tx.conn.execute(update(secrets).where(secrets.c.id == secret_id).values(changed))
        tx.change(KIND, secret_id)
        return secret_id

    def resolve(self, conn: Connection, names: Sequence[str]) -> Resolved:
        statement = select(secrets).where(secrets.c.name_key.in_([name.lower() for name in names]))
        found = {row.name_key: row for row in conn.execute(statement)}
        values: dict[str, str] = {}
        for name in names:
            row = found.get(name.lower())
            if row is not None:
                values |= json.loads(self._cipher.open(row._mapping["values"], secrets.name, "values", row.id))
        return Resolved(values, tuple(name for name in names if name.lower() not in found))


def saved(conn: Connection) -> list[Saved]:
    """All, by name."""
    rows = conn.execute(select(secrets.c.name, secrets.c.created_at, secrets.c.updated_at).order_by(secrets.c.name_key))
    return [Saved(*row) for row in rows]


def all_ids(conn: Connection) -> list[str]:
    return list(conn.execute(select(secrets.c.id)).scalars())


def missing(conn: Connection, names: Sequence[str]) -> list[str]:
    """Those of the names that no Secret has."""
    keys = [name.lower() for name in names]
    found = set(conn.execute(select(secrets.c.name_key).where(secrets.c.name_key.in_(keys))).scalars())
    return [name for name in names if name.lower() not in found]


def spelling(conn: Connection, name: str) -> str:
    """A Secret's name as it was first saved; the name itself when there is none."""
    found = conn.execute(select(secrets.c.name).where(secrets.c.name_key == name.lower())).scalar()
    return name if found is None else str(found)


def remove(tx: Tx, name: str) -> str | None:
    """Gives the id of what was removed; None when there was nothing."""
    gone = tx.conn.execute(delete(secrets).where(secrets.c.name_key == name.lower()).returning(secrets.c.id)).first()
    if gone is None:
        return None
    tx.change(KIND, gone.id)
    return str(gone.id)

"""Stored credentials."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from anycloud_common.cipher import Cipher
from anycloud_common.store import Tx
from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select, update

from anycloud_cluster.domain.credential import TAG, Credential, Document, redacted
from anycloud_cluster.store.tables import CREDENTIAL

KIND = "credential"


def find(conn: Connection, name: str) -> Credential | None:
    return _first(conn, CREDENTIAL.c.name == name)


def by_id(conn: Connection, credential_id: str) -> Credential | None:
    return _first(conn, CREDENTIAL.c.id == credential_id)


def of_account(conn: Connection, provider: str, account: str, first: str) -> Credential | None:
    """A credential of that very account: the one with the id `first` if it still is, else any."""
    rows = [
        _credential(row)
        for row in conn.execute(
            select(CREDENTIAL)
            .where(CREDENTIAL.c.provider == provider, CREDENTIAL.c.account == account)
            .order_by(CREDENTIAL.c.created_at, CREDENTIAL.c.id)
        )
    ]
    return next((c for c in rows if c.id == first), rows[0] if rows else None)


def everything(conn: Connection) -> Sequence[Credential]:
    return [_credential(row) for row in conn.execute(select(CREDENTIAL).order_by(CREDENTIAL.c.name))]


def opened(cipher: Cipher, credential: Credential) -> Document:
    """The document in clear. Raises CipherError."""
    document: Document = json.loads(cipher.open(credential.sealed, CREDENTIAL.name, "sealed", credential.id))
    return document


def sealed(cipher: Cipher, credential_id: str, document: Document) -> bytes:
    return cipher.seal(json.dumps(dict(document)).encode(), CREDENTIAL.name, "sealed", credential_id)


def add(tx: Tx, credential_id: str, name: str, *, document: Document, account: str, data: bytes) -> None:
    values = {"id": credential_id, "name": name, "revision": 1, "created_at": tx.now}
    tx.conn.execute(insert(CREDENTIAL).values(**values, **_content(tx, document, account, data)))
    tx.change(KIND, credential_id, 1)


def replace(tx: Tx, old: Credential, document: Document, account: str, data: bytes) -> None:
    """New key material under the same name and id."""
    values = {"revision": old.revision + 1, **_content(tx, document, account, data)}
    tx.conn.execute(update(CREDENTIAL).where(CREDENTIAL.c.id == old.id).values(values))
    tx.change(KIND, old.id, old.revision + 1)


def remove(tx: Tx, credential: Credential) -> None:
    tx.conn.execute(delete(CREDENTIAL).where(CREDENTIAL.c.id == credential.id))
    tx.change(KIND, credential.id, credential.revision + 1)


def auth_failed(tx: Tx, credential: Credential) -> None:
    """The cloud refused this key material; what replaced it meanwhile isn't blamed."""
    where = (CREDENTIAL.c.id == credential.id, CREDENTIAL.c.revision == credential.revision)
    if tx.conn.execute(update(CREDENTIAL).where(*where).values(auth_failed_at=tx.now)).rowcount:
        tx.change(KIND, credential.id, credential.revision)


def _content(tx: Tx, document: Document, account: str, data: bytes) -> dict[str, Any]:
    return {
        "provider": document[TAG],
        "account": account,
        "shown": json.dumps(redacted(document)),
        "sealed": data,
        "auth_failed_at": None,
        "updated_at": tx.now,
    }


def _first(conn: Connection, where: ColumnElement[bool]) -> Credential | None:
    row = conn.execute(select(CREDENTIAL).where(where)).first()
    return None if row is None else _credential(row)


def _credential(row: Row[Any]) -> Credential:
    return Credential(**{**row._mapping, "shown": json.loads(row.shown)})

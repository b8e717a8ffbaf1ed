"""The table of the caller's side, declared with the prefix of its service, and its rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from sqlalchemy import BigInteger, Column, ColumnElement, Connection, Index, MetaData, Row, Table, Text, select

from anycloud_common.holds import Admission, Owner, Parent

# pending: the parent may or may not have the holds. admitted: it has. cancelling: they are being released.
State = Literal["pending", "admitted", "cancelling"]


@dataclass(frozen=True)
class AdmissionRow:
    """An admission as its caller knows it; `base_revision` is the owner's revision that it was made for."""

    admission: Admission
    base_revision: int
    state: State


def tables(prefix: str, metadata: MetaData) -> Table:
    """Declares `<prefix>_admission`. `owner_epoch` is the process that made the row; `created_at` is epoch ms."""
    return Table(
        f"{prefix}_admission",
        metadata,
        Column("id", Text, primary_key=True),
        Column("owner_kind", Text, nullable=False),
        Column("owner_id", Text, nullable=False),
        Column("base_revision", BigInteger, nullable=False),
        Column("devices", BigInteger, nullable=False),
        Column("parents", Text, nullable=False),  # JSON: [[kind, id], ...]
        Column("state", Text, nullable=False),
        Column("owner_epoch", BigInteger, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Index(f"{prefix}_admission_owner", "owner_kind", "owner_id"),
        Index(f"{prefix}_admission_state", "state"),
    )


@cache
def named(prefix: str) -> Table:
    """The same table for queries, which need no more than its name."""
    return tables(prefix, MetaData())


def from_row(row: Row[Any]) -> AdmissionRow:
    parents = tuple(Parent(kind, id) for kind, id in json.loads(row.parents))
    admission = Admission(row.id, Owner(row.owner_kind, row.owner_id), parents, row.devices)
    return AdmissionRow(admission, row.base_revision, row.state)


def find(conn: Connection, table: Table, admission_id: str) -> AdmissionRow | None:
    row = conn.execute(select(table).where(table.c.id == admission_id)).first()
    return None if row is None else from_row(row)


def find_all(conn: Connection, table: Table, where: ColumnElement[bool]) -> list[AdmissionRow]:
    """Oldest first."""
    return [from_row(row) for row in conn.execute(select(table).where(where).order_by(table.c.created_at, table.c.id))]

"""Which version and schema served this data last."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from anycloud_release.store.tables import STAMP


@dataclass(frozen=True)
class Stamp:
    version: str
    schema_version: int


def read(conn: Connection) -> Stamp | None:
    row = conn.execute(select(STAMP.c.version, STAMP.c.schema_version)).first()
    return None if row is None else Stamp(row.version, row.schema_version)

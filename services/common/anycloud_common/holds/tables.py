"""Tables of the parent's side, declared with the prefix of its service."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from sqlalchemy import BigInteger, Column, Index, MetaData, Table, Text


class HoldTables(NamedTuple):
    """`hold`: a row for each parent of an admission. `tombstone`: released admissions of the last day.
    `replacement`: which restores already brought the holds of which service."""

    hold: Table
    tombstone: Table
    replacement: Table


def tables(prefix: str, metadata: MetaData) -> HoldTables:
    """Declares `<prefix>_hold`, `<prefix>_hold_tombstone` and `<prefix>_hold_replacement`. Times are epoch ms."""
    hold = Table(
        f"{prefix}_hold",
        metadata,
        Column("admission_id", Text, primary_key=True),
        Column("parent_kind", Text, primary_key=True),
        Column("parent_id", Text, primary_key=True),
        Column("service", Text, nullable=False),
        Column("owner_kind", Text, nullable=False),
        Column("owner_id", Text, nullable=False),
        Column("devices", BigInteger, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Index(f"{prefix}_hold_parent", "parent_kind", "parent_id"),
    )
    tombstone = Table(
        f"{prefix}_hold_tombstone",
        metadata,
        Column("admission_id", Text, primary_key=True),
        Column("created_at", BigInteger, nullable=False),
        Index(f"{prefix}_hold_tombstone_created_at", "created_at"),
    )
    replacement = Table(
        f"{prefix}_hold_replacement",
        metadata,
        Column("service", Text, primary_key=True),
        Column("incarnation", Text, primary_key=True),
        Column("created_at", BigInteger, nullable=False),
    )
    return HoldTables(hold, tombstone, replacement)


@cache
def named(prefix: str) -> HoldTables:
    """The same tables for queries, which need no more than their names."""
    return tables(prefix, MetaData())

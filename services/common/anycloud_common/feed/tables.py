"""Where a consumer keeps how far it has read."""

from __future__ import annotations

from functools import cache

from sqlalchemy import BigInteger, Column, MetaData, Table, Text


def tables(prefix: str, metadata: MetaData) -> Table:
    """Declares `<prefix>_feed_cursor`: for each source, the seq up to which its changes are marked, and the kinds that
    were asked for (sorted, joined by commas)."""
    return Table(
        f"{prefix}_feed_cursor",
        metadata,
        Column("source", Text, primary_key=True),
        Column("seq", BigInteger, nullable=False),
        Column("kinds", Text, nullable=False),
    )


@cache
def named(prefix: str) -> Table:
    """The same table for queries, which need no more than its name."""
    return tables(prefix, MetaData())

"""Questions about the holds of a parent, asked inside the caller's own transaction.

A parent is deleted in the write transaction that found no owners. Write transactions of a service follow each other,
so of an admission and a deletion at one moment exactly one wins.
"""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from anycloud_common.holds.policy import Owner, Parent
from anycloud_common.holds.tables import named


def owners(conn: Connection, prefix: str, parent_kind: str, parent_id: str) -> list[Owner]:
    """Who holds this parent, each once, ordered by kind and id."""
    hold = named(prefix).hold
    columns = (hold.c.owner_kind, hold.c.owner_id)
    rows = conn.execute(
        select(*columns)
        .where(hold.c.parent_kind == parent_kind, hold.c.parent_id == parent_id)
        .distinct()
        .order_by(*columns)
    )
    return [Owner(kind, id) for kind, id in rows]


def count(conn: Connection, prefix: str, parent_kind: str, parent_id: str) -> int:
    """How many owners hold this parent."""
    return len(owners(conn, prefix, parent_kind, parent_id))


def devices_held(conn: Connection, prefix: str, parent_kind: str, parent_id: str, but: Owner | None = None) -> int:
    """Devices that owners hold of this parent: the sum of each one's largest hold, leaving out the owner `but`."""
    hold = named(prefix).hold
    largest = (
        select(func.max(hold.c.devices).label("devices"))
        .where(hold.c.parent_kind == parent_kind, hold.c.parent_id == parent_id)
        .group_by(hold.c.owner_kind, hold.c.owner_id)
    )
    if but is not None:
        largest = largest.where((hold.c.owner_kind != but.kind) | (hold.c.owner_id != but.id))
    return int(conn.execute(select(func.coalesce(func.sum(largest.subquery().c.devices), 0))).scalar_one())


def held_parents(conn: Connection, prefix: str, admission_ids: list[str]) -> list[Parent]:
    """Parents that these admissions hold, each once."""
    hold = named(prefix).hold
    rows = conn.execute(
        select(hold.c.parent_kind, hold.c.parent_id).where(hold.c.admission_id.in_(admission_ids)).distinct()
    )
    return [Parent(kind, id) for kind, id in rows]

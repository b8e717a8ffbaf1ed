"""How holds come and go, each function one transaction's work.

The servicer calls them for other services; a service calls them itself for edges inside its own database.
Each changed parent is named in the change feed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import delete, insert, select

from anycloud_common.holds.policy import (
    ADMISSION_RELEASED,
    ADMISSION_REUSED,
    NO_FREE_DEVICES,
    Admission,
    Owner,
    Parent,
    ParentPolicy,
    Refusal,
)
from anycloud_common.holds.reads import devices_held, held_parents
from anycloud_common.holds.tables import named
from anycloud_common.store import Tx

TOMBSTONE_MS = 24 * 3600 * 1000


def acquire(tx: Tx, prefix: str, policy: ParentPolicy, service: str, admission: Admission) -> Refusal | None:
    """Takes all holds of the admission, or gives the first refusal and takes none.

    An admission that is held already is granted again, whatever its parents are now.
    """
    if _is_released(tx, prefix, admission.id):
        return Refusal(*admission.parents[0], ADMISSION_RELEASED, f"Admission {admission.id} was released before.")
    held = _held(tx, prefix, admission.id)
    if held is not None:
        return None if _same(held, admission) else _reused(admission)
    for parent in admission.parents:
        refusal = policy.check(tx.conn, parent, admission.owner, admission.devices)
        refusal = refusal or _no_room(tx, prefix, policy, parent, admission)
        if refusal is not None:
            return refusal
    _insert(tx, prefix, service, [admission])
    _changed(tx, admission.parents)
    return None


def release(tx: Tx, prefix: str, admission_ids: Sequence[str]) -> None:
    """Removes the holds of these admissions. Each leaves a tombstone, also one that was never seen here."""
    ids = list(dict.fromkeys(admission_ids))
    tables = named(prefix)
    parents = held_parents(tx.conn, prefix, ids)
    tx.conn.execute(delete(tables.hold).where(tables.hold.c.admission_id.in_(ids)))
    tx.conn.execute(delete(tables.tombstone).where(tables.tombstone.c.created_at < tx.now - TOMBSTONE_MS))
    tx.conn.execute(delete(tables.tombstone).where(tables.tombstone.c.admission_id.in_(ids)))
    if ids:
        tx.conn.execute(insert(tables.tombstone), [{"admission_id": id, "created_at": tx.now} for id in ids])
    _changed(tx, parents)


def replace(tx: Tx, prefix: str, service: str, incarnation: str, admissions: Sequence[Admission]) -> None:
    """Makes the holds of `service` exactly these, unless this incarnation's were brought before: a repetition that
    arrives late finds the service at work, and must not undo what it has taken since."""
    hold, tombstone, replacement = named(prefix)
    done = select(replacement).where(replacement.c.service == service, replacement.c.incarnation == incarnation)
    if tx.conn.execute(done).first() is not None:
        return
    tx.conn.execute(insert(replacement).values(service=service, incarnation=incarnation, created_at=tx.now))
    before = tx.conn.execute(select(hold.c.parent_kind, hold.c.parent_id).where(hold.c.service == service)).all()
    tx.conn.execute(delete(hold).where(hold.c.service == service))
    for admission in admissions:
        tx.conn.execute(delete(tombstone).where(tombstone.c.admission_id == admission.id))
    _insert(tx, prefix, service, admissions)
    _changed(tx, [Parent(kind, id) for kind, id in before] + [p for a in admissions for p in a.parents])


def _is_released(tx: Tx, prefix: str, admission_id: str) -> bool:
    tombstone = named(prefix).tombstone
    found = tx.conn.execute(select(tombstone.c.admission_id).where(tombstone.c.admission_id == admission_id))
    return found.first() is not None


def _held(tx: Tx, prefix: str, admission_id: str) -> Admission | None:
    hold = named(prefix).hold
    rows = tx.conn.execute(select(hold).where(hold.c.admission_id == admission_id)).all()
    if not rows:
        return None
    parents = tuple(Parent(row.parent_kind, row.parent_id) for row in rows)
    return Admission(admission_id, Owner(rows[0].owner_kind, rows[0].owner_id), parents, rows[0].devices)


def _same(held: Admission, asked: Admission) -> bool:
    return (held.owner, set(held.parents), held.devices) == (asked.owner, set(asked.parents), asked.devices)


def _reused(admission: Admission) -> Refusal:
    message = f"Admission {admission.id} is held already, for another owner, other parents or other devices."
    return Refusal(*admission.parents[0], ADMISSION_REUSED, message)


def _no_room(tx: Tx, prefix: str, policy: ParentPolicy, parent: Parent, admission: Admission) -> Refusal | None:
    if admission.devices == 0:
        return None
    capacity = policy.capacity(tx.conn, parent)
    if capacity is None:
        return None
    free = capacity.devices - devices_held(tx.conn, prefix, *parent, but=admission.owner)
    if admission.devices <= free:
        return None
    room = f"{max(free, 0)} of {capacity.devices} devices free"
    message = f"{capacity.parent} has {room}; the request wants {admission.devices}."
    return Refusal(*parent, NO_FREE_DEVICES, message)


def _insert(tx: Tx, prefix: str, service: str, admissions: Iterable[Admission]) -> None:
    rows = [
        {
            "admission_id": admission.id,
            "parent_kind": parent.kind,
            "parent_id": parent.id,
            "service": service,
            "owner_kind": admission.owner.kind,
            "owner_id": admission.owner.id,
            "devices": admission.devices,
            "created_at": tx.now,
        }
        for admission in admissions
        for parent in admission.parents
    ]
    if rows:
        tx.conn.execute(insert(named(prefix).hold), rows)


def _changed(tx: Tx, parents: Iterable[Parent]) -> None:
    for parent in dict.fromkeys(parents):
        tx.change(parent.kind, parent.id)

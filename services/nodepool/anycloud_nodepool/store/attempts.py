"""Rows of the VMs of node pools."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any

from anycloud_common.store import Tx
from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from anycloud_nodepool.domain.model import Attempt, Loss, Stage
from anycloud_nodepool.store.tables import ATTEMPT

_NAMES = tuple(field.name for field in fields(Attempt))
_COLUMNS = [ATTEMPT.c[name] for name in _NAMES]
_FROZEN = ("id", "number", "pool_id", "place", "replacement", "node_name", "token_id", "created_at")
_CHANGING = tuple(name for name in _NAMES if name not in _FROZEN)
_UPDATE = (
    update(ATTEMPT)
    .where(ATTEMPT.c.id == bindparam("this"))
    .values({name: bindparam(f"new_{name}") for name in _CHANGING})
)


@dataclass(frozen=True)
class Sealed:
    """What an attempt's VM is given, encrypted."""

    token: bytes
    user_data: bytes


def of_pool(conn: Connection, pool_id: str) -> list[Attempt]:
    """All attempts of a pool, in the order of issue."""
    rows = conn.execute(select(*_COLUMNS).where(ATTEMPT.c.pool_id == pool_id).order_by(ATTEMPT.c.number))
    return [_attempt(row) for row in rows]


def next_number(conn: Connection) -> int:
    """A number that no attempt has had in this database."""
    return int(conn.execute(select(func.coalesce(func.max(ATTEMPT.c.number), 0))).scalar_one()) + 1


def insert_all(tx: Tx, attempts: Sequence[tuple[Attempt, Sealed]]) -> None:
    rows = [
        {**_columns(attempt), "sealed_token": sealed.token, "sealed_user_data": sealed.user_data}
        for attempt, sealed in attempts
    ]
    tx.conn.execute(insert(ATTEMPT), rows)


def update_all(tx: Tx, attempts: Sequence[Attempt]) -> None:
    """Stores what changed. What was sealed for a VM goes with its token."""
    rows = [
        {"this": attempt.id, **{f"new_{name}": value for name, value in _columns(attempt).items() if name in _CHANGING}}
        for attempt in attempts
    ]
    tx.conn.execute(_UPDATE, rows)
    useless = [attempt.id for attempt in attempts if attempt.token_gone]
    if useless:
        forget = update(ATTEMPT).where(ATTEMPT.c.id.in_(useless), ATTEMPT.c.sealed_token.is_not(None))
        tx.conn.execute(forget.values(sealed_token=None, sealed_user_data=None))


def sealed(conn: Connection, attempt_ids: Collection[str]) -> dict[str, Sealed]:
    """What was sealed for these attempts, of those whose tokens aren't gone."""
    columns = (ATTEMPT.c.id, ATTEMPT.c.sealed_token, ATTEMPT.c.sealed_user_data)
    rows = conn.execute(select(*columns).where(ATTEMPT.c.id.in_(attempt_ids), ATTEMPT.c.sealed_token.is_not(None)))
    return {row.id: Sealed(row.sealed_token, row.sealed_user_data) for row in rows}


def pools_of(conn: Connection, attempt_ids: Collection[str]) -> list[str]:
    """The pools of these attempts; unknown ids are left out."""
    rows = conn.execute(select(ATTEMPT.c.pool_id).where(ATTEMPT.c.id.in_(attempt_ids)).distinct())
    return list(rows.scalars())


def closed(conn: Connection, attempt_ids: Collection[str]) -> list[str]:
    """Those of the attempts whose VMs are confirmed gone."""
    gone = ATTEMPT.c.stage.in_([Stage.RELEASED.value, Stage.CLOSED.value])
    return list(conn.execute(select(ATTEMPT.c.id).where(ATTEMPT.c.id.in_(attempt_ids), gone)).scalars())


def _columns(attempt: Attempt) -> dict[str, Any]:
    values = {name: getattr(attempt, name) for name in _NAMES}
    return {**values, "stage": attempt.stage.value, "loss": attempt.loss.value if attempt.loss else None}


def _attempt(row: Row[Any]) -> Attempt:
    loss = Loss(row.loss) if row.loss else None
    return Attempt(**{**row._mapping, "stage": Stage(row.stage), "loss": loss})

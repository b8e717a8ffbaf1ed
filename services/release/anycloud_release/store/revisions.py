"""Recorded revisions of the API's own release."""

from __future__ import annotations

from anycloud_common.release_values import ApiValues
from anycloud_common.store import Tx
from sqlalchemy import Connection, insert, select

from anycloud_release.domain.revisions import Revision, State
from anycloud_release.store.tables import REVISION


def newest(conn: Connection) -> Revision | None:
    row = conn.execute(select(REVISION).order_by(REVISION.c.number.desc()).limit(1)).mappings().first()
    return None if row is None else Revision(**{**row, "state": State(row["state"])})


def record_installed(tx: Tx, api: ApiValues) -> None:
    """Enters the revision that this API was installed as, unless a revision is on record already."""
    if newest(tx.conn) is not None:
        return
    tx.conn.execute(
        insert(REVISION).values(
            number=api.revision,
            state=State.RUNNING,
            api_version=api.version,
            api_image=api.image,
            chart_version=api.chart_version,
            created_at=tx.now,
            updated_at=tx.now,
        )
    )

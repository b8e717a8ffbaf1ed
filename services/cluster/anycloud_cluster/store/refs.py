"""Everything that the change feed can name."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlalchemy import Connection, Table, select

from anycloud_cluster.domain.resource import ENDED
from anycloud_cluster.store import clusters, credentials, ledger
from anycloud_cluster.store.tables import CLUSTER, CREDENTIAL, RESOURCE

_TABLES: dict[str, Table] = {clusters.KIND: CLUSTER, credentials.KIND: CREDENTIAL, ledger.KIND: RESOURCE}


def listed(conn: Connection, kinds: Collection[str]) -> Iterator[tuple[str, str]]:
    """(kind, id). Of resources those that aren't gone; of tokens none, as only their ends are told."""
    for kind in sorted(_TABLES.keys() & kinds):
        table = _TABLES[kind]
        query = select(table.c.id)
        if kind == ledger.KIND:
            query = query.where(table.c.state.not_in(list(ENDED)))
        for (object_id,) in conn.execute(query.order_by(table.c.id)):
            yield kind, object_id

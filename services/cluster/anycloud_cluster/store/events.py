"""The log of what happened to clusters."""

from __future__ import annotations

from anycloud_common.events import Actor, Event, EventLog
from anycloud_common.store import Tx

from anycloud_cluster.store.tables import EVENT

_LOG = EventLog(EVENT)
of_cluster = _LOG.of


def append(
    tx: Tx, cluster_id: str, reason: str, message: str, *, actor: str = "cluster", request_id: str | None = None
) -> None:
    """`reason` is a constant such as `create.machine`; `actor` a principal's id, or this service."""
    _LOG.append(tx, cluster_id, [Event(reason, message)], Actor(actor, request_id))

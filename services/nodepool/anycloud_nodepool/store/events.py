"""The log of what happened to node pools."""

from __future__ import annotations

from collections.abc import Iterable

from anycloud_common.events import Actor, Event, EventLog
from anycloud_common.store import Tx

from anycloud_nodepool.store.tables import EVENT

SERVICE = Actor("nodepool")

_LOG = EventLog(EVENT)
listed = _LOG.of


def append(tx: Tx, pool_id: str, events: Iterable[Event], actor: Actor = SERVICE) -> None:
    _LOG.append(tx, pool_id, events, actor)

"""Which clusters and credentials may be held, and by whom."""

from __future__ import annotations

from anycloud_common.holds import Capacity, Owner, Parent, Refusal
from sqlalchemy import Connection

from anycloud_cluster.domain.cluster import State
from anycloud_cluster.store import clusters, credentials

_BEFORE_RUNNING = (State.PROVISIONING, State.INITIALIZING, State.STARTING)


class Policy:
    """A cluster is held while it runs and no deletion has fenced it off; a credential while it is there."""

    def check(self, conn: Connection, parent: Parent, owner: Owner, devices: int) -> Refusal | None:
        if parent.kind == clusters.KIND:
            return _cluster(conn, parent)
        if parent.kind == credentials.KIND:
            return _credential(conn, parent)
        return Refusal(*parent, "NODE_POOL_INVALID", f"Nothing of kind {parent.kind} can be held here.")

    def capacity(self, conn: Connection, parent: Parent) -> Capacity | None:
        return None


def _cluster(conn: Connection, parent: Parent) -> Refusal | None:
    found = clusters.by_id(conn, parent.id)
    if found is None:
        return Refusal(*parent, "CLUSTER_NOT_FOUND", f"There is no cluster {parent.id}.")
    if found.state in _BEFORE_RUNNING:
        text = f"Cluster {found.name} is {found.state}; node pools are accepted once it is running."
        return Refusal(*parent, "NODE_POOLS_UNAVAILABLE", text)
    if found.state is not State.RUNNING:
        return Refusal(*parent, "CLUSTER_NOT_ACCEPTING", f"Cluster {found.name} is {found.state}.")
    if not found.accepting:
        return Refusal(*parent, "CLUSTER_NOT_ACCEPTING", f"Cluster {found.name} is being deleted.")
    return None


def _credential(conn: Connection, parent: Parent) -> Refusal | None:
    if credentials.by_id(conn, parent.id) is not None:
        return None
    return Refusal(*parent, "NODE_POOL_CREDENTIAL_NOT_FOUND", f"There is no credential {parent.id} any more.")

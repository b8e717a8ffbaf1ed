"""Which node pools may be held: those that run, with a Ready Node, and room on their GPUs."""

from __future__ import annotations

from anycloud_common.holds import Capacity, Owner, Parent, Refusal
from sqlalchemy import Connection

from anycloud_nodepool.domain.model import Pool, State
from anycloud_nodepool.store import pools

NOT_FOUND = "NODE_POOL_NOT_FOUND"
NOT_RUNNING = "NODE_POOL_NOT_RUNNING"
NOT_READY = "NODE_POOL_NOT_READY"


class Policy:
    """Judges by the row of the moment, inside the transaction that takes the hold."""

    def check(self, conn: Connection, parent: Parent, owner: Owner, devices: int) -> Refusal | None:
        pool = pools.get(conn, parent.id) if parent.kind == pools.KIND else None
        if pool is None or not pool.visible or pool.deleted_at is not None:
            return Refusal(*parent, NOT_FOUND, f"There is no {parent.kind} {parent.id}.")
        if pool.state is not State.RUNNING:
            return Refusal(*parent, NOT_RUNNING, f"{_named(pool)} is {pool.state}; it takes work once it is running.")
        if pool.counts.ready == 0:
            return Refusal(*parent, NOT_READY, f"{_named(pool)} is running, and none of its Nodes is Ready now.")
        return None

    def capacity(self, conn: Connection, parent: Parent) -> Capacity | None:
        pool = pools.get(conn, parent.id)
        if pool is None:
            return None
        return Capacity(pool.counts.ready * pool.gpus, f"{_named(pool)} ({pool.state})")


def _named(pool: Pool) -> str:
    return f"Node pool {pool.name!r}"

"""One Deployment during one pass: its facts, its lease, and what the phases work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from anycloud_common.admission import Admissions
from anycloud_common.clock import Clock
from anycloud_common.reconcile import Blocked
from anycloud_common.store import Store, Tx, leases
from sqlalchemy import Connection, select, update

from anycloud_deployment.domain.manifest import Place
from anycloud_deployment.domain.model import Block, Deployment, Revision
from anycloud_deployment.domain.ports import NodePools, Objects, View
from anycloud_deployment.store import deployments, events, job_reads
from anycloud_deployment.store.events import SERVICE
from anycloud_deployment.store.jobs import Jobs
from anycloud_deployment.store.revisions import Revisions
from anycloud_deployment.store.secrets import Secrets
from anycloud_deployment.store.tables import deployments as table


class LeaseLost(Exception):
    """Somebody else works on the Deployment now; what this pass found out is dropped."""


@dataclass
class Tools:
    """What every pass works with, and what it remembers by Deployment while the process lives.

    versions: the UID of its Kubernetes Deployment and the version that our last write left, so that an edit of somebody
    else's is seen and undone. available_since: since when its applied revision is available without a break, with that
    revision and the restarts of its containers.
    """

    store: Store
    objects: Objects
    view: View
    pools: NodePools
    admissions: Admissions
    revisions: Revisions
    secrets: Secrets
    jobs: Jobs
    public_url: str
    clock: Clock
    versions: dict[str, tuple[str, int]] = field(default_factory=dict)
    available_since: dict[str, tuple[tuple[int, int], float]] = field(default_factory=dict)


class Scope:
    """The lease is taken before the first side effect or write, so a pass that finds nothing to do writes nothing."""

    def __init__(self, tools: Tools, deployment: Deployment) -> None:
        self.tools = tools
        self.deployment = deployment
        self._lease: str | None = None
        self._block: Block | None = None
        self._keeps_block = False

    @property
    def id(self) -> str:
        return self.deployment.id

    @property
    def namespace(self) -> str:
        """The Namespace of its objects, once one is known."""
        namespace = self.deployment.natives.namespace
        assert namespace is not None, "the namespace phase comes first"
        return namespace

    @property
    def place(self) -> Place:
        return Place(self.id, self.namespace, self.deployment.node_pool_id, self.tools.public_url)

    async def revision(self, generation: int) -> Revision:
        return await self.tools.store.look(lambda conn: self.tools.revisions.get(conn, self.id, generation))

    async def target(self) -> int:
        """The revision that Kubernetes is to have now: the requested one, or the applied one for as long as Jobs on
        other revisions than the requested one hold slots."""
        applied, requested = self.deployment.applied, self.deployment.generation
        if applied is None or applied == requested:
            return requested
        held = await self.tools.store.read(lambda conn: bool(job_reads.holding(conn, self.id, requested)))
        return applied if held else requested

    def block(self, reason: str, *, fatal: bool = False, retry: float | None = None) -> Blocked:
        """Ends the pass with a reason that the Deployment's status shows."""
        self._block = Block(reason, fatal)
        return Blocked(reason, retry)

    def keep_block(self) -> None:
        """This pass couldn't look far enough to say anything about an earlier reason."""
        self._keeps_block = True

    async def take(self) -> None:
        """Makes sure that this pass holds the lease. Raises LeaseLost."""
        if self._lease is None:
            self._lease = await self.tools.store.write(self._take)
        if self._lease is None:
            raise LeaseLost

    async def save(self, *, event: str | None = None, **values: Any) -> None:
        """Commits what became known. Raises LeaseLost."""
        await self.change(lambda tx: values, event=event)

    async def change(self, make: Callable[[Tx], dict[str, Any]], *, event: str | None = None, **detail: Any) -> None:
        """Commits what `make` says, and whatever else it writes, under the lease. Raises LeaseLost."""
        await self.take()
        self.deployment = await self.tools.store.write(partial(self._change, make, event, detail))

    async def finish(self) -> None:
        """Writes the reason that the pass ended with, if it is news, and gives the lease back."""
        news = self._block != self.deployment.block and not self._keeps_block
        if news or self._lease is not None:
            await self.tools.store.write(partial(self._finish, news))

    def _change(
        self, make: Callable[[Tx], dict[str, Any]], event: str | None, detail: dict[str, Any], tx: Tx
    ) -> Deployment:
        assert self._lease is not None
        values = make(tx)
        guarded = update(table).where(leases.guarded(table, self.id, self._lease))
        if tx.conn.execute(guarded.values(**(values or {"lock_token": self._lease}))).rowcount != 1:
            raise LeaseLost
        tx.change(deployments.KIND, self.id)
        if event is not None:
            events.append(tx, deployments.KIND, self.id, event, SERVICE, **detail)
        return self._read(tx.conn)

    def _take(self, tx: Tx) -> str | None:
        """A lease that this process holds already is one that an earlier pass couldn't give back."""
        holder = tx.conn.execute(select(table.c.lock_owner).where(table.c.id == self.id)).scalar()
        return leases.take(tx, table, self.id, by_force=holder == str(tx.owner_epoch))

    def _finish(self, news: bool, tx: Tx) -> None:
        if news:
            block = self._block
            values = {"block_reason": block and block.reason, "block_fatal": bool(block and block.fatal)}
            tx.conn.execute(update(table).where(table.c.id == self.id).values(**values))
        if self._lease is not None:
            leases.release(tx, table, self.id, self._lease)

    def _read(self, conn: Connection) -> Deployment:
        found = deployments.get(conn, self.id)
        if found is None:
            raise LeaseLost
        return found

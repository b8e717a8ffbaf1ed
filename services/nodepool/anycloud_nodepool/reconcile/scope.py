"""One pool during one pass: its facts, its lease, and what the phases work with."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from anycloud_common.admission import Admissions
from anycloud_common.cipher import Cipher
from anycloud_common.clock import Clock
from anycloud_common.events import Event
from anycloud_common.holds import Owner, owners
from anycloud_common.kube import Foreign, KubeError
from anycloud_common.reconcile import Blocked, Outcome, Requeue
from anycloud_common.store import Store, Tx, leases
from sqlalchemy import Connection, select, update

from anycloud_nodepool.domain import status
from anycloud_nodepool.domain.attempts import Now
from anycloud_nodepool.domain.model import Attempt, NodeFact, Pool, Stage
from anycloud_nodepool.domain.nodes import Matched
from anycloud_nodepool.domain.ports import Clusters, ClusterUnavailable, Kubernetes, Ledger, LedgerRefused, View
from anycloud_nodepool.domain.sight import Sight
from anycloud_nodepool.reconcile.resources import Resources
from anycloud_nodepool.store import attempts, events, pools, sights
from anycloud_nodepool.store.attempts import Sealed
from anycloud_nodepool.store.tables import POOL, PREFIX

log = logging.getLogger(__name__)

AT_ONCE = 32  # outside calls of one pass at a time
REFUSED_RETRY_S = 30.0
RETRY_S = 2.0

T = TypeVar("T")
U = TypeVar("U")

Failure = KubeError | Foreign | ClusterUnavailable | LedgerRefused
FAILURES = (KubeError, Foreign, ClusterUnavailable, LedgerRefused)

# Columns whose change others have to hear of.
_PUBLISHED = ("state", "ready_count", "namespace_uid", "policy_uid", "namespace_error", "deleted_at")


class LeaseLost(Exception):
    """Somebody else works on the pool now; what this pass found out is dropped."""


@dataclass
class Tools:
    """What every pass works with."""

    store: Store
    kube: Kubernetes
    view: View
    ledger: Ledger
    resources: Resources
    clusters: Clusters
    admissions: Admissions
    cipher: Cipher
    clock: Clock
    sight: Sight
    incarnation: str


@dataclass
class Facts:
    """What a pass begins with."""

    pool: Pool
    attempts: list[Attempt]
    owners: list[Owner]


def load(conn: Connection, pool_id: str) -> Facts | None:
    pool = pools.get(conn, pool_id)
    if pool is None:
        return None
    return Facts(pool, attempts.of_pool(conn, pool_id), owners(conn, PREFIX, pools.KIND, pool_id))


@dataclass
class Findings:
    """What a pass has to say in the end: `diagnoses` make the pool failed, `notes` are shown only."""

    diagnoses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    mismatched: dict[str, NodeFact] = field(default_factory=dict)  # by attempt
    without_devices: list[NodeFact] = field(default_factory=list)


@dataclass(frozen=True)
class _Batch:
    """What one transaction of a pass stores."""

    changed: Sequence[Attempt]
    values: Mapping[str, object]
    events: Sequence[Event]
    more: Callable[[Tx], None] | None
    seen_ms: int


class Scope:
    """The lease is taken with the first write, so a pass that finds nothing to do writes nothing."""

    def __init__(self, tools: Tools, facts: Facts) -> None:
        self.tools = tools
        self.pool = facts.pool
        self.owners = facts.owners
        self.findings = Findings()
        self.now = Now(tools.clock.now_ms(), tools.sight.look(tools.view.synced))
        self.sighted = tools.view.synced
        self.matched = Matched({}, [], [])
        self.network_ready = False
        self._attempts = {attempt.id: attempt for attempt in facts.attempts}
        self._stored_pool = facts.pool
        self._stored = dict(self._attempts)
        self._events: list[Event] = []
        self._lease: str | None = None

    @property
    def id(self) -> str:
        return self.pool.id

    @property
    def attempts(self) -> list[Attempt]:
        """In the order of issue."""
        return list(self._attempts.values())

    def put(self, attempt: Attempt) -> None:
        """The attempt as it is known now; `flush` stores it."""
        self._attempts[attempt.id] = attempt

    def tell(self, reason: str, message: str = "") -> None:
        """An event, stored with the next `flush`."""
        self._events.append(Event(reason, message))

    async def add(self, made: Sequence[tuple[Attempt, Sealed]]) -> None:
        """Commits new attempts, with whatever else is to be stored."""
        for attempt, _ in made:
            self._attempts[attempt.id] = self._stored[attempt.id] = attempt
        await self.flush(lambda tx: attempts.insert_all(tx, made))

    async def flush(self, more: Callable[[Tx], None] | None = None) -> None:
        """Commits what became known. Raises LeaseLost."""
        changed = [
            attempt
            for attempt in self._attempts.values()
            if (stored := self._stored[attempt.id]) is not attempt and stored != attempt
        ]
        values = pools.changes(self._stored_pool, self.pool)
        if not (changed or values or self._events or more):
            return
        batch = _Batch(changed, values, self._events, more, self.tools.sight.seen_ms)
        self._events = []
        await self.tools.store.write(partial(self._write, batch))
        self.tools.sight.stored(batch.seen_ms)
        self._stored.update((attempt.id, attempt) for attempt in changed)
        self._stored_pool = self.pool

    async def each(
        self, items: Iterable[T], work: Callable[[T], Awaitable[U]]
    ) -> tuple[list[tuple[T, U]], list[Failure]]:
        """Does an outside call for each item, several at once: results by item, and the errors of the others."""
        slots = asyncio.Semaphore(AT_ONCE)
        done: list[tuple[T, U]] = []
        failures: list[Failure] = []

        async def one(item: T) -> None:
            async with slots:
                try:
                    done.append((item, await work(item)))
                except FAILURES as failure:
                    failures.append(failure)

        async with asyncio.TaskGroup() as group:
            for item in items:
                group.create_task(one(item))
        return done, failures

    def trouble(self, failure: Failure) -> Outcome:
        """What an outside error means for the pool: to be tried again soon, or a diagnosis for a person."""
        if isinstance(failure, Foreign):
            text = f"{failure}. Remove it with `{failure.remedy}`."
            return self.diagnose(text)
        if isinstance(failure, LedgerRefused):
            return self.diagnose(str(failure))
        if isinstance(failure, KubeError) and failure.reason == "forbidden":
            return self.diagnose(
                f"The cluster denies Anycloud the permission to {failure.verb} {failure.resource}: {failure}"
            )
        if isinstance(failure, KubeError) and failure.reason == "invalid":
            return self.diagnose(f"The cluster refuses a request: {failure}")
        log.info("to be tried again", extra={"pool": self.id, "reason": str(failure)})
        if isinstance(failure, KubeError) and failure.reason != "conflict":
            self.findings.notes.append(f"cluster unavailable: {failure}")
        return Requeue(max(RETRY_S, failure.retry_after if isinstance(failure, KubeError) else 0.0))

    def diagnose(self, text: str) -> Outcome:
        self.findings.diagnoses.append(text)
        return Blocked(text, REFUSED_RETRY_S)

    async def finish(self, more: Callable[[Tx], None] | None = None) -> None:
        """Stores the state that the pool is in now, if it is news, with `more`, and gives the lease back."""
        tally = status.counts(self.attempts, frozenset(self.findings.mismatched))
        before = self.pool.state
        self.pool = status.conclude(self.pool, tally, self.findings.diagnoses, self.findings.notes)
        if self.pool.state != before:
            self.tell(f"state-{self.pool.state}", self.pool.last_error or "")
        await self.flush(more)
        if self._lease is not None:
            lease, self._lease = self._lease, None
            await self.tools.store.write(lambda tx: leases.release(tx, POOL, self.id, lease))

    def _write(self, batch: _Batch, tx: Tx) -> None:
        self._hold(tx, batch.values)
        if batch.changed:
            attempts.update_all(tx, batch.changed)
        if batch.more is not None:
            batch.more(tx)
        events.append(tx, self.id, batch.events)
        sights.write(tx, batch.seen_ms)
        ended = any(attempt.stage is Stage.RELEASED for attempt in batch.changed)
        if ended or any(name in batch.values for name in _PUBLISHED):
            tx.change(pools.KIND, self.id)

    def _hold(self, tx: Tx, values: Mapping[str, object]) -> None:
        """Takes the lease, or proves that it still holds it, and writes the pool's row. A pass that began before the
        pool's deletion was asked for has lost it, too."""
        if self._lease is None:
            holder = tx.conn.execute(select(POOL.c.lock_owner).where(POOL.c.id == self.id)).scalar()
            # A lease of this process is one that an earlier pass couldn't give back.
            self._lease = leases.take(tx, POOL, self.id, by_force=holder == str(tx.owner_epoch))
        if self._lease is None:
            raise LeaseLost
        still = POOL.c.deletion_requested_at.is_not_distinct_from(self._stored_pool.deletion_requested_at)
        guarded = update(POOL).where(leases.guarded(POOL, self.id, self._lease), still)
        if tx.conn.execute(guarded.values(updated_at=tx.now, **values)).rowcount != 1:
            raise LeaseLost

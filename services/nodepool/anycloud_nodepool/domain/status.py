"""A pool's state, counts and last error: computed here only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from anycloud_nodepool.domain.model import Attempt, Counts, Loss, Pool, Stage, State


def counts(attempts: Iterable[Attempt], mismatched: frozenset[str] = frozenset()) -> Counts:
    """`mismatched`: attempts whose Nodes show a wrong number of devices; they are never counted."""
    ready = starting = draining = 0
    for attempt in attempts:
        if attempt.stage is Stage.DRAINING:
            draining += attempt.loss is not Loss.REFUSED  # then there is no VM
        elif attempt.working and attempt.id not in mismatched:
            ready += attempt.node_ready
            starting += not attempt.node_ready
    return Counts(ready, starting, draining)


def conclude(pool: Pool, tally: Counts, diagnoses: Sequence[str], notes: Sequence[str]) -> Pool:
    """The pool with its state. `diagnoses` make it failed until they are gone; `notes` are errors that time heals."""
    was_ready = pool.was_ready or tally.ready >= pool.vm_count
    errors = [pool.parked] if pool.parked else [*diagnoses, *notes]
    state = State.RUNNING if was_ready else State.CREATING
    if pool.parked or diagnoses:
        state = State.FAILED
    if pool.deletion_requested_at is not None:
        state = State.DELETING if pool.deleted_at is None else State.DELETED
        errors = [*notes]
    return replace(pool, was_ready=was_ready, counts=tally, state=state, last_error=errors[0] if errors else None)

"""A Deployment's queue at one moment, as offers are made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anycloud_deployment.domain.jobs import Candidate


@dataclass(frozen=True)
class Queue:
    """`slots` are Jobs at once in one Pod of revision `generation`; `held` counts them by Pod UID. `waiting` has the
    oldest Jobs that may be claimed now. All empty for a Deployment that gives out no Jobs."""

    generation: int
    slots: int
    held: Mapping[str, int]
    waiting: tuple[Candidate, ...]

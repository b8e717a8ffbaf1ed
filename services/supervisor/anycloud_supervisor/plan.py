"""An installation as data: which processes, in which order, and how each shows that it is ready."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

Probe = Callable[[], Awaitable[bool]]
"""Whether the process is ready now; one quick attempt, no waiting."""

Action = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class ProcessSpec:
    """One process. Secrets are in neither `argv` nor `env`: files carry them.

    A process without `ready` is a task: it has to end with exit code 0, once. `answers` is asked from time to time of a
    process that was ready; one that doesn't answer again and again hangs, and is killed. `before_stop` runs ahead of
    SIGTERM, and its failure doesn't hold up the end."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    ready: Probe | None
    start_seconds: float = 60.0
    stop_seconds: float = 15.0
    before_stop: Action | None = None
    answers: Probe | None = None


@dataclass(frozen=True)
class Step:
    """Processes that start together. The next step begins when all of them are ready and `then` is done."""

    processes: Sequence[ProcessSpec] = field(default_factory=tuple)
    then: Action | None = None

"""How fast the world moves."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """`delay` scales every wait that stands for a real one (0: none); a Node without a heartbeat for
    `lease_seconds` counts as lost."""

    delay: float = 1.0
    lease_seconds: float = 40.0

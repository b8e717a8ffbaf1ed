"""Revisions of the API's own release. Revision 1 is the installation; revision N + 1 is upgrade N."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"


@dataclass(frozen=True)
class Revision:
    """One recorded revision. Times are epoch ms."""

    number: int
    state: State
    api_version: str
    api_image: str
    chart_version: str
    last_error: str | None
    created_at: int
    updated_at: int

    @property
    def upgrade_number(self) -> int | None:
        """The N of "Upgrade N"; None for the installation itself."""
        return self.number - 1 if self.number > 1 else None

"""The outside world as release sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from anycloud_common.registry import Reference


@dataclass(frozen=True)
class Condition:
    """One condition of a Kubernetes Deployment, in Kubernetes' words."""

    type: str
    status: str
    reason: str | None
    message: str | None


@dataclass(frozen=True)
class Rollout:
    """What Kubernetes reports of the API's own Deployment."""

    replicas: int
    ready_replicas: int
    updated_replicas: int
    observed_generation: int | None
    conditions: tuple[Condition, ...]


class RolloutUnknown(Exception):
    """Kubernetes couldn't be read; says why in one sentence."""


class Rollouts(Protocol):
    async def read(self) -> Rollout | None:
        """The API's Deployment as it is now, None when there is none. Raises RolloutUnknown."""
        ...


@dataclass(frozen=True)
class Answer:
    """Rows of a query as JSON-able objects, and whether more matched than are given."""

    rows: list[dict[str, Any]]
    truncated: bool


class QueryRefused(Exception):
    """The statement isn't one that may run, or it failed; says why in one sentence."""


class Databases(Protocol):
    """The tables of all services, read only."""

    async def query(self, sql: str) -> Answer:
        """Runs one reading statement. Raises QueryRefused."""
        ...

    async def schema(self, table: str | None) -> list[TableSchema]:
        """All tables and views, or the one of that name; none when there is no such table."""
        ...


@dataclass(frozen=True)
class ColumnSchema:
    name: str
    type: str
    not_null: bool
    primary_key: bool
    default: str | None


@dataclass(frozen=True)
class ForeignKeySchema:
    column: str
    table: str
    references: str
    on_delete: str | None
    on_update: str | None


@dataclass(frozen=True)
class IndexSchema:
    name: str
    unique: bool


@dataclass(frozen=True)
class TableSchema:
    """A table or a view, without the columns that hold secrets."""

    name: str
    view: bool
    columns: tuple[ColumnSchema, ...]
    foreign_keys: tuple[ForeignKeySchema, ...]
    indexes: tuple[IndexSchema, ...]


@dataclass(frozen=True)
class PublishedImage:
    """What a registry has under a reference now. `version` is what the image says of itself, if it does."""

    digest: str
    version: str | None


class ImageMissing(Exception):
    """The registry has no such image."""


class ImagesUnknown(Exception):
    """The registry can't be asked now; says why in one sentence."""


class Images(Protocol):
    """The registry of the API's image."""

    async def published(self, named: Reference) -> PublishedImage | None:
        """None where this API has no way to a registry. Raises ImageMissing or ImagesUnknown."""
        ...

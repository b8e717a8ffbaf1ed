"""Pages of lists. The values by which a list is ordered name a row's place in it, and those of the last row shown are
the cursor: what is added or removed meanwhile neither repeats nor hides another row."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import orjson
from sqlalchemy import Column, Connection, Row, Select, func, tuple_

from anycloud_common.rest import Invalid

T = TypeVar("T")
U = TypeVar("U")
Place = tuple[Any, ...]
_LONGEST = 1024


@dataclass(frozen=True)
class Page:
    """What is asked for: as many rows at most (None: all), of those behind `cursor` (None: from the start)."""

    limit: int | None = None
    cursor: str | None = None


WHOLE: Final = Page()


@dataclass(frozen=True)
class Listed(Generic[T]):
    """`total` counts the list's rows on all pages; `next_cursor` is None on the last one."""

    items: list[T]
    total: int = 0
    next_cursor: str | None = None

    def each(self, make: Callable[[T], U]) -> Listed[U]:
        """The same page with something else in the place of each item."""
        return Listed([make(item) for item in self.items], self.total, self.next_cursor)


@dataclass(frozen=True)
class Source:
    """Where rows come from. All columns of `order` descend, and no two rows have the same values in them."""

    rows: Select[Any]
    order: Sequence[Column[Any]]


class Request(Protocol):
    """The part of a request message that is alike in all lists."""

    @property
    def limit(self) -> int: ...

    @property
    def cursor(self) -> str: ...

    def HasField(self, field_name: Any, /) -> bool: ...


def asked(request: Request, usual: int | None = None) -> Page:
    """The page of a request, of `usual` rows when it doesn't say how many."""
    limit = request.limit if request.HasField("limit") else usual
    return Page(limit, request.cursor if request.HasField("cursor") else None)


def read(conn: Connection, sources: Sequence[Source], page: Page, make: Callable[[Row[Any]], T]) -> Listed[T]:
    """One page of a list; rows of several sources are merged by their order, whose columns are then of the same types.

    Raises Invalid for a cursor that no such list gave.
    """
    after = None if page.cursor is None else _place(page.cursor, sources[0].order)
    found = [
        (tuple(row._mapping[column.name] for column in source.order), row)
        for source in sources
        for row in conn.execute(_statement(source, after, page.limit))
    ]
    if len(sources) > 1:
        found.sort(key=lambda one: one[0], reverse=True)
    shown = found[: page.limit]
    more = len(shown) < len(found)
    return Listed(
        items=[make(row) for _, row in shown],
        total=_total(conn, sources) if more or after is not None else len(shown),
        next_cursor=_cursor(shown[-1][0]) if more else None,
    )


def _statement(source: Source, after: Place | None, limit: int | None) -> Select[Any]:
    statement = source.rows.order_by(*(column.desc() for column in source.order))
    if after is not None:
        statement = statement.where(tuple_(*source.order) < tuple_(*after))
    return statement if limit is None else statement.limit(limit + 1)


def _total(conn: Connection, sources: Sequence[Source]) -> int:
    counts = [source.rows.with_only_columns(func.count(), maintain_column_froms=True) for source in sources]
    return sum(conn.execute(count).scalar_one() for count in counts)


def _cursor(place: Place) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(place)).rstrip(b"=").decode()


def _place(cursor: str, order: Sequence[Column[Any]]) -> Place:
    try:
        padded = cursor[:_LONGEST] + "=" * (-len(cursor) % 4)
        values = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except ValueError:
        values = None
    if not isinstance(values, list) or [type(value) for value in values] != [c.type.python_type for c in order]:
        raise Invalid("is none that this list gave", "cursor")
    if any(type(value) is int and abs(value) >= 2**63 for value in values):
        raise Invalid("is none that this list gave", "cursor")
    return tuple(values)

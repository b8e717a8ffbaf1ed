"""Pages of lists. The values by which a list is ordered name a row's place in it, and those of the last row shown are
the cursor: what is added or removed meanwhile neither repeats nor hides another row."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, Generic, Protocol, TypeVar

import orjson
from sqlalchemy import Column, ColumnElement, Connection, Row, Select, bindparam, func, select, tuple_

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


class Source:
    """Where rows come from. All columns of `order` descend, and no two rows have the same values in them.

    It keeps the statements of its pages, as making one costs more than running it: sources that live on, with
    parameters (`bindparam`) for what differs from list to list, are the fast ones.
    """

    def __init__(
        self, rows: Select[Any], order: Sequence[Column[Any]], hidden: ColumnElement[bool] | None = None
    ) -> None:
        """hidden: the rows of the table that `rows` leaves out, where these are few and everything else is in it; then
        the list is counted without looking at each of its rows."""
        self.order = order
        self._hidden = hidden
        self._rows = rows
        self._pages: dict[tuple[bool, bool], Select[Any]] = {}

    def page(self, *, behind: bool, limited: bool) -> Select[Any]:
        """From the start, or from behind the place of the parameters `place_0`, …; all rows, or `page_limit`."""
        known = self._pages.get((behind, limited))
        if known is None:
            known = self._pages[behind, limited] = self._page(behind, limited)
        return known

    @cached_property
    def count(self) -> Select[Any]:
        if self._hidden is not None:
            everything = select(func.count()).select_from(*self._rows.get_final_froms())
            few = everything.where(self._hidden)
            return select(everything.scalar_subquery() - few.scalar_subquery())
        return self._rows.with_only_columns(func.count(), maintain_column_froms=True)

    def _page(self, behind: bool, limited: bool) -> Select[Any]:
        statement = self._rows.order_by(*(column.desc() for column in self.order))
        if behind:
            place = (bindparam(f"place_{n}", type_=column.type) for n, column in enumerate(self.order))
            statement = statement.where(tuple_(*self.order) < tuple_(*place))
        return statement.limit(bindparam("page_limit")) if limited else statement


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


def read(
    conn: Connection,
    sources: Sequence[Source],
    page: Page,
    make: Callable[[Row[Any]], T],
    values: Mapping[str, Any] | None = None,
) -> Listed[T]:
    """One page of a list; rows of several sources are merged by their order, whose columns are then of the same types.
    `values` are those of the sources' own parameters.

    Raises Invalid for a cursor that no such list gave.
    """
    given = dict(values or {})
    behind, limited = page.cursor is not None, page.limit is not None
    asked = dict(given)
    if page.cursor is not None:
        asked |= {f"place_{n}": value for n, value in enumerate(_place(page.cursor, sources[0].order))}
    if page.limit is not None:
        asked["page_limit"] = page.limit + 1
    found: list[tuple[Place, Row[Any]]] = []
    for source in sources:
        rows = conn.execute(source.page(behind=behind, limited=limited), asked)
        keys = list(rows.keys())
        place = itemgetter(*(keys.index(column.name) for column in source.order))
        found += [(place(row), row) for row in rows]
    if len(sources) > 1:
        found.sort(key=lambda one: one[0], reverse=True)
    shown = found[: page.limit]
    more = len(shown) < len(found)
    return Listed(
        items=[make(row) for _, row in shown],
        total=sum(conn.execute(one.count, given).scalar_one() for one in sources) if more or behind else len(shown),
        next_cursor=_cursor(shown[-1][0]) if more else None,
    )


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

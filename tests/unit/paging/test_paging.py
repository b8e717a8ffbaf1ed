"""Pages of lists, against the whole list."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from anycloud_common import paging
from anycloud_common.paging import Listed, Page, Source
from anycloud_common.rest import Invalid
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import BigInteger, Column, Connection, MetaData, Table, Text, create_engine, insert, select

METADATA = MetaData()


def table(name: str) -> Table:
    return Table(
        name, METADATA, Column("id", Text, primary_key=True), Column("made", BigInteger), Column("owner", Text)
    )


NEW, OLD = table("new"), table("old")
SOURCES = [Source(select(t), (t.c.made, t.c.id)) for t in (NEW, OLD)]
OF_ANNE = [Source(select(t).where(t.c.owner == "anne"), (t.c.made, t.c.id)) for t in (NEW, OLD)]
Rows = list[tuple[int, str]]


@pytest.fixture
def conn() -> Iterator[Connection]:
    with opened() as made:
        yield made


def opened() -> Connection:
    engine = create_engine("sqlite://")
    METADATA.create_all(engine)
    return engine.connect()


def add(conn: Connection, rows: Rows, into: Table = NEW, owner: str = "anne") -> None:
    for made, row_id in rows:
        conn.execute(insert(into).values(id=row_id, made=made, owner=owner))


def ids(conn: Connection, sources: list[Source], **page: Any) -> Listed[str]:
    return paging.read(conn, sources, Page(**page), lambda row: str(row.id))


def walk(conn: Connection, limit: int, sources: list[Source]) -> Iterator[Listed[str]]:
    page = ids(conn, sources, limit=limit)
    yield page
    while page.next_cursor is not None:
        page = ids(conn, sources, limit=limit, cursor=page.next_cursor)
        yield page


@settings(max_examples=50, deadline=None)
@given(times=st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), max_size=12), limit=st.integers(1, 5))
def test_the_pages_together_are_the_list_newest_first(times: list[tuple[int, bool, bool]], limit: int) -> None:
    with opened() as conn:
        for number, (made, is_old, of_anne) in enumerate(times):
            add(conn, [(made, f"id-{number:02}")], OLD if is_old else NEW, "anne" if of_anne else "bert")
        for sources in (SOURCES, OF_ANNE, SOURCES[:1]):
            whole = ids(conn, sources)
            assert whole.total == len(whole.items)
            assert whole.next_cursor is None
            pages = list(walk(conn, limit, sources))
            assert [item for page in pages for item in page.items] == whole.items
            assert {page.total for page in pages} == {whole.total}
            assert all(len(page.items) == limit for page in pages[:-1])
        every = sorted(((made, f"id-{n:02}") for n, (made, _, _) in enumerate(times)), reverse=True)
        assert ids(conn, SOURCES).items == [row_id for _, row_id in every]


def test_what_is_added_or_removed_meanwhile_moves_no_other_row(conn: Connection) -> None:
    add(conn, [(1, "a"), (2, "b"), (3, "c"), (4, "d")])
    first = ids(conn, SOURCES, limit=2)
    assert first.items == ["d", "c"]
    add(conn, [(5, "e")])
    conn.execute(NEW.delete().where(NEW.c.id == "c"))  # the very row that the cursor names
    assert ids(conn, SOURCES, limit=2, cursor=first.next_cursor).items == ["b", "a"]


def test_a_row_that_moves_to_the_other_source_keeps_its_place(conn: Connection) -> None:
    add(conn, [(1, "a"), (2, "b"), (3, "c")])
    first = ids(conn, SOURCES, limit=1)
    conn.execute(NEW.delete().where(NEW.c.id == "b"))
    add(conn, [(2, "b")], OLD)
    assert ids(conn, SOURCES, limit=1, cursor=first.next_cursor).items == ["b"]


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "ö", "a" * 5000, "a b", "=" * 8, "/+/+", "\0"]
    + [encoded(text) for text in ("{}", "null", "[]", '["a",1]', '[1,"a",2]', "[true,1]", '[1.0,"a"]')]
    + [encoded(text) for text in (f'[{2**63},"a"]', f'[{-(2**63)},"a"]', f'[{10**30},"a"]', '[1,"a"', "[[1],{}]")],
)
def test_a_cursor_that_the_list_did_not_give_is_refused(conn: Connection, cursor: str) -> None:
    with pytest.raises(Invalid, match="cursor: is none that this list gave"):
        ids(conn, SOURCES, cursor=cursor)


def test_a_cursor_is_fit_for_a_url(conn: Connection) -> None:
    add(conn, [(1, "ö/?&#"), (2, "~~~"), (3, "c")])
    cursor = ids(conn, SOURCES, limit=2).next_cursor
    assert cursor is not None
    assert cursor.replace("-", "").replace("_", "").isalnum()

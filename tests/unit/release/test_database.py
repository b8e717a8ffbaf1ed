"""`/v1/database`: reads everything but secrets, writes nothing, ends in time."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from anycloud_release.domain.ports import QueryRefused
from anycloud_release.gateways import databases
from anycloud_release.gateways.databases import SqliteDatabases

MARKER = "sekret-5f1c"


@pytest.fixture
def reader(tmp_path: Path) -> SqliteDatabases:
    files = {"cluster": tmp_path / "cluster.sqlite", "nodepool": tmp_path / "nodepool.sqlite"}
    with sqlite3.connect(files["cluster"]) as conn:
        conn.execute("CREATE TABLE cluster_credential (name TEXT PRIMARY KEY, sealed BLOB NOT NULL, made BIGINT)")
        conn.execute("INSERT INTO cluster_credential VALUES ('aws', ?, 9007199254740993)", (MARKER.encode(),))
    with sqlite3.connect(files["nodepool"]) as conn:
        conn.execute("CREATE TABLE nodepool_pool (id TEXT NOT NULL, credential TEXT DEFAULT 'aws')")
        conn.executemany("INSERT INTO nodepool_pool (id) VALUES (?)", [(f"np-{n}",) for n in range(20_000)])
        conn.execute("CREATE UNIQUE INDEX nodepool_pool_id ON nodepool_pool (id)")
        conn.execute("CREATE VIEW nodepool_newest AS SELECT max(id) AS id FROM nodepool_pool")
    return SqliteDatabases({**files, "release": tmp_path / "absent.sqlite"})


async def test_a_query_joins_tables_of_two_services(reader: SqliteDatabases) -> None:
    sql = "SELECT p.id, c.name FROM nodepool_pool p JOIN cluster_credential c ON c.name = p.credential LIMIT 1"
    answer = await reader.query(sql)
    assert answer.rows == [{"id": "np-0", "name": "aws"}]
    assert not answer.truncated


async def test_an_integer_beyond_what_json_holds_is_text(reader: SqliteDatabases) -> None:
    assert (await reader.query("SELECT made FROM cluster_credential")).rows == [{"made": "9007199254740993"}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM cluster_credential",
        "SELECT hex(sealed) AS x FROM cluster_credential",
        "WITH t AS (SELECT sealed FROM cluster_credential) SELECT CAST(sealed AS TEXT) AS x FROM t",
        "SELECT group_concat(cluster_credential.sealed) AS x FROM cluster_credential",
    ],
)
@pytest.mark.req("SC-006")
async def test_a_stored_secret_reads_as_null_however_it_is_asked_for(reader: SqliteDatabases, sql: str) -> None:
    text = str((await reader.query(sql)).rows)
    assert MARKER not in text
    assert MARKER.encode().hex().upper() not in text.upper()


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM nodepool_pool",
        "INSERT INTO nodepool_pool (id) VALUES ('x')",
        "CREATE TEMP TABLE t AS SELECT 1",
        "ATTACH 'other.sqlite' AS other",
        "PRAGMA journal_mode=DELETE",
        "PRAGMA nodepool.user_version=3",
        "SELECT load_extension('x')",
        "BEGIN",
        "VACUUM INTO 'copy.sqlite'",
    ],
)
async def test_a_statement_that_does_more_than_read_is_refused(
    reader: SqliteDatabases, tmp_path: Path, sql: str
) -> None:
    with pytest.raises(QueryRefused, match="sql: "):
        await reader.query(sql)
    with sqlite3.connect(tmp_path / "nodepool.sqlite") as conn:
        assert conn.execute("SELECT count(*) FROM nodepool_pool").fetchone() == (20_000,)


@pytest.mark.parametrize("sql", ["SELEC 1", "SELECT nothing FROM nodepool_pool", "SELECT 1; SELECT 2"])
async def test_a_broken_statement_is_refused_with_one_sentence(reader: SqliteDatabases, sql: str) -> None:
    with pytest.raises(QueryRefused, match=r"^sql: [^\n]+\.$"):
        await reader.query(sql)


async def test_more_than_ten_thousand_rows_are_cut_and_say_so(reader: SqliteDatabases) -> None:
    answer = await reader.query("SELECT id FROM nodepool_pool")
    assert len(answer.rows) == 10_000
    assert answer.truncated


async def test_rows_that_one_answer_cannot_carry_are_cut_and_say_so(reader: SqliteDatabases) -> None:
    answer = await reader.query("SELECT id, printf('%.*c', 1000000, 'x') AS long FROM nodepool_pool")
    assert len(answer.rows) == 4
    assert answer.truncated


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT zeroblob(100000000)",
        "SELECT hex(zeroblob(3000000))",
        "SELECT printf('%.*c', 3000000, 'x') AS a, printf('%.*c', 3000000, 'x') AS b",
    ],
)
async def test_what_is_too_large_for_any_answer_is_refused_at_once(reader: SqliteDatabases, sql: str) -> None:
    with pytest.raises(QueryRefused, match=r"too big|larger than 4 MiB"):
        await reader.query(sql)


async def test_an_endless_statement_is_stopped(reader: SqliteDatabases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "MAX_SECONDS", 0.0)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(QueryRefused, match="was stopped after 0 seconds"):
        await reader.query(endless)


async def test_the_schema_lists_tables_and_views_without_secret_columns(reader: SqliteDatabases) -> None:
    tables = {t.name: t for t in await reader.schema(None)}
    assert list(tables) == ["cluster_credential", "nodepool_newest", "nodepool_pool"]
    assert [c.name for c in tables["cluster_credential"].columns] == ["name", "made"]
    assert tables["nodepool_newest"].view
    assert [(i.name, i.unique) for i in tables["nodepool_pool"].indexes] == [("nodepool_pool_id", True)]
    assert tables["nodepool_pool"].columns[1].default == "'aws'"


async def test_the_schema_of_one_table_is_that_table_or_nothing(reader: SqliteDatabases) -> None:
    assert [t.name for t in await reader.schema("nodepool_pool")] == ["nodepool_pool"]
    assert await reader.schema("absent") == []

"""Reads the SQLite files of all services through one connection that can't write and can't see secrets.

Release is the one service that may read the others' tables (for `/v1/database` and for backups). Whatever is secret is
stored as bytes (sealed values, hashes of tokens), so a column of type BLOB is never shown: SQLite itself answers NULL.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from anycloud_release.domain.ports import (
    Answer,
    ColumnSchema,
    ForeignKeySchema,
    IndexSchema,
    QueryRefused,
    TableSchema,
)

MAX_ROWS: Final = 10_000
MAX_BYTES: Final = 4 << 20  # of all values together, as they are stored; one answer carries 16 MiB
MAX_SECONDS: Final = 5.0
_EXACT: Final = 2**53 - 1  # a JSON number is exact up to here
_READING_PRAGMAS: Final = frozenset({"table_info", "table_list", "index_list", "index_info", "foreign_key_list"})
_SQLITE_RECURSIVE: Final = 33  # authorizer code that the module has no name for


class SqliteDatabases:
    """`files` maps a service to its database; a file that isn't there yet is left out."""

    def __init__(self, files: dict[str, Path]) -> None:
        self._files = files

    async def query(self, sql: str) -> Answer:
        return await asyncio.to_thread(self._query, sql)

    async def schema(self, table: str | None) -> list[TableSchema]:
        return await asyncio.to_thread(self._schema, table)

    def _query(self, sql: str) -> Answer:
        with self._open() as (conn, services):
            conn.set_authorizer(_reading_only(_secret_columns(conn, services)))
            conn.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_BYTES)  # of one value, also while it is being made
            started = time.monotonic()
            conn.set_progress_handler(lambda: time.monotonic() - started > MAX_SECONDS, 10_000)
            try:
                with closing(conn.execute(sql)) as cursor:
                    if cursor.description is None:
                        raise QueryRefused(
                            "sql: must be a statement that answers rows (SELECT, WITH, EXPLAIN, PRAGMA)."
                        )
                    names = [column[0] for column in cursor.description]
                    found, truncated = _bounded(cursor, sum(map(len, names)))
            except sqlite3.Error as e:
                raise QueryRefused(_reason(e)) from None
        return Answer([dict(zip(names, map(_plain, row), strict=True)) for row in found], truncated)

    def _schema(self, wanted: str | None) -> list[TableSchema]:
        with self._open() as (conn, services):
            return [
                _table(conn, service, name, kind)
                for service in services
                for name, kind in _tables(conn, service)
                if wanted is None or name == wanted
            ]

    @contextmanager
    def _open(self) -> Iterator[tuple[sqlite3.Connection, list[str]]]:
        """One connection on all files, and the names under which they are attached."""
        with closing(sqlite3.connect(":memory:", uri=True, isolation_level=None)) as conn:
            services = [service for service, path in self._files.items() if path.exists()]
            for service in services:
                conn.execute(f"ATTACH ? AS {service}", (f"{self._files[service].as_uri()}?mode=ro",))
            yield conn, services


def _tables(conn: sqlite3.Connection, service: str) -> list[tuple[str, str]]:
    statement = (
        f"SELECT name, type FROM {service}.sqlite_master "  # noqa: S608 - a service's name is ours
        "WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name"
    )
    return conn.execute(statement).fetchall()


def _pragma(conn: sqlite3.Connection, service: str, pragma: str, of: str) -> Sequence[sqlite3.Row]:
    cursor = conn.cursor()
    cursor.row_factory = sqlite3.Row
    quoted = of.replace('"', '""')
    return cursor.execute(f'PRAGMA {service}.{pragma}("{quoted}")').fetchall()


def _is_secret(column: sqlite3.Row) -> bool:
    return "BLOB" in column["type"].upper() or "BINARY" in column["type"].upper()


def _secret_columns(conn: sqlite3.Connection, services: list[str]) -> frozenset[tuple[str, str]]:
    return frozenset(
        (table, column["name"])
        for service in services
        for table, _ in _tables(conn, service)
        for column in _pragma(conn, service, "table_info", table)
        if _is_secret(column)
    )


def _reading_only(secret: frozenset[tuple[str, str]]) -> Callable[..., int]:
    def authorize(action: int, first: str | None, second: str | None, *_: object) -> int:
        if action == sqlite3.SQLITE_READ:
            return sqlite3.SQLITE_IGNORE if (first, second) in secret else sqlite3.SQLITE_OK
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, _SQLITE_RECURSIVE):
            return sqlite3.SQLITE_DENY if second == "load_extension" else sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and first in _READING_PRAGMAS:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    return authorize


def _bounded(rows: Iterable[tuple[Any, ...]], names: int) -> tuple[list[tuple[Any, ...]], bool]:
    """The rows that one answer can carry, and whether there are more. `names`: characters that each row has besides."""
    taken: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        size += names + sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
        if size > MAX_BYTES and not taken:
            raise QueryRefused(f"sql: its first row is larger than {MAX_BYTES >> 20} MiB.")
        if size > MAX_BYTES or len(taken) == MAX_ROWS:
            return taken, True
        taken.append(row)
    return taken, False


def _reason(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "")  # the module's own errors have none
    if name == "SQLITE_AUTH":
        return "sql: must be a statement that only reads (SELECT, WITH, EXPLAIN, PRAGMA)."
    if name == "SQLITE_INTERRUPT":
        return f"sql: the statement was stopped after {MAX_SECONDS:g} seconds."
    return f"sql: {str(error).rstrip('.')}."


def _plain(value: Any) -> Any:
    """A value as JSON has it: bytes as hexadecimal text, and integers that a JSON number can't hold as text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int) and abs(value) > _EXACT:
        return str(value)
    return value


def _table(conn: sqlite3.Connection, service: str, name: str, kind: str) -> TableSchema:
    columns = tuple(
        ColumnSchema(c["name"], c["type"], bool(c["notnull"]), bool(c["pk"]), c["dflt_value"])
        for c in _pragma(conn, service, "table_info", name)
        if not _is_secret(c)
    )
    foreign_keys = tuple(
        ForeignKeySchema(f["from"], f["table"], f["to"], f["on_delete"], f["on_update"])
        for f in _pragma(conn, service, "foreign_key_list", name)
    )
    indexes = tuple(IndexSchema(i["name"], bool(i["unique"])) for i in _pragma(conn, service, "index_list", name))
    return TableSchema(name, kind == "view", columns, foreign_keys, indexes)

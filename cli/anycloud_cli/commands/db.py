"""`anycloud db`: the active API's database, read-only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from anycloud_cli.client import path
from anycloud_cli.groups import AliasGroup
from anycloud_cli.options import json_option
from anycloud_cli.output import one_line, table
from anycloud_cli.session import Session, pass_session


@click.group(cls=AliasGroup)
def db() -> None:
    """Read the active API's database."""


@db.command()
@click.argument("table_name", metavar="[TABLE]", required=False)
@json_option
@pass_session
def schema(session: Session, table_name: str | None) -> None:
    """Show tables and views, or one of them."""
    answer = session.api.get(path("database", "schema"), {"table": table_name})
    session.out.result(answer, list(_schema(answer["tables"])))


@db.command()
@click.argument("sql")
@json_option
@pass_session
def query(session: Session, sql: str) -> None:
    """Run one SELECT, WITH, EXPLAIN or PRAGMA."""
    answer = session.api.request("POST", path("database", "queries"), body={"sql": sql})
    session.out.result(answer, _rows(answer["rows"]))
    if answer["truncated"]:
        session.out.note(f"Only the first {answer['rowCount']} rows are shown; narrow the query with WHERE or LIMIT.")


def _schema(tables: list[dict[str, Any]]) -> Iterator[str]:
    for number, described in enumerate(tables):
        if number:
            yield ""
        yield f"{described['type']} {described['name']}"
        yield from ("  " + line for line in table(("COLUMN", "TYPE", ""), map(_column, described["columns"])))
        for key in described.get("foreignKeys", ()):
            yield f"  {key['column']} -> {key['references']['table']}.{key['references']['column']}"
        for index in described.get("indexes", ()):
            yield f"  {'unique ' if index.get('unique') else ''}index {index['name']}"


def _column(column: dict[str, Any]) -> tuple[str, str, str]:
    marks = [
        "primary key" if column.get("primaryKey") else "",
        "not null" if column.get("notNull") else "",
        f"default {column['defaultValue']}" if "defaultValue" in column else "",
    ]
    return column["name"], column["type"], ", ".join(mark for mark in marks if mark)


def _rows(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return ["No rows."]
    return table(list(rows[0]), ([_cell(value) for value in row.values()] for row in rows))


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

"""The database as its users may read it: no writes, no secrets, a bound on time and rows."""

from __future__ import annotations

import math
from typing import Any

from anycloud_common.errors import ApiError
from anycloudapi.release.v1 import release_pb2, release_pb2_grpc
from google.protobuf import struct_pb2

from anycloud_release.domain.ports import ColumnSchema, Databases, ForeignKeySchema, QueryRefused, TableSchema


class DatabaseServicer(release_pb2_grpc.DatabaseServicer):
    def __init__(self, databases: Databases) -> None:
        self._databases = databases

    async def GetDatabaseSchema(
        self, request: release_pb2.GetDatabaseSchemaRequest, context: Any
    ) -> release_pb2.DatabaseSchema:
        wanted = request.table if request.HasField("table") else None
        return release_pb2.DatabaseSchema(tables=[_table(t) for t in await self._databases.schema(wanted)])

    async def QueryDatabase(self, request: release_pb2.QueryDatabaseRequest, context: Any) -> release_pb2.QueryResult:
        try:
            answer = await self._databases.query(request.query.sql)
        except QueryRefused as e:
            raise ApiError("DB_QUERY_INVALID", str(e)) from e
        result = release_pb2.QueryResult(row_count=len(answer.rows), truncated=answer.truncated)
        for row in answer.rows:
            cells = result.rows.add().cells
            for name, value in row.items():
                cells.add(name=name, value=_value(value))
        return result


def _value(value: Any) -> struct_pb2.Value:
    match value:
        case None:
            return struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
        case str():
            return struct_pb2.Value(string_value=value)
        case float() if not math.isfinite(value):  # JSON has no such number
            return struct_pb2.Value(string_value="Infinity" if value > 0 else "-Infinity")
        case _:
            return struct_pb2.Value(number_value=value)


def _table(table: TableSchema) -> release_pb2.DatabaseSchema.Table:
    kind = release_pb2.DatabaseSchema.Table
    return kind(
        name=table.name,
        type=kind.TYPE_VIEW if table.view else kind.TYPE_TABLE,
        columns=[_column(c) for c in table.columns],
        foreign_keys=[_foreign_key(f) for f in table.foreign_keys],
        indexes=[release_pb2.DatabaseSchema.Index(name=i.name, unique=i.unique) for i in table.indexes],
    )


def _column(column: ColumnSchema) -> release_pb2.DatabaseSchema.Column:
    return release_pb2.DatabaseSchema.Column(
        name=column.name,
        type=column.type,
        not_null=column.not_null,
        primary_key=column.primary_key,
        default_value=column.default,
    )


def _foreign_key(key: ForeignKeySchema) -> release_pb2.DatabaseSchema.ForeignKey:
    return release_pb2.DatabaseSchema.ForeignKey(
        column=key.column,
        references=release_pb2.DatabaseSchema.References(table=key.table, column=key.references),
        on_delete=key.on_delete,
        on_update=key.on_update,
    )

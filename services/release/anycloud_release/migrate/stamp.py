"""The mark in the release database of which build served this data last: an older one must not touch it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from anycloud_release.migrate.database import has_table, reading
from anycloud_release.migrate.errors import MigrationError

TABLE = "release_stamp"  # one row: version TEXT, schema_version BIGINT; made by the release service's migrations


@dataclass(frozen=True)
class Stamp:
    version: str  # three numbers, such as 0.1.70
    schema_version: int

    def refuses(self, image: Stamp) -> bool:
        """Whether that build is older than the one that served this data."""
        return _numbers(image.version) < _numbers(self.version) or image.schema_version < self.schema_version


def read(database: Path) -> Stamp | None:
    """The stamp, or None where nothing was ever stamped. Raises MigrationError."""
    with reading(database, "release") as conn:
        if not has_table(conn, TABLE):
            return None
        row = conn.execute(f"SELECT version, schema_version FROM {TABLE}").fetchone()  # noqa: S608 - a constant
        return None if row is None else Stamp(str(row[0]), int(row[1]))


def write(database: Path, stamp: Stamp) -> None:
    """Replaces the stamp. Raises MigrationError."""
    try:
        with closing(sqlite3.connect(database)) as conn, conn:
            conn.execute("PRAGMA synchronous=FULL")
            conn.execute(f"DELETE FROM {TABLE}")  # noqa: S608 - a constant
            values = (stamp.version, stamp.schema_version)
            conn.execute(f"INSERT INTO {TABLE} (version, schema_version) VALUES (?, ?)", values)  # noqa: S608
    except sqlite3.Error as error:
        raise MigrationError(f"The release database at {database} can't be stamped: {error}.") from error


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))

"""One service's database file as the migrator sees it: its revision, its migration, its difference from the code.

Alembic is imported at first use: an installation that is up to date, as at nearly every start, never needs it.
"""

from __future__ import annotations

import re
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anycloud_common.store import heads
from anycloud_common.store.errors import StoreOpenError

from anycloud_release.migrate.errors import MigrationError

if TYPE_CHECKING:
    from sqlalchemy import Connection, MetaData


def create_empty(path: Path) -> None:
    """Makes a database file without tables."""
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA journal_mode=WAL")
        conn.execute("PRAGMA synchronous=FULL")


def revision(path: Path, service: str) -> str | None:
    """The revision that the file says it has; None when it was never migrated. Raises MigrationError."""
    table = heads.version_table(service)
    with reading(path, service) as conn:
        if not has_table(conn, table):
            return None
        row = conn.execute(f"SELECT version_num FROM {table}").fetchone()  # noqa: S608 - made of the service's name
        return None if row is None else str(row[0])


@contextmanager
def reading(path: Path, service: str) -> Iterator[sqlite3.Connection]:
    """A connection to an existing file; what SQLite says against it is raised as MigrationError."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as conn:
            yield conn
    except sqlite3.Error as error:
        raise MigrationError(f"The {service} database at {path} can't be read: {error}.") from error


def has_table(conn: sqlite3.Connection, name: str) -> bool:
    found = conn.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone()
    return found is not None


def migrate_service(path: Path, service: str, migrations: Path | None = None) -> None:
    """Brings one database to the newest revision, in one transaction; makes the file where it is absent.

    migrations: where the service's Alembic files are, if not in its package. Raises MigrationError, and then the file
    has the revision that it had.
    """
    directory = migrations or heads.migrations_dir(service)
    try:
        target = heads.expected_head(service, directory)
        with warnings.catch_warnings(), _transaction(path) as conn:
            # A table made anew would silently lose an index that can't be read back: drop it before, make it after.
            warnings.filterwarnings("error", message="Skipped unsupported reflection")
            _upgrade(conn, service, directory, target)
            _check_references(conn)
    except StoreOpenError:
        raise
    except Exception as error:  # whatever a migration may raise
        reason = getattr(error, "orig", None) or error
        raise MigrationError(f"The {service} database at {path} wasn't migrated and is unchanged: {reason}.") from error


def migrate_postgres(url: str, service: str, migrations: Path | None = None) -> None:
    """Brings one service's schema of a PostgreSQL database to the newest revision, in one transaction; makes the schema
    where it is absent. Raises MigrationError, and then nothing is changed."""
    from anycloud_common.store.postgres import PostgresBackend

    directory = migrations or heads.migrations_dir(service)
    backend = PostgresBackend(url, service)
    try:
        target = heads.expected_head(service, directory)
        with backend.connect_writer() as conn, conn.begin():
            conn.exec_driver_sql(f'CREATE SCHEMA IF NOT EXISTS "{service}"')
            _upgrade(conn, service, directory, target)
    except StoreOpenError:
        raise
    except Exception as error:  # whatever a migration may raise
        reason = " ".join(str(getattr(error, "orig", None) or error).split())
        raise MigrationError(f"The {service} schema wasn't migrated and is unchanged: {reason}.") from error
    finally:
        backend.close()


def schema_differences(path: Path, service: str, metadata: MetaData) -> list[Any]:
    """How the migrated tables of a service differ from its MetaData; empty when they agree. For tests."""
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext
    from sqlalchemy import create_engine

    def own(name: str | None, kind: str, _parents: object) -> bool:
        return kind != "table" or (name is not None and name.startswith(f"{service}_"))

    options = {"version_table": heads.version_table(service), "include_name": own, "compare_type": True}
    with warnings.catch_warnings(action="ignore"), _transaction(path) as conn:  # "can't compare": done below
        differences = list(compare_metadata(MigrationContext.configure(conn, opts=options), metadata))
        migrated = _unseen_by_alembic(conn, metadata)
    scratch = create_engine("sqlite://")
    with scratch.begin() as conn:
        metadata.create_all(conn)
        declared = _unseen_by_alembic(conn, metadata)
    differences += [("declared", fact) for fact in sorted(declared - migrated)]
    differences += [("migrated", fact) for fact in sorted(migrated - declared)]
    return differences


@contextmanager
def _transaction(path: Path) -> Iterator[Connection]:
    """A transaction in which DDL, too, is undone as a whole."""
    from sqlalchemy import create_engine, event
    from sqlalchemy.pool import NullPool

    def connect() -> sqlite3.Connection:
        conn = sqlite3.connect(path, isolation_level=None)
        conn.execute("PRAGMA journal_mode=WAL")
        conn.execute("PRAGMA synchronous=FULL")
        # Off, as SQLite alters a table by making it anew: to drop the old one would delete what refers to it.
        conn.execute("PRAGMA foreign_keys=OFF")
        return conn

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)
    event.listen(engine, "begin", lambda conn: conn.exec_driver_sql("BEGIN IMMEDIATE"))
    with engine.begin() as conn:
        yield conn


def _upgrade(conn: Connection, service: str, migrations: Path, target: str) -> None:
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)

    def steps(revision: Any, _context: Any) -> Any:
        return script._upgrade_revs(target, revision)

    with EnvironmentContext(config, script, fn=steps) as environment:
        environment.configure(connection=conn, version_table=heads.version_table(service), transactional_ddl=True)
        environment.run_migrations()


def _check_references(conn: Connection) -> None:
    broken = conn.exec_driver_sql("PRAGMA foreign_key_check").fetchone()
    if broken is not None:
        raise sqlite3.IntegrityError(f"a row of {broken[0]} refers to a row of {broken[2]} that doesn't exist")


def _unseen_by_alembic(conn: Connection, metadata: MetaData) -> set[str]:
    """Facts that Alembic doesn't compare: primary keys, checks, never-reused ids, and the exact text of indexes."""
    from sqlalchemy import inspect, text

    facts: set[str] = set()
    inspector = inspect(conn)
    for table in metadata.tables.keys() & set(inspector.get_table_names()):
        facts.add(f"{table}: primary key {inspector.get_pk_constraint(table)['constrained_columns']}")
        facts |= {f"{table}: check {_squeezed(c['sqltext'])}" for c in inspector.get_check_constraints(table)}
        objects = text("SELECT type, name, sql FROM sqlite_master WHERE tbl_name = :table AND sql IS NOT NULL")
        for kind, name, sql in conn.execute(objects, {"table": table}):
            if kind == "index":
                facts.add(f"{table}: index {name}: {_squeezed(sql)}")
            elif kind == "table" and "AUTOINCREMENT" in sql.upper():
                facts.add(f"{table}: ids are never reused")
    return facts


def _squeezed(sql: str) -> str:
    return re.sub(r"\s+", " ", sql).strip()

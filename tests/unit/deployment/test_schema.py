"""The migrated tables are those that the code declares."""

from __future__ import annotations

from pathlib import Path

from anycloud_deployment.store.tables import metadata
from anycloud_release.migrate import migrate_service, schema_differences


def test_migrations_make_the_declared_tables(tmp_path: Path) -> None:
    database = tmp_path / "deployment.sqlite"
    migrate_service(database, "deployment")
    assert schema_differences(database, "deployment", metadata) == []

from __future__ import annotations

from pathlib import Path

from anycloud_cluster.store.tables import METADATA
from anycloud_release.migrate import migrate_service, schema_differences


def test_the_migrated_schema_is_the_declared_one(tmp_path: Path) -> None:
    migrate_service(tmp_path / "cluster.sqlite", "cluster")
    assert schema_differences(tmp_path / "cluster.sqlite", "cluster", METADATA) == []

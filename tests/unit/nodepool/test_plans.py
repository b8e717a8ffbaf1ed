"""How SQLite reads the list of node pools."""

from __future__ import annotations

from pathlib import Path

import pytest
from anycloud_nodepool.store import pools
from anycloud_release.migrate import migrate_service
from sqlalchemy import create_engine
from sqlalchemy.dialects import sqlite


@pytest.mark.parametrize("behind", [False, True])
def test_a_page_is_read_along_an_index_that_has_no_deleted_pool(tmp_path: Path, behind: bool) -> None:
    migrate_service(tmp_path / "nodepool.sqlite", "nodepool")
    engine = create_engine(f"sqlite:///{tmp_path / 'nodepool.sqlite'}")
    compiled = pools.ALL.page(behind=behind, limited=True).compile(dialect=sqlite.dialect())
    with engine.connect() as conn:
        values = tuple([1] * len(compiled.positiontup or ()))
        steps = [str(row.detail) for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}", values)]
    engine.dispose()
    [step] = steps
    assert "INDEX nodepool_pool_listed" in step

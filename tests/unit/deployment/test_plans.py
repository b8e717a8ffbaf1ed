"""How SQLite reads lists: along an index, in the list's order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from anycloud_common.paging import Source
from anycloud_deployment.store import deployments, workloads
from anycloud_release.migrate import migrate_service
from sqlalchemy import Connection, Select, create_engine
from sqlalchemy.dialects import sqlite


@pytest.fixture(scope="module")
def conn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    path = tmp_path_factory.mktemp("plans") / "deployment.sqlite"
    migrate_service(path, "deployment")
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as made:
        yield made
    engine.dispose()


def plan(conn: Connection, statement: Select[Any]) -> list[str]:
    compiled = statement.compile(dialect=sqlite.dialect(), compile_kwargs={"render_postcompile": True})
    values = [1] * len(compiled.positiontup or ())
    rows = conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}", tuple(values))
    return [str(row.detail) for row in rows]


ALL = workloads.sources(frozenset())
OF_DEPLOYMENT = workloads.sources(frozenset({"deployment_id"}))
SOURCES = {
    "Jobs": ALL[0],
    "Jobs that are over": ALL[1],
    "image Jobs": ALL[2],
    "Jobs of a Deployment": OF_DEPLOYMENT[0],
    "Jobs of a Deployment that are over": OF_DEPLOYMENT[1],
    "Deployments": deployments.ALL,
    "Deployments on a pool": deployments.ON_POOL,
}


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("name", SOURCES)
def test_a_page_is_read_along_an_index_and_not_sorted(conn: Connection, name: str, behind: bool) -> None:
    source: Source = SOURCES[name]
    [read, *sorting] = plan(conn, source.page(behind=behind, limited=True))
    assert "USING INDEX" in read
    # What was made in one millisecond is sorted, where the order has a column that is the same in all rows.
    assert sorting == (["USE TEMP B-TREE FOR RIGHT PART OF ORDER BY"] if name == "image Jobs" else [])
    if behind:
        assert read.startswith("SEARCH")


@pytest.mark.parametrize("name", ["image Jobs", "Deployments"])
def test_a_whole_list_is_counted_by_what_is_hidden(conn: Connection, name: str) -> None:
    steps = plan(conn, SOURCES[name].count)
    tables = [step for step in steps if step.startswith(("SCAN deployment", "SEARCH deployment"))]
    assert len(tables) == 2
    assert all("INDEX" in step for step in tables)
    assert "hidden" in tables[1]


def test_jobs_of_a_deployment_are_counted_in_an_index_alone(conn: Connection) -> None:
    literal = deployments.COUNTS.params(ids=["dep-1"]).compile(
        dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}
    )
    steps = [str(row.detail) for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {literal}")]
    assert steps == ["SEARCH deployment_job USING COVERING INDEX deployment_job_counts (deployment_id=?)"]

"""The migrator on a data directory: it fills, refuses, copies, migrates in order, stamps."""

from __future__ import annotations

import logging
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from anycloud_common.cipher import Cipher
from anycloud_common.clock import ManualClock
from anycloud_common.settings import API_VERSION
from anycloud_common.store import Store, StoreOpenError, heads
from anycloud_common.store.lock import FileLock
from anycloud_release.migrate import MigrationError, volume
from anycloud_release.migrate.schema import HEADS, SCHEMA_VERSION, SERVICES

FAILS = """
import sqlalchemy as sa
from alembic import op
revision = "0002"
down_revision = "0001"
def upgrade():
    op.create_table("{service}_half", sa.Column("id", sa.Text))
    raise ValueError("broken")
"""


def test_an_empty_volume_gets_incarnation_key_and_four_migrated_databases(installation: Any) -> None:
    installation.migrate()
    db = installation.data / "db"
    names = {"incarnation", "cipher.key", *(f"{service}.sqlite" for service in SERVICES)}
    assert {path.name for path in db.iterdir() if path.suffix != ".lock"} == names
    assert re.fullmatch(r"[0-9a-f]{8}\n", (db / "incarnation").read_text())
    Cipher.load(db / "cipher.key")
    assert installation.revisions() == ["0001"] * 4
    assert installation.stamp() == [("0.1.70", SCHEMA_VERSION)]
    assert {path.name for path in installation.data.iterdir()} == {"db", "migrate.lock"}


def test_two_volumes_differ_in_incarnation_and_key(installation: Any) -> None:
    installation.migrate()
    first = installation.tree()
    installation.data = installation.data.with_name("other")
    installation.migrate()
    second = installation.tree()
    assert first["db/incarnation"] != second["db/incarnation"]
    assert first["db/cipher.key"] != second["db/cipher.key"]


def test_files_are_readable_by_their_owner_alone(installation: Any) -> None:
    assert installation.process().returncode == 0
    modes = {path.name: path.stat().st_mode & 0o077 for path in installation.data.rglob("*")}
    assert {name: mode for name, mode in modes.items() if mode} == {}


def test_a_volume_that_is_up_to_date_is_left_as_it_is_without_alembic(installation: Any) -> None:
    installation.migrate()
    before = installation.tree()
    report = "import atexit; atexit.register(lambda: print('alembic' in sys.modules))"
    run = installation.process(report)
    assert (run.returncode, run.stdout, run.stderr) == (0, "False\n", "")
    assert installation.tree() == before


def test_services_are_migrated_in_the_order_of_their_calls(installation: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "anycloud_release"):
        installation.migrate()
    order = [record.getMessage() for record in caplog.records if record.name.startswith("anycloud_release")]
    assert order == [f"{name} migrated to 0001" for name in ("cluster", "nodepool", "deployment", "release")]


def test_a_migrated_database_is_served_and_an_older_one_is_not(installation: Any) -> None:
    owner = """
import sqlalchemy as sa
from alembic import op
revision = "0002"
down_revision = "0001"
def upgrade():
    op.create_table("cluster_owner", sa.Column("owner_epoch", sa.BigInteger, primary_key=True),
                    sa.Column("expires_at", sa.BigInteger))
"""
    installation.add("cluster", "0002", owner)
    installation.migrate()
    Store.open(installation.file("cluster"), "cluster", ManualClock()).close()
    installation.add("cluster", "0003", 'revision = "0003"\ndown_revision = "0002"\ndef upgrade(): pass\n')
    with pytest.raises(StoreOpenError, match="has revision 0002, and this build needs 0003"):
        Store.open(installation.file("cluster"), "cluster", ManualClock())


def test_the_databases_are_copied_before_they_are_changed(installation: Any) -> None:
    installation.migrate()
    rows = "INSERT INTO cluster_thing VALUES ('kept')"
    with closing(sqlite3.connect(installation.file("cluster"))) as conn, conn:
        conn.execute(rows)
    installation.add("nodepool", "0002", installation.SECOND)
    installation.migrate("0.1.71")
    copy = installation.data / f"before-schema-{SCHEMA_VERSION}"
    assert sorted(path.name for path in copy.iterdir()) == sorted(f"{service}.sqlite" for service in SERVICES)
    with closing(sqlite3.connect(copy / "cluster.sqlite")) as conn:
        assert conn.execute("SELECT id FROM cluster_thing").fetchall() == [("kept",)]
    with closing(sqlite3.connect(copy / "nodepool.sqlite")) as conn:
        assert conn.execute("SELECT version_num FROM nodepool_alembic_version").fetchone() == ("0001",)
    assert installation.revisions() == ["0001", "0002", "0001", "0001"]
    assert installation.stamp() == [("0.1.71", SCHEMA_VERSION)]


def test_a_finished_migration_drops_the_copies_of_earlier_ones(
    installation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.migrate()
    for number in (2, 3):
        monkeypatch.setattr(volume, "SCHEMA_VERSION", SCHEMA_VERSION + number)
        previous = f"000{number - 1}"
        content = f'revision = "000{number}"\ndown_revision = "{previous}"\ndef upgrade(): pass\n'
        installation.add("release", f"000{number}", content)
        installation.migrate()
    assert [path.name for path in installation.data.glob("before-*")] == [f"before-schema-{SCHEMA_VERSION + 3}"]


def test_a_failing_migration_is_undone_whole_and_stops_the_rest_without_a_stamp(installation: Any) -> None:
    installation.migrate()
    installation.add_to_all("0002", installation.SECOND)
    installation.add("deployment", "0002", FAILS)
    with pytest.raises(
        MigrationError, match=r"^The deployment database .* wasn't migrated and is unchanged: broken\.$"
    ):
        installation.migrate("0.1.71")
    assert installation.revisions() == ["0002", "0002", "0001", "0001"]
    assert installation.rows("deployment", "SELECT 1 FROM sqlite_master WHERE name = 'deployment_half'") == []
    assert installation.stamp() == [("0.1.70", SCHEMA_VERSION)]


def test_the_next_run_completes_a_failed_one_and_the_copy_keeps_the_oldest_state(installation: Any) -> None:
    installation.migrate()
    installation.add_to_all("0002", installation.SECOND)
    installation.add("deployment", "0002", FAILS)
    with pytest.raises(MigrationError):
        installation.migrate("0.1.71")
    installation.add("deployment", "0002", installation.SECOND)
    installation.migrate("0.1.71")
    assert installation.revisions() == ["0002"] * 4
    assert installation.stamp() == [("0.1.71", SCHEMA_VERSION)]
    with closing(sqlite3.connect(installation.data / f"before-schema-{SCHEMA_VERSION}" / "cluster.sqlite")) as conn:
        assert conn.execute("SELECT version_num FROM cluster_alembic_version").fetchone() == ("0001",)


@pytest.mark.req("BK-026")
@pytest.mark.parametrize("older", ["0.1.70", "0.0.99"])
def test_a_version_older_than_the_serving_one_is_refused_and_changes_nothing(installation: Any, older: str) -> None:
    installation.migrate("0.1.100")
    installation.add_to_all("0002", installation.SECOND)
    before = installation.tree()
    sentence = (
        rf"^The data in .* was served by version 0\.1\.100 \(schema {SCHEMA_VERSION}\) "
        rf"and this is {re.escape(older)} \(schema {SCHEMA_VERSION}\)"
    )
    with pytest.raises(MigrationError, match=sentence):
        installation.migrate(older)
    assert installation.tree() == before


def test_a_schema_older_than_the_serving_one_is_refused(installation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    installation.migrate()
    monkeypatch.setattr(volume, "SCHEMA_VERSION", SCHEMA_VERSION - 1)
    with pytest.raises(MigrationError, match="going back to an older version is a restore"):
        installation.migrate()


def test_a_revision_that_this_build_does_not_know_is_refused_and_changes_nothing(installation: Any) -> None:
    installation.add("release", "0002", installation.SECOND)
    installation.migrate()
    (installation.folder("release") / "versions" / "v0002.py").unlink()
    installation.add("cluster", "0002", installation.SECOND)
    before = installation.tree()
    with pytest.raises(MigrationError, match="The release database has revision 0002, which this build doesn't know"):
        installation.migrate()
    assert installation.tree() == before


@pytest.mark.parametrize("name", ["incarnation", "cipher.key", "cluster.sqlite", "release.sqlite"])
def test_a_volume_that_lacks_a_file_is_damaged_and_nothing_is_made_anew(installation: Any, name: str) -> None:
    installation.migrate()
    (installation.data / "db" / name).unlink()
    before = installation.tree()
    with pytest.raises(MigrationError, match=f"is damaged: {name} missing in db"):
        installation.migrate()
    assert installation.tree() == before


def test_a_file_that_is_no_database_is_refused(installation: Any) -> None:
    installation.migrate()
    installation.file("nodepool").write_bytes(b"no database" * 1000)
    with pytest.raises(MigrationError, match=r"^The nodepool database at .* can't be read: file is not a database\.$"):
        installation.migrate()


def test_a_database_that_lost_its_tables_is_damaged_and_not_made_anew(installation: Any) -> None:
    installation.migrate()
    installation.file("deployment").write_bytes(b"")
    with pytest.raises(MigrationError, match="is damaged: the deployment database has lost its tables"):
        installation.migrate()
    assert installation.file("deployment").read_bytes() == b""


@pytest.mark.parametrize("service", SERVICES)
def test_nothing_is_touched_while_a_service_runs(installation: Any, service: str) -> None:
    installation.migrate()
    installation.add_to_all("0002", installation.SECOND)
    before = installation.tree()
    lock = FileLock(installation.file(service).with_suffix(".lock"), "x")
    with pytest.raises(StoreOpenError, match=f"^The {service} database is in use by another process"):
        installation.migrate()
    assert installation.tree() == before
    lock.release()
    installation.migrate()


def test_two_migrators_do_not_run_at_once(installation: Any) -> None:
    installation.data.mkdir()
    lock = FileLock(installation.data / "migrate.lock", "x")
    with pytest.raises(StoreOpenError, match=r"^The data directory .* is in use by another process"):
        installation.migrate()
    assert not (installation.data / "db").exists()
    lock.release()


def test_the_schema_version_of_this_build_stands_for_the_newest_revisions_of_the_four_services() -> None:
    assert HEADS[SCHEMA_VERSION] == {service: heads.expected_head(service) for service in SERVICES}
    assert sorted(HEADS) == list(range(1, SCHEMA_VERSION + 1))


def test_the_real_migrations_make_a_volume_that_all_services_can_open(tmp_path: Path) -> None:
    volume.migrate(tmp_path, API_VERSION)
    for service in SERVICES:
        Store.open(tmp_path / "db" / f"{service}.sqlite", service, ManualClock()).close()

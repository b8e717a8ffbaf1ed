"""The migrator killed, without room, or without permission: nothing half-written, and the next run completes it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from anycloud_release.migrate import SCHEMA_VERSION

DIES_IN_THE_MIGRATION = """
import os, signal
import sqlalchemy as sa
from alembic import op
revision = "0002"
down_revision = "0001"
def upgrade():
    op.create_table("{service}_half", sa.Column("id", sa.Text))
    os.kill(os.getpid(), signal.SIGKILL)
"""

# Lines that make the migrator kill itself at a moment.
IN_FILLING = "import anycloud_release.migrate.fill as fill; fill.create_empty = die"
BEFORE_THE_RENAME = "Path.rename = die"
AFTER_THE_RENAME = "rename = Path.rename; Path.rename = lambda self, to: (rename(self, to), die())"
BEFORE_THE_THIRD_SERVICE = """
import anycloud_release.migrate.volume as volume
migrate = volume.migrate_service
volume.migrate_service = lambda file, service: die() if service == 'deployment' else migrate(file, service)
"""
BEFORE_THE_STAMP = "import anycloud_release.migrate.stamp as stamp; stamp.write = die"


@pytest.mark.parametrize(
    ("moment", "filled"),
    [
        (IN_FILLING, False),
        (BEFORE_THE_RENAME, False),
        (AFTER_THE_RENAME, True),
        (BEFORE_THE_THIRD_SERVICE, True),
        (BEFORE_THE_STAMP, True),
    ],
)
def test_the_first_run_killed_at_any_moment_is_completed_by_the_next(
    installation: Any, moment: str, filled: bool
) -> None:
    killed = installation.process(moment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (installation.data / "db").exists() is filled
    left = installation.tree()
    installation.migrate()
    assert installation.revisions() == ["0001"] * 4
    assert installation.stamp() == [("0.1.70", SCHEMA_VERSION)]
    assert not (installation.data / "filling").exists()
    if filled:
        assert installation.tree()["db/incarnation"] == left["db/incarnation"]


@pytest.mark.parametrize("moment", [BEFORE_THE_RENAME, BEFORE_THE_THIRD_SERVICE, BEFORE_THE_STAMP])
def test_an_update_killed_at_any_moment_is_completed_by_the_next(installation: Any, moment: str) -> None:
    installation.migrate()
    installation.add_to_all("0002", installation.SECOND)
    run = f"os.environ['ANYCLOUD_API_VERSION'] = '0.1.71'\n{moment}"
    assert installation.process(run).returncode == -signal.SIGKILL
    assert installation.stamp() == [("0.1.70", SCHEMA_VERSION)]
    installation.migrate("0.1.71")
    assert installation.revisions() == ["0002"] * 4
    assert installation.stamp() == [("0.1.71", SCHEMA_VERSION)]
    assert sorted(path.name for path in installation.data.iterdir()) == [
        f"before-schema-{SCHEMA_VERSION}",
        "db",
        "migrate.lock",
    ]


def test_a_kill_inside_a_migration_leaves_the_revision_that_was(installation: Any) -> None:
    installation.migrate()
    installation.add("nodepool", "0002", DIES_IN_THE_MIGRATION)
    assert installation.process().returncode == -signal.SIGKILL
    assert installation.revisions() == ["0001"] * 4
    assert installation.rows("nodepool", "SELECT 1 FROM sqlite_master WHERE name = 'nodepool_half'") == []
    installation.add("nodepool", "0002", installation.SECOND)
    installation.migrate()
    assert installation.revisions() == ["0001", "0002", "0001", "0001"]


def limited(size: int) -> str:
    """The kernel refuses files beyond that many bytes, as a full disk would."""
    return (
        "import resource; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
    )


@pytest.mark.parametrize("size", [0, 20])
def test_without_room_to_fill_there_is_one_sentence_and_no_database(installation: Any, size: int) -> None:
    run = installation.process(limited(size))
    assert run.returncode == 1
    assert run.stderr.startswith("The data directory ") and run.stderr.count("\n") == 1, run.stderr
    assert {path.name for path in installation.data.iterdir()} == {"migrate.lock"}
    installation.migrate()
    assert installation.revisions() == ["0001"] * 4


@pytest.mark.parametrize("size", [2000, 20_000])  # no room for the copy, no room for the change
def test_without_room_to_migrate_there_is_one_sentence_and_the_old_state(installation: Any, size: int) -> None:
    large = """
from alembic import op
revision = "0002"
down_revision = "0001"
def upgrade():
    op.execute("INSERT INTO {service}_thing SELECT hex(randomblob(50000))")
"""
    installation.migrate()
    installation.add_to_all("0002", large)
    run = installation.process(limited(size))
    assert run.returncode == 1
    assert run.stderr.startswith("The ") and run.stderr.count("\n") == 1, run.stderr
    assert installation.revisions() == ["0001"] * 4
    assert installation.rows("cluster", "SELECT count(*) FROM cluster_thing") == [(0,)]
    installation.migrate()
    assert installation.revisions() == ["0002"] * 4


def test_a_data_directory_that_cannot_be_written_is_one_sentence(
    installation: Any, without_root: Callable[[], None]
) -> None:
    installation.data.mkdir(mode=0o555)
    run = installation.process(preexec_fn=without_root)
    installation.data.chmod(0o755)
    lock = installation.data / "migrate.lock"
    sentence = f"The data directory {installation.data} can't be locked: {lock}: Permission denied.\n"
    assert (run.returncode, run.stderr) == (1, sentence)


def test_a_filled_directory_that_became_read_only_is_one_sentence(
    installation: Any, without_root: Callable[[], None]
) -> None:
    installation.migrate()
    installation.add_to_all("0002", installation.SECOND)
    before = installation.tree()
    db = installation.data / "db"
    db.chmod(0o555)
    for file in db.iterdir():
        file.chmod(0o444)
    run = installation.process(preexec_fn=without_root)
    db.chmod(0o755)
    assert run.returncode == 1
    assert run.stderr == f"The cluster database can't be locked: {db / 'cluster.lock'}: Permission denied.\n"
    assert installation.tree() == before


def test_a_missing_setting_is_one_sentence(installation: Any) -> None:
    run = installation.process("del os.environ['ANYCLOUD_DATA_DIR']")
    assert (run.returncode, run.stderr) == (1, "ANYCLOUD_DATA_DIR is not set; it must have a value.\n")

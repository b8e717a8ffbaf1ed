"""Opening a database: one owner, its own revision, and a sentence for everything else."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from anycloud_common.clock import ManualClock
from anycloud_common.store import Store, StoreOpenError, heads

OPENS = """
import sys
from pathlib import Path
from anycloud_common.clock import SystemClock
from anycloud_common.store import Store, StoreOpenError
try:
    Store.open(Path(sys.argv[1]), "shop", SystemClock(), check_head=False)
except StoreOpenError as error:
    print(error)
"""


def migrations(path: Path, **files: str) -> Path:
    versions = path / "migrations" / "versions"
    versions.mkdir(parents=True)
    for name, content in files.items():
        (versions / f"{name}.py").write_text(content)
    return path / "migrations"


def migrated(path: Path, revision: str | None) -> None:
    """A database of the service `shop` as the migrator would leave it."""
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("CREATE TABLE shop_owner (owner_epoch BIGINT PRIMARY KEY, expires_at BIGINT)")
        if revision is not None:
            conn.execute("CREATE TABLE shop_alembic_version (version_num VARCHAR(32) NOT NULL)")
            conn.execute("INSERT INTO shop_alembic_version VALUES (?)", (revision,))


TWO = {
    "first": 'revision = "0001"\ndown_revision = None\n',
    "second": 'import os\nrevision: str = "0002"\ndown_revision: str | None = "0001"\n',
}


async def test_the_revision_of_this_build_is_served(tmp_path: Path) -> None:
    migrated(tmp_path / "shop.sqlite", "0002")
    folder = migrations(tmp_path, **TWO)
    store = Store.open(tmp_path / "shop.sqlite", "shop", ManualClock(), migrations=folder)
    assert await store.write(lambda tx: tx.owner_epoch) == store.owner_epoch == 1
    store.close()


@pytest.mark.parametrize(
    ("revision", "sentence"),
    [
        (None, "The shop database has no tables yet; anycloud-migrate makes them."),
        ("0001", "The shop database has revision 0001, and this build needs 0002; anycloud-migrate of this build "),
        ("0003", "The shop database has revision 0003, and this build needs 0002; anycloud-migrate of this build "),
    ],
)
def test_any_other_revision_is_refused_and_the_file_stays_as_it_was(
    tmp_path: Path, revision: str | None, sentence: str
) -> None:
    path = tmp_path / "shop.sqlite"
    migrated(path, revision)
    folder = migrations(tmp_path, **TWO)
    with pytest.raises(StoreOpenError) as raised:
        Store.open(path, "shop", ManualClock(), migrations=folder)
    assert str(raised.value).startswith(sentence)
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("SELECT count(*) FROM shop_owner").fetchone() == (0,)


def test_a_missing_file_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreOpenError, match=r"^There is no shop database at .*; anycloud-migrate makes it\.$"):
        Store.open(tmp_path / "shop.sqlite", "shop", ManualClock(), check_head=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, "none"),
        (TWO | {"fork": 'revision = "0002b"\ndown_revision = "0001"\n'}, "0002, 0002b"),
    ],
)
def test_migrations_without_exactly_one_newest_revision_are_refused(
    tmp_path: Path, files: dict[str, str], found: str
) -> None:
    with pytest.raises(StoreOpenError, match=f"must have one newest revision, and have {found}"):
        heads.expected_head("shop", migrations(tmp_path, **files))


def test_a_merge_is_the_head_of_its_branches(tmp_path: Path) -> None:
    files = TWO | {
        "fork": 'revision = "0002b"\ndown_revision = "0001"\n',
        "merge": 'revision = "0003"\ndown_revision = ("0002", "0002b")\n',
    }
    assert heads.expected_head("shop", migrations(tmp_path, **files)) == "0003"


def test_the_expected_revision_is_found_without_importing_alembic_or_the_migrations(tmp_path: Path) -> None:
    folder = migrations(tmp_path, first='revision = "0001"\ndown_revision = None\nraise SystemExit("imported")\n')
    code = (
        "import sys; from pathlib import Path; from anycloud_common.store import Store, heads; "
        f"print(heads.expected_head('shop', Path({str(folder)!r})), 'alembic' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.split() == ["0001", "False"]


def test_a_second_process_is_refused_in_one_sentence(shop: Any) -> None:
    command = [sys.executable, "-c", OPENS, str(shop.path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    lock = shop.path.with_suffix(".lock")
    assert run.stdout == f"The shop database is in use by another process, which holds {lock}.\n"


def test_each_opening_is_a_new_owner_with_a_higher_epoch(shop: Any) -> None:
    epochs = [shop.store.owner_epoch]
    for _ in range(3):
        shop.reopen()
        epochs.append(shop.store.owner_epoch)
    assert epochs == [1, 2, 3, 4]


def test_a_read_only_directory_is_refused_in_one_sentence(tmp_path: Path, without_root: Callable[[], None]) -> None:
    path = tmp_path / "data" / "shop.sqlite"
    path.parent.mkdir()
    migrated(path, None)
    path.parent.chmod(0o555)
    run = subprocess.run(
        [sys.executable, "-c", OPENS, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        preexec_fn=without_root,
    )
    path.parent.chmod(0o755)
    lock = path.with_suffix(".lock")
    assert run.stdout == f"The shop database can't be locked: {lock}: Permission denied.\n"

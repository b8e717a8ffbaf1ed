from __future__ import annotations

import ctypes
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from anycloud_common.store import heads
from anycloud_release.migrate import volume

SERVICES = ("cluster", "nodepool", "deployment", "release")

FIRST = """
import sqlalchemy as sa
from alembic import op
revision = "0001"
down_revision = None
def upgrade():
    op.create_table("{service}_thing", sa.Column("id", sa.Text, primary_key=True))
    if "{service}" == "release":
        op.create_table("release_stamp", sa.Column("version", sa.Text), sa.Column("schema_version", sa.BigInteger))
"""
SECOND = """
import sqlalchemy as sa
from alembic import op
revision = "0002"
down_revision = "0001"
def upgrade():
    op.add_column("{service}_thing", sa.Column("size", sa.Integer))
"""


class Installation:
    """A data directory, and throw-away services with migrations of their own instead of the real ones."""

    SECOND = SECOND  # a migration for `add`

    def __init__(self, root: Path) -> None:
        self.data = root / "data"
        self.packages = root / "packages"
        for service in SERVICES:
            self.add(service, "0001", FIRST)

    def folder(self, service: str) -> Path:
        return self.packages / service

    def add(self, service: str, revision: str, content: str) -> None:
        """Gives the service another migration."""
        versions = self.folder(service) / "versions"
        versions.mkdir(parents=True, exist_ok=True)
        (versions / f"v{revision}.py").write_text(content.replace("{service}", service))

    def add_to_all(self, revision: str, content: str) -> None:
        for service in SERVICES:
            self.add(service, revision, content)

    def file(self, service: str) -> Path:
        return self.data / "db" / f"{service}.sqlite"

    def migrate(self, version: str = "0.1.70") -> None:
        volume.migrate(self.data, version)

    def rows(self, service: str, sql: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.file(service))) as conn:
            return conn.execute(sql).fetchall()

    def revisions(self) -> list[str | None]:
        found: list[str | None] = []
        for service in SERVICES:
            has = self.rows(service, f"SELECT 1 FROM sqlite_master WHERE name = '{service}_alembic_version'")
            [row] = self.rows(service, f"SELECT version_num FROM {service}_alembic_version") if has else [(None,)]
            found.append(None if row[0] is None else str(row[0]))
        return found

    def stamp(self) -> list[tuple[object, ...]]:
        return self.rows("release", "SELECT version, schema_version FROM release_stamp")

    def tree(self) -> dict[str, bytes]:
        """Every file with its content, but for the locks and what SQLite keeps beside a file while it is open."""
        files = (path for path in self.data.rglob("*") if path.is_file())
        kept = (path for path in files if path.suffix not in (".lock", ".sqlite-shm", ".sqlite-wal"))
        return {str(path.relative_to(self.data)): path.read_bytes() for path in kept}

    def process(self, before: str = "", **options: object) -> subprocess.CompletedProcess[str]:
        """The migrator as a process of its own, after some lines of Python in it."""
        code = (
            "import os, signal, sys\nfrom pathlib import Path\nfrom anycloud_common.store import heads\n"
            f"heads.migrations_dir = lambda service: Path({str(self.packages)!r}) / service\n"
            "def die(*args, **kwargs): os.kill(os.getpid(), signal.SIGKILL)\n"
            f"{before}\n"
            "from anycloud_release.migrate.__main__ import main\nsys.exit(main())\n"
        )
        return subprocess.run(  # type: ignore[call-overload,no-any-return]
            [sys.executable, "-c", code],
            env={"ANYCLOUD_DATA_DIR": str(self.data), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **options,
        )


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    made = Installation(tmp_path)
    monkeypatch.setattr(heads, "migrations_dir", made.folder)
    return made


@pytest.fixture
def without_root() -> Callable[[], None]:
    """For `preexec_fn`: takes root's power to write where the mode of a file or directory forbids it."""
    libc = ctypes.CDLL(None)

    def drop() -> None:
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP

    return drop

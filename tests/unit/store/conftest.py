from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from anycloud_common.clock import ManualClock
from anycloud_common.store import Store, Tx
from anycloud_common.store.leases import columns
from anycloud_common.store.scratch import open_scratch
from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, insert, select

metadata = MetaData()
items = Table(
    "shop_item",
    metadata,
    Column("id", Text, primary_key=True),
    Column("count", Integer, nullable=False, default=0),
    *columns(),
)


class Shop:
    """A store with one table of its own, and the fatal calls that it made."""

    items = items

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ManualClock()
        self.fatal: list[str] = []
        self.store = self.open()

    def open(self) -> Store:
        return open_scratch(self.path, "shop", metadata, self.clock, fatal=self.fatal.append)

    def reopen(self) -> None:
        self.store.close()
        self.store = self.open()

    @staticmethod
    def add(name: str, size: int = 0) -> Callable[[Tx], str]:
        """Writes an item with a name and `size` more bytes; its result is the name."""

        def run(tx: Tx) -> str:
            tx.conn.execute(insert(items), {"id": name + "x" * size})
            return name

        return run

    async def names(self) -> list[str]:
        def run(conn: Connection) -> list[str]:
            return list(conn.execute(select(items.c.id).order_by(items.c.id)).scalars())

        return await self.store.read(run)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path / "shop.sqlite")
    yield shop
    shop.store.close()


@pytest.fixture
def without_root() -> Callable[[], None]:
    """For `preexec_fn`: takes root's power to write where the mode of a file or directory forbids it."""
    libc = ctypes.CDLL(None)

    def drop() -> None:
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP

    return drop


_SERVER = shutil.which("postgres") or next((str(p) for p in Path("/usr/lib/postgresql").glob("*/bin/postgres")), None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server that lives for these tests, on a socket of its own."""
    if _SERVER is None:
        pytest.skip("needs the PostgreSQL server: apt-get install postgresql, or its bin directory in PATH")
    as_user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="pg-") as scratch:
        data = Path(scratch) / "data"
        data.mkdir()
        if as_user:  # the server refuses to run as root
            shutil.chown(scratch, "postgres")
            shutil.chown(data, "postgres")
        initdb = [str(Path(_SERVER).resolve().with_name("initdb")), "-A", "trust", "-U", "shop", "-N", "-D", str(data)]
        subprocess.run(initdb, check=True, capture_output=True, cwd=scratch, **as_user)  # type: ignore[call-overload]
        command = [_SERVER, "-D", str(data), "-k", scratch, "-c", "listen_addresses=", "-F"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=scratch, **as_user) as server:  # type: ignore[call-overload]
            try:
                yield _answering(f"postgresql://shop@/postgres?host={scratch}")
            finally:
                server.send_signal(signal.SIGINT)  # a fast shutdown


def _answering(url: str) -> str:
    import psycopg

    for _ in range(200):
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url):
            return url
        time.sleep(0.05)
    raise TimeoutError("the PostgreSQL server didn't start")

"""The store's rules on PostgreSQL, where other replicas may run beside this one."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from anycloud_common.store import Store, StoreOpenError, StoreUnavailable, Tx
from anycloud_common.store.leases import columns, guarded, release, take
from anycloud_common.store.ownership import OWNER_LEASE_MS
from anycloud_common.store.postgres import PostgresBackend
from anycloud_release.migrate import MigrationError, migrate_postgres
from sqlalchemy import Column, Connection, MetaData, Table, Text, insert, select, text, update
from sqlalchemy.exc import IntegrityError

pytestmark = pytest.mark.world("postgres")

MIGRATION = """
import sqlalchemy as sa
from alembic import op
revision = "0001"
down_revision = None
def upgrade():
    op.create_table("shop_owner", sa.Column("owner_epoch", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("expires_at", sa.BigInteger))
    op.create_table("shop_change", sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=True),
        sa.Column("kind", sa.Text), sa.Column("id", sa.Text), sa.Column("version", sa.BigInteger))
    op.create_table("shop_item", sa.Column("id", sa.Text, primary_key=True), sa.Column("lock_owner", sa.Text),
        sa.Column("lock_token", sa.Text))
"""

items = Table("shop_item", MetaData(), Column("id", Text, primary_key=True), *columns())


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    versions = tmp_path / "migrations" / "versions"
    versions.mkdir(parents=True)
    (versions / "v0001.py").write_text(MIGRATION)
    return versions.parent


@pytest.fixture
def url(postgres: str, migrations: Path) -> Iterator[str]:
    """A migrated database of this test's own."""
    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
    made = postgres.replace("/postgres?", f"/{name}?")
    migrate_postgres(made, "shop", migrations)
    yield made


@pytest.fixture
async def replicas(url: str, migrations: Path) -> AsyncIterator[tuple[Store, Store]]:
    first, second = (Store.open_postgres(url, "shop", migrations=migrations) for _ in range(2))
    yield first, second
    first.close()
    second.close()


def add(name: str) -> Any:
    def run(tx: Tx) -> str:
        tx.conn.execute(insert(items), {"id": name})
        tx.change("item", name)
        return name

    return run


def names(conn: Connection) -> list[str]:
    return list(conn.execute(select(items.c.id).order_by(items.c.id)).scalars())


async def test_an_answered_write_is_committed_and_seen_by_every_replica(replicas: tuple[Store, Store]) -> None:
    assert await replicas[0].write(add("a")) == "a"
    assert await replicas[1].read(names) == ["a"]


async def test_a_failing_function_is_undone_alone_also_after_an_error_of_the_database(
    replicas: tuple[Store, Store],
) -> None:
    def fails(tx: Tx) -> None:
        add("bad")(tx)
        raise ValueError("no")

    writes = [replicas[0].write(fn) for fn in (add("a"), fails, add("a"), add("b"))]
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert (results[0], type(results[1]), type(results[2]), results[3]) == ("a", ValueError, IntegrityError, "b")
    assert await replicas[0].read(names) == ["a", "b"]


async def test_functions_of_all_replicas_run_one_after_the_other(replicas: tuple[Store, Store]) -> None:
    """Read, decide, write: with transactions that overlap, some would read the same count."""

    def adds_the_next(tx: Tx) -> None:
        count = tx.conn.execute(text("SELECT count(*) FROM shop_item")).scalar_one()
        add(f"i{count:03}")(tx)

    await asyncio.gather(*(store.write(adds_the_next) for store in replicas for _ in range(100)))
    assert await replicas[0].read(names) == [f"i{n:03}" for n in range(200)]
    order = text("SELECT array_agg(id ORDER BY seq) FROM shop_change")
    assert await replicas[0].read(lambda conn: conn.execute(order).scalar_one()) == [f"i{n:03}" for n in range(200)]


async def test_a_read_is_one_snapshot_and_cannot_write(replicas: tuple[Store, Store]) -> None:
    reading, go_on = threading.Event(), threading.Event()

    def reads_twice(conn: Connection) -> tuple[list[str], list[str]]:
        first = names(conn)
        reading.set()
        go_on.wait()
        return first, names(conn)

    read = asyncio.create_task(replicas[0].read(reads_twice))
    await asyncio.to_thread(reading.wait)
    await replicas[1].write(add("a"))
    go_on.set()
    assert await read == ([], [])
    with pytest.raises(Exception, match="read-only"):
        await replicas[0].read(lambda conn: conn.execute(insert(items), {"id": "b"}))


async def test_a_connection_lost_in_a_function_refuses_its_group_and_the_next_goes_on(
    replicas: tuple[Store, Store],
) -> None:
    def loses_the_connection(tx: Tx) -> None:
        add("a")(tx)
        tx.conn.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    with pytest.raises(StoreUnavailable, match="terminating connection"):
        await replicas[0].write(loses_the_connection)
    assert await replicas[0].write(add("b")) == "b"
    assert await replicas[0].read(names) == ["b"]


async def test_a_connection_lost_in_commit_ends_the_process_and_answers_nobody(url: str, migrations: Path) -> None:
    ended = threading.Event()
    reasons: list[str] = []

    def fatal(reason: str) -> None:
        reasons.append(reason)
        ended.set()

    # A trigger that runs inside COMMIT, and whose connection goes there.
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(b"""
            SET search_path TO shop;
            CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(1); RETURN NULL; END $$;
            CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON shop_item DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION lose()""")
    store = Store.open_postgres(url, "shop", migrations=migrations, fatal=fatal)
    task = asyncio.create_task(store.write(add("a")))
    await asyncio.to_thread(ended.wait, 10)
    assert len(reasons) == 1 and reasons[0].startswith("the outcome of COMMIT is unknown: ")
    assert not task.done()
    task.cancel()
    store.close()


async def test_a_commit_that_the_server_refuses_is_refused_and_the_process_goes_on(url: str, migrations: Path) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(b"""
            SET search_path TO shop;
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
            CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON shop_item DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW WHEN (NEW.id = 'bad') EXECUTE FUNCTION refuse()""")
    reasons: list[str] = []
    store = Store.open_postgres(url, "shop", migrations=migrations, fatal=reasons.append)
    with pytest.raises(StoreUnavailable, match="not this one"):
        await store.write(add("bad"))
    assert await store.write(add("good")) == "good"
    assert await store.read(names) == ["good"] and reasons == []
    store.close()


async def test_a_lease_is_kept_while_its_owner_renews_and_falls_to_others_when_it_expired(
    replicas: tuple[Store, Store],
) -> None:
    await replicas[0].write(add("a"))
    old = await replicas[0].write(lambda tx: take(tx, items, "a"))
    assert old is not None
    assert await replicas[1].write(lambda tx: take(tx, items, "a")) is None
    # 30 s pass on the server's clock for the first owner, which didn't renew.
    owner = {"epoch": replicas[0].owner_epoch, "lease": OWNER_LEASE_MS}
    past = text("UPDATE shop_owner SET expires_at = expires_at - :lease WHERE owner_epoch = :epoch")
    await replicas[1].write(lambda tx: tx.conn.execute(past, owner))
    new = await replicas[1].write(lambda tx: take(tx, items, "a"))
    assert new is not None
    write = update(items).where(guarded(items, "a", old)).values(id="b")
    assert await replicas[0].write(lambda tx: tx.conn.execute(write).rowcount) == 0
    assert await replicas[1].write(lambda tx: release(tx, items, "a", new))


def test_an_idle_owner_renews_its_row_by_itself(url: str, migrations: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from anycloud_common.store import writer

    monkeypatch.setattr(writer, "RENEW_EVERY", 0.05)
    store = Store.open_postgres(url, "shop", migrations=migrations)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(b"UPDATE shop.shop_owner SET expires_at = 0")
        while conn.execute(b"SELECT expires_at FROM shop.shop_owner").fetchall() == [(0,)]:
            time.sleep(0.02)
        conn.execute(b"DELETE FROM shop.shop_owner")
        while not (rows := conn.execute(b"SELECT owner_epoch FROM shop.shop_owner").fetchall()):
            time.sleep(0.02)
    assert rows == [(store.owner_epoch,)]
    store.close()


async def test_a_new_owner_has_a_higher_epoch_and_drops_those_that_expired(
    replicas: tuple[Store, Store], url: str, migrations: Path
) -> None:
    assert [store.owner_epoch for store in replicas] == [1, 2]
    await replicas[0].write(lambda tx: tx.conn.execute(text("UPDATE shop_owner SET expires_at = 0")))
    third = Store.open_postgres(url, "shop", migrations=migrations)
    rows = await third.read(lambda conn: list(conn.execute(text("SELECT owner_epoch FROM shop_owner")).scalars()))
    assert rows == [3]
    third.close()


def test_time_is_the_servers(url: str) -> None:
    backend = PostgresBackend(url, "shop")
    with backend.connect_reader() as conn:
        server = conn.execute(text("SELECT (extract(epoch FROM now()) * 1000)::bigint")).scalar_one()
        assert 0 <= backend.now_ms(conn) - server < 5_000
    backend.close()


def test_another_revision_is_refused(url: str, migrations: Path) -> None:
    second = 'revision = "0002"\ndown_revision = "0001"\ndef upgrade():\n    raise ValueError("broken")\n'
    (migrations / "versions" / "v0002.py").write_text(second)
    with pytest.raises(StoreOpenError, match="has revision 0001, and this build needs 0002"):
        Store.open_postgres(url, "shop", migrations=migrations)
    with pytest.raises(MigrationError, match="The shop schema wasn't migrated and is unchanged: broken"):
        migrate_postgres(url, "shop", migrations)


def test_a_server_that_is_not_there_is_one_sentence(tmp_path: Path, migrations: Path) -> None:
    with pytest.raises(StoreOpenError) as raised:
        Store.open_postgres(f"postgresql://me:s3cret@/x?host={tmp_path}", "shop", migrations=migrations)
    sentence = str(raised.value)
    assert sentence.startswith("The shop schema on PostgreSQL can't be opened: ") and "\n" not in sentence
    assert "s3cret" not in sentence

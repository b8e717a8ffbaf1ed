"""One service's database: its migration in one transaction, and its difference from the MetaData."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from anycloud_common.store import change_table, owner_table
from anycloud_release.migrate import MigrationError, migrate_service, schema_differences

SHOP = """
import sqlalchemy as sa
from alembic import op
revision = "0001"
down_revision = None
def upgrade():
    op.create_table("shop_change",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("kind", sa.Text, nullable=False), sa.Column("id", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False), sqlite_autoincrement=True)
    op.create_table("shop_owner",
        sa.Column("owner_epoch", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("expires_at", sa.BigInteger))
    op.create_table("shop_item", sa.Column("id", sa.Text, primary_key=True), sa.Column("name", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False), sa.Column("size", sa.BigInteger),
        sa.CheckConstraint("size > 0", name="size_positive"))
    op.create_index("shop_item_live", "shop_item", [sa.text("lower(name)")], unique=True,
        sqlite_where=sa.text("state <> 'deleted'"))
    op.create_table("shop_part", sa.Column("id", sa.Text, primary_key=True),
        sa.Column("item", sa.Text, sa.ForeignKey("shop_item.id", ondelete="CASCADE"), nullable=False))
"""

ANEW = '    with op.batch_alter_table("shop_item") as batch:\n        batch.alter_column("size", nullable=False)'


def shop_metadata(
    key: str = "id", check: str = "size > 0", where: str = "state <> 'deleted'", cascade: str = "CASCADE"
) -> sa.MetaData:
    metadata = sa.MetaData()
    change_table("shop", metadata)
    owner_table("shop", metadata)
    item = sa.Table(
        "shop_item",
        metadata,
        sa.Column("id", sa.Text, primary_key=key == "id", nullable=False),
        sa.Column("name", sa.Text, primary_key=key == "name", nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger),
        sa.CheckConstraint(check, name="size_positive"),
    )
    sa.Index("shop_item_live", sa.func.lower(item.c.name), unique=True, sqlite_where=sa.text(where))
    sa.Table(
        "shop_part",
        metadata,
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("item", sa.Text, sa.ForeignKey("shop_item.id", ondelete=cascade), nullable=False),
    )
    return metadata


@pytest.fixture
def shop(tmp_path: Path) -> tuple[Path, Path]:
    """A database and the folder of its migrations, the first of which is applied."""
    add(tmp_path / "migrations", "0001", SHOP)
    migrate_service(tmp_path / "shop.sqlite", "shop", tmp_path / "migrations")
    return tmp_path / "shop.sqlite", tmp_path / "migrations"


def add(migrations: Path, revision: str, content: str) -> None:
    (migrations / "versions").mkdir(parents=True, exist_ok=True)
    (migrations / "versions" / f"v{revision}.py").write_text(content)


def second(body: str) -> str:
    head = 'import sqlalchemy as sa\nfrom alembic import op\nrevision = "0002"\ndown_revision = "0001"\n'
    return f"{head}def upgrade():\n{body}\n"


def run(path: Path, *statements: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as conn, conn:
        for statement in statements[:-1]:
            conn.execute(statement)
        return conn.execute(statements[-1]).fetchall()


def test_migrations_that_make_what_the_code_declares_show_no_difference(shop: tuple[Path, Path]) -> None:
    assert schema_differences(shop[0], "shop", shop_metadata()) == []


def drop_column(metadata: sa.MetaData) -> None:
    table = metadata.tables["shop_part"]
    metadata.remove(table)
    sa.Table("shop_part", metadata, sa.Column("id", sa.Text, primary_key=True))


def another_type(metadata: sa.MetaData) -> None:
    metadata.tables["shop_item"].c.size.type = sa.Text()


def another_null(metadata: sa.MetaData) -> None:
    metadata.tables["shop_item"].c.size.nullable = False


def another_table(metadata: sa.MetaData) -> None:
    sa.Table("shop_more", metadata, sa.Column("id", sa.Text, primary_key=True))


def fewer_tables(metadata: sa.MetaData) -> None:
    metadata.remove(metadata.tables["shop_part"])


@pytest.mark.parametrize("change", [drop_column, another_type, another_null, another_table, fewer_tables])
def test_a_difference_in_tables_or_columns_is_found(
    shop: tuple[Path, Path], change: Callable[[sa.MetaData], None]
) -> None:
    metadata = shop_metadata()
    change(metadata)
    assert schema_differences(shop[0], "shop", metadata)


@pytest.mark.parametrize(
    "declared", [{"key": "name"}, {"check": "size >= 0"}, {"where": "state = 'live'"}, {"cascade": "RESTRICT"}]
)
def test_a_difference_in_keys_checks_or_partial_indexes_is_found(
    shop: tuple[Path, Path], declared: dict[str, str]
) -> None:
    assert schema_differences(shop[0], "shop", shop_metadata(**declared))


def test_the_tables_of_other_services_in_the_same_database_are_none_of_its_business(shop: tuple[Path, Path]) -> None:
    run(shop[0], "CREATE TABLE cluster_thing (id TEXT)")
    assert schema_differences(shop[0], "shop", shop_metadata()) == []


def test_a_table_without_the_services_prefix_is_a_difference(shop: tuple[Path, Path]) -> None:
    metadata = shop_metadata()
    sa.Table("thing", metadata, sa.Column("id", sa.Text, primary_key=True))
    assert schema_differences(shop[0], "shop", metadata)


def test_to_make_a_table_anew_keeps_the_rows_that_refer_to_it(shop: tuple[Path, Path]) -> None:
    path, migrations = shop
    run(path, "INSERT INTO shop_item VALUES ('i', 'n', 's', 1)", "INSERT INTO shop_part VALUES ('p', 'i')")
    drop = '    op.drop_index("shop_item_live", "shop_item")'
    add(migrations, "0002", second(f"{drop}\n{ANEW}"))
    migrate_service(path, "shop", migrations)
    assert run(path, "SELECT id, item FROM shop_part") == [("p", "i")]


def test_to_make_a_table_anew_that_would_lose_an_index_is_refused(shop: tuple[Path, Path]) -> None:
    path, migrations = shop
    add(migrations, "0002", second(ANEW))
    with pytest.raises(MigrationError, match="Skipped unsupported reflection of expression-based index shop_item_live"):
        migrate_service(path, "shop", migrations)
    assert schema_differences(path, "shop", shop_metadata()) == []


def test_a_migration_that_breaks_a_reference_is_refused(shop: tuple[Path, Path]) -> None:
    path, migrations = shop
    run(path, "INSERT INTO shop_item VALUES ('i', 'n', 's', 1)", "INSERT INTO shop_part VALUES ('p', 'i')")
    add(migrations, "0002", second('    op.execute("DELETE FROM shop_item")'))
    with pytest.raises(MigrationError, match="a row of shop_part refers to a row of shop_item that doesn't exist"):
        migrate_service(path, "shop", migrations)
    assert run(path, "SELECT count(*) FROM shop_item") == [(1,)]


def test_all_missing_migrations_of_a_service_are_one_transaction(shop: tuple[Path, Path]) -> None:
    path, migrations = shop
    add(migrations, "0002", second('    op.add_column("shop_item", sa.Column("note", sa.Text))'))
    third = 'revision = "0003"\ndown_revision = "0002"\ndef upgrade():\n    raise KeyError("broken")\n'
    add(migrations, "0003", third)
    with pytest.raises(MigrationError, match="is unchanged"):
        migrate_service(path, "shop", migrations)
    assert run(path, "SELECT version_num FROM shop_alembic_version") == [("0001",)]
    assert "note" not in {row[1] for row in run(path, "PRAGMA table_info(shop_item)")}


def test_a_migrated_service_is_left_as_it_is(shop: tuple[Path, Path]) -> None:
    path, migrations = shop
    before = path.read_bytes()
    migrate_service(path, "shop", migrations)
    assert path.read_bytes() == before

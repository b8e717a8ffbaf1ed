"""Tables of release."""

from __future__ import annotations

from anycloud_common.store import owner_table
from sqlalchemy import BigInteger, Column, MetaData, Table, Text

METADATA = MetaData()

OWNER = owner_table("release", METADATA)

# One row: the version and schema that served this data last. The migrator refuses older images by it.
STAMP = Table(
    "release_stamp",
    METADATA,
    Column("version", Text, nullable=False),
    Column("schema_version", BigInteger, nullable=False),
)

# Revisions of the API's own release. 1 is the installation, N + 1 is upgrade N.
REVISION = Table(
    "release_revision",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("api_version", Text, nullable=False),
    Column("api_image", Text, nullable=False),
    Column("chart_version", Text, nullable=False),
    Column("last_error", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

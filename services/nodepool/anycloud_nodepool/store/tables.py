"""Tables of nodepool. Times are epoch ms, but those that end in `_seen`, which are on the clock of sight."""

from __future__ import annotations

from anycloud_common import admission, feed, holds
from anycloud_common.events import event_table
from anycloud_common.store import change_table, leases, owner_table
from sqlalchemy import BigInteger, Boolean, Column, Index, LargeBinary, MetaData, Table, Text, text

PREFIX = "nodepool"
METADATA = MetaData()

OWNER = owner_table(PREFIX, METADATA)
CHANGE = change_table(PREFIX, METADATA)
HOLDS = holds.tables(PREFIX, METADATA)
ADMISSION = admission.tables(PREFIX, METADATA)
CURSOR = feed.tables(PREFIX, METADATA)

# `visible` is false between the admission's first step and its last. `name_key` is the name in lower case.
POOL = Table(
    "nodepool_pool",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("name_key", Text, nullable=False),
    Column("cluster_id", Text, nullable=False),
    Column("credential_id", Text, nullable=False),
    Column("credential_name", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("zone", Text),
    Column("vm_type", Text, nullable=False),
    Column("vm_count", BigInteger, nullable=False),
    Column("gpus", BigInteger, nullable=False),  # NVIDIA devices of one VM
    Column("created_by", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("visible", Boolean, nullable=False),
    Column("state", Text, nullable=False),
    Column("last_error", Text),
    Column("ready_count", BigInteger, nullable=False),
    Column("starting_count", BigInteger, nullable=False),
    Column("draining_count", BigInteger, nullable=False),
    Column("was_ready", Boolean, nullable=False),
    Column("parked", Text),
    Column("provider_failures", BigInteger, nullable=False),
    Column("failed_at", BigInteger, nullable=False),
    Column("retry_at", BigInteger, nullable=False),
    Column("provider_error", Text),
    Column("checked_at", BigInteger, nullable=False),
    Column("connection_problem", Text),
    Column("addon_problem", Text),
    Column("namespace", Text),
    Column("namespace_uid", Text),
    Column("namespace_error", Text),
    Column("policy_uid", Text),
    Column("deletion_requested_at", BigInteger),
    Column("deleted_at", BigInteger),
    *leases.columns(),
    Index(
        "nodepool_pool_live_name",
        "name_key",
        unique=True,
        sqlite_where=text("deleted_at IS NULL"),
        postgresql_where=text("deleted_at IS NULL"),
    ),
    Index(
        "nodepool_pool_listed",
        "created_at",
        "id",
        sqlite_where=text("visible = 1 AND deleted_at IS NULL"),
        postgresql_where=text("visible AND deleted_at IS NULL"),
    ),
)

# One VM each; rows stay, so that neither numbers nor names are used twice.
ATTEMPT = Table(
    "nodepool_attempt",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("pool_id", Text, nullable=False),
    Column("place", BigInteger, nullable=False),
    Column("replacement", BigInteger, nullable=False),
    Column("node_name", Text, nullable=False),
    Column("token_id", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("token_expires_at", BigInteger, nullable=False),
    Column("token_uid", Text),
    Column("token_gone", Boolean, nullable=False),
    Column("sealed_token", LargeBinary),
    Column("sealed_user_data", LargeBinary),
    Column("address", Text, nullable=False),
    Column("bought_at", BigInteger),
    Column("bought_seen", BigInteger),
    Column("node_uid", Text),
    Column("node_ready", Boolean, nullable=False),
    Column("ready_at", BigInteger),
    Column("not_ready_seen", BigInteger),
    Column("no_devices_seen", BigInteger),
    Column("cordoned", Boolean, nullable=False),
    Column("loss", Text),
    Column("loss_detail", Text),
    Column("released_at", BigInteger),
    Index("nodepool_attempt_pool_id", "pool_id"),
    Index("nodepool_attempt_number", "number"),
)

# One row: how long the cluster could be read in all, in ms.
SIGHT = Table(
    "nodepool_sight",
    METADATA,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("seen_ms", BigInteger, nullable=False),
)

# What happened to a pool, in order: 30 days or 1,000 a pool.
EVENT = event_table("nodepool", METADATA)

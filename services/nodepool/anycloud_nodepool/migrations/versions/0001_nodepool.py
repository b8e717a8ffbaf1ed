"""Node pools, their VMs, and the holds on them."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "nodepool_owner",
        sa.Column("owner_epoch", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("expires_at", sa.BigInteger),
    )
    op.create_table(
        "nodepool_change",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "nodepool_hold",
        sa.Column("admission_id", sa.Text, primary_key=True),
        sa.Column("parent_kind", sa.Text, primary_key=True),
        sa.Column("parent_id", sa.Text, primary_key=True),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("owner_kind", sa.Text, nullable=False),
        sa.Column("owner_id", sa.Text, nullable=False),
        sa.Column("devices", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("nodepool_hold_parent", "nodepool_hold", ["parent_kind", "parent_id"])
    op.create_table(
        "nodepool_hold_tombstone",
        sa.Column("admission_id", sa.Text, primary_key=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("nodepool_hold_tombstone_created_at", "nodepool_hold_tombstone", ["created_at"])
    op.create_table(
        "nodepool_hold_replacement",
        sa.Column("service", sa.Text, primary_key=True),
        sa.Column("incarnation", sa.Text, primary_key=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "nodepool_admission",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("owner_kind", sa.Text, nullable=False),
        sa.Column("owner_id", sa.Text, nullable=False),
        sa.Column("base_revision", sa.BigInteger, nullable=False),
        sa.Column("devices", sa.BigInteger, nullable=False),
        sa.Column("parents", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("owner_epoch", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("nodepool_admission_owner", "nodepool_admission", ["owner_kind", "owner_id"])
    op.create_index("nodepool_admission_state", "nodepool_admission", ["state"])
    op.create_table(
        "nodepool_feed_cursor",
        sa.Column("source", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("kinds", sa.Text, nullable=False),
    )
    op.create_table(
        "nodepool_pool",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("name_key", sa.Text, nullable=False),
        sa.Column("cluster_id", sa.Text, nullable=False),
        sa.Column("credential_id", sa.Text, nullable=False),
        sa.Column("credential_name", sa.Text, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("region", sa.Text, nullable=False),
        sa.Column("zone", sa.Text),
        sa.Column("vm_type", sa.Text, nullable=False),
        sa.Column("vm_count", sa.BigInteger, nullable=False),
        sa.Column("gpus", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("visible", sa.Boolean, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("last_error", sa.Text),
        sa.Column("ready_count", sa.BigInteger, nullable=False),
        sa.Column("starting_count", sa.BigInteger, nullable=False),
        sa.Column("draining_count", sa.BigInteger, nullable=False),
        sa.Column("was_ready", sa.Boolean, nullable=False),
        sa.Column("parked", sa.Text),
        sa.Column("provider_failures", sa.BigInteger, nullable=False),
        sa.Column("failed_at", sa.BigInteger, nullable=False),
        sa.Column("retry_at", sa.BigInteger, nullable=False),
        sa.Column("provider_error", sa.Text),
        sa.Column("checked_at", sa.BigInteger, nullable=False),
        sa.Column("connection_problem", sa.Text),
        sa.Column("addon_problem", sa.Text),
        sa.Column("namespace", sa.Text),
        sa.Column("namespace_uid", sa.Text),
        sa.Column("namespace_error", sa.Text),
        sa.Column("policy_uid", sa.Text),
        sa.Column("deletion_requested_at", sa.BigInteger),
        sa.Column("deleted_at", sa.BigInteger),
        sa.Column("lock_owner", sa.Text),
        sa.Column("lock_token", sa.Text),
    )
    op.create_index(
        "nodepool_pool_live_name",
        "nodepool_pool",
        ["name_key"],
        unique=True,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_table(
        "nodepool_attempt",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("pool_id", sa.Text, nullable=False),
        sa.Column("place", sa.BigInteger, nullable=False),
        sa.Column("replacement", sa.BigInteger, nullable=False),
        sa.Column("node_name", sa.Text, nullable=False),
        sa.Column("token_id", sa.Text, nullable=False),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("token_expires_at", sa.BigInteger, nullable=False),
        sa.Column("token_uid", sa.Text),
        sa.Column("token_gone", sa.Boolean, nullable=False),
        sa.Column("sealed_token", sa.LargeBinary),
        sa.Column("sealed_user_data", sa.LargeBinary),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("bought_at", sa.BigInteger),
        sa.Column("bought_seen", sa.BigInteger),
        sa.Column("node_uid", sa.Text),
        sa.Column("node_ready", sa.Boolean, nullable=False),
        sa.Column("ready_at", sa.BigInteger),
        sa.Column("not_ready_seen", sa.BigInteger),
        sa.Column("no_devices_seen", sa.BigInteger),
        sa.Column("cordoned", sa.Boolean, nullable=False),
        sa.Column("loss", sa.Text),
        sa.Column("loss_detail", sa.Text),
        sa.Column("released_at", sa.BigInteger),
    )
    op.create_index("nodepool_attempt_number", "nodepool_attempt", ["number"])
    op.create_index("nodepool_attempt_pool_id", "nodepool_attempt", ["pool_id"])
    op.create_table(
        "nodepool_sight",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("seen_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "nodepool_event",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("object_id", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text),
        sa.Column("message", sa.Text, nullable=False),
    )
    op.create_index("nodepool_event_object_id", "nodepool_event", ["object_id", "seq"])

"""Credentials, users and tokens, the ledger, clusters."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "cluster_owner",
        sa.Column("owner_epoch", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("expires_at", sa.BigInteger),
    )
    op.create_table(
        "cluster_change",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "cluster_hold",
        sa.Column("admission_id", sa.Text, primary_key=True),
        sa.Column("parent_kind", sa.Text, primary_key=True),
        sa.Column("parent_id", sa.Text, primary_key=True),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("owner_kind", sa.Text, nullable=False),
        sa.Column("owner_id", sa.Text, nullable=False),
        sa.Column("devices", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("cluster_hold_parent", "cluster_hold", ["parent_kind", "parent_id"])
    op.create_table(
        "cluster_hold_tombstone",
        sa.Column("admission_id", sa.Text, primary_key=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("cluster_hold_tombstone_created_at", "cluster_hold_tombstone", ["created_at"])
    op.create_table(
        "cluster_hold_replacement",
        sa.Column("service", sa.Text, primary_key=True),
        sa.Column("incarnation", sa.Text, primary_key=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "cluster_credential",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("shown", sa.Text, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("auth_failed_at", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "cluster_user",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("username", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "cluster_token",
        sa.Column("hash", sa.LargeBinary, primary_key=True),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("username", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
    )
    op.create_index("cluster_token_user_id", "cluster_token", ["user_id"])
    op.create_table(
        "cluster_resource",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("owner_kind", sa.Text, nullable=False),
        sa.Column("owner_id", sa.Text, nullable=False),
        sa.Column("credential_id", sa.Text, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("region", sa.Text, nullable=False),
        sa.Column("zone", sa.Text),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("sealed_user_data", sa.LargeBinary),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("provider_id", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("ssh_port", sa.BigInteger, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("sent_at", sa.BigInteger),
        sa.Column("confirmed_at", sa.BigInteger),
        sa.Column("failure_kind", sa.Text),
        sa.Column("failure_message", sa.Text),
        sa.Column("failure_at", sa.BigInteger),
        sa.Column("failure_count", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("lock_owner", sa.Text),
        sa.Column("lock_token", sa.Text),
    )
    op.create_index("cluster_resource_owner", "cluster_resource", ["owner_kind", "owner_id"])
    op.create_index("cluster_resource_state", "cluster_resource", ["state", "provider", "account"])
    op.create_table(
        "cluster_cluster",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("name_key", sa.Text, nullable=False),
        sa.Column("own", sa.Boolean, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("intent", sa.Text, nullable=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("phase_since", sa.BigInteger, nullable=False),
        sa.Column("interrupted", sa.Boolean, nullable=False),
        sa.Column("blocked", sa.Boolean, nullable=False),
        sa.Column("releasing", sa.Boolean, nullable=False),
        sa.Column("failures", sa.BigInteger, nullable=False),
        sa.Column("credential_id", sa.Text, nullable=False),
        sa.Column("credential_name", sa.Text, nullable=False),
        sa.Column("provider", sa.Text),
        sa.Column("account", sa.Text),
        sa.Column("region", sa.Text),
        sa.Column("zone", sa.Text),
        sa.Column("vm_type", sa.Text),
        sa.Column("k3s_version", sa.Text),
        sa.Column("k3s_sha256", sa.Text),
        sa.Column("helm_job_image", sa.Text),
        sa.Column("api_version", sa.Text, nullable=False),
        sa.Column("api_image", sa.Text, nullable=False),
        sa.Column("chart_version", sa.Text, nullable=False),
        sa.Column("chart_digest", sa.Text),
        sa.Column("bucket", sa.Text),
        sa.Column("bucket_managed", sa.Boolean, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("owner_user_id", sa.Text, nullable=False),
        sa.Column("owner_username", sa.Text, nullable=False),
        sa.Column("ssh_port", sa.BigInteger, nullable=False),
        sa.Column("address", sa.Text),
        sa.Column("endpoint", sa.Text),
        sa.Column("ca", sa.Text),
        sa.Column("kubernetes_identity", sa.Text),
        sa.Column("connection_revision", sa.BigInteger, nullable=False),
        sa.Column("api_url", sa.Text),
        sa.Column("release_revision", sa.BigInteger, nullable=False),
        sa.Column("released", sa.Boolean, nullable=False),
        sa.Column("served", sa.Boolean, nullable=False),
        sa.Column("certificates", sa.BigInteger, nullable=False),
        sa.Column("connected", sa.Boolean, nullable=False),
        sa.Column("last_error", sa.Text),
        sa.Column("accepting", sa.Boolean, nullable=False),
        sa.Column("delete_id", sa.Text),
        sa.Column("delete_stage", sa.Text, nullable=False),
        sa.Column("sealed_github_token", sa.LargeBinary),
        sa.Column("sealed_keys", sa.LargeBinary),
        sa.Column("sealed_connection", sa.LargeBinary),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("lock_owner", sa.Text),
        sa.Column("lock_token", sa.Text),
    )
    op.create_table(
        "cluster_fence",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("withdrawn", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "cluster_event",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("object_id", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text),
        sa.Column("message", sa.Text, nullable=False),
    )
    op.create_index("cluster_event_object_id", "cluster_event", ["object_id", "seq"])

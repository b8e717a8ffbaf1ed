"""Deployments, their Jobs, and Secrets."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "deployment_change",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "deployment_owner",
        sa.Column("owner_epoch", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("expires_at", sa.BigInteger),
    )
    op.create_table(
        "deployment_admission",
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
    op.create_index("deployment_admission_owner", "deployment_admission", ["owner_kind", "owner_id"])
    op.create_index("deployment_admission_state", "deployment_admission", ["state"])
    op.create_table(
        "deployment_feed_cursor",
        sa.Column("source", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("kinds", sa.Text, nullable=False),
    )
    op.create_table(
        "deployment_deployment",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("name_key", sa.Text, nullable=False),
        sa.Column("node_pool_id", sa.Text, nullable=False),
        sa.Column("node_pool_name", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("visible", sa.Boolean, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("applied", sa.BigInteger),
        sa.Column("applied_template", sa.Text),
        sa.Column("rolled_out", sa.BigInteger),
        sa.Column("replicas", sa.BigInteger, nullable=False),
        sa.Column("slots", sa.BigInteger, nullable=False),
        sa.Column("namespace", sa.Text),
        sa.Column("namespace_uid", sa.Text),
        sa.Column("service_account_uid", sa.Text),
        sa.Column("secret_uid", sa.Text),
        sa.Column("deployment_uid", sa.Text),
        sa.Column("block_reason", sa.Text),
        sa.Column("block_fatal", sa.Boolean, nullable=False),
        sa.Column("jobs_submitted", sa.BigInteger, nullable=False),
        sa.Column("deletion_requested_at", sa.BigInteger),
        sa.Column("deleted_at", sa.BigInteger),
        sa.Column("lock_owner", sa.Text),
        sa.Column("lock_token", sa.Text),
    )
    op.create_index(
        "deployment_deployment_active_name",
        "deployment_deployment",
        ["name_key"],
        unique=True,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index("deployment_deployment_node_pool", "deployment_deployment", ["node_pool_id"])
    op.create_table(
        "deployment_revision",
        sa.Column("deployment_id", sa.Text, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("env", sa.LargeBinary, nullable=False),
        sa.Column("resources", sa.Text, nullable=False),
        sa.Column("admission_id", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("deployment_id", "generation"),
    )
    op.create_table(
        "deployment_secret_reference",
        sa.Column("name_key", sa.Text, nullable=False),
        sa.Column("deployment_id", sa.Text, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name_key", "deployment_id", "generation"),
    )
    op.create_index("deployment_secret_reference_deployment", "deployment_secret_reference", ["deployment_id"])
    op.create_table(
        "deployment_secret",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("name_key", sa.Text, nullable=False, unique=True),
        sa.Column("values", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "deployment_job",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("deployment_id", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("session", sa.Text),
        sa.Column("session_label", sa.Text),
        sa.Column("agent", sa.Text),
        sa.Column("timeout_s", sa.Text),
        sa.Column("submission_revision", sa.BigInteger, nullable=False),
        sa.Column("queue_order", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("waiting", sa.Boolean, nullable=False),
        sa.Column("not_before", sa.BigInteger, nullable=False),
        sa.Column("retries", sa.BigInteger, nullable=False),
        sa.Column("claim_deadline_at", sa.BigInteger),
        sa.Column("claimed_at", sa.BigInteger),
        sa.Column("cancel_requested_at", sa.BigInteger),
        sa.Column("previous_execution_id", sa.Text),
        sa.Column("completed_at", sa.BigInteger),
        sa.Column("cleaned_at", sa.BigInteger),
        sa.Column("ended_by", sa.Text),
        sa.Column("message", sa.Text),
        sa.Column("execution_id", sa.Text),
        sa.Column("execution_claimed_at", sa.BigInteger),
        sa.Column("pod_uid", sa.Text),
        sa.Column("pod_name", sa.Text),
        sa.Column("generation", sa.BigInteger),
        sa.Column("node", sa.Text),
        sa.Column("node_uid", sa.Text),
        sa.Column("attempt", sa.Text),
        sa.Column("restarts", sa.BigInteger),
        sa.Column("outcome", sa.Text),
    )
    op.create_index("deployment_job_created_at", "deployment_job", ["created_at"])
    op.create_index("deployment_job_deadline", "deployment_job", ["deployment_id", "claim_deadline_at"])
    op.create_index("deployment_job_execution", "deployment_job", ["execution_id"], unique=True)
    op.create_index("deployment_job_order", "deployment_job", ["queue_order"])
    op.create_index("deployment_job_pod", "deployment_job", ["deployment_id", "pod_uid"])
    op.create_index("deployment_job_queue", "deployment_job", ["deployment_id", "waiting", "queue_order"])
    op.create_table(
        "deployment_job_history",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("deployment_id", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("session", sa.Text),
        sa.Column("session_label", sa.Text),
        sa.Column("agent", sa.Text),
        sa.Column("timeout_s", sa.Text),
        sa.Column("submission_revision", sa.BigInteger, nullable=False),
        sa.Column("queue_order", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("waiting", sa.Boolean, nullable=False),
        sa.Column("not_before", sa.BigInteger, nullable=False),
        sa.Column("retries", sa.BigInteger, nullable=False),
        sa.Column("claim_deadline_at", sa.BigInteger),
        sa.Column("claimed_at", sa.BigInteger),
        sa.Column("cancel_requested_at", sa.BigInteger),
        sa.Column("previous_execution_id", sa.Text),
        sa.Column("completed_at", sa.BigInteger),
        sa.Column("cleaned_at", sa.BigInteger),
        sa.Column("ended_by", sa.Text),
        sa.Column("message", sa.Text),
        sa.Column("execution_id", sa.Text),
        sa.Column("execution_claimed_at", sa.BigInteger),
        sa.Column("pod_uid", sa.Text),
        sa.Column("pod_name", sa.Text),
        sa.Column("generation", sa.BigInteger),
        sa.Column("node", sa.Text),
        sa.Column("node_uid", sa.Text),
        sa.Column("attempt", sa.Text),
        sa.Column("restarts", sa.BigInteger),
        sa.Column("outcome", sa.Text),
    )
    op.create_index("deployment_job_history_created_at", "deployment_job_history", ["created_at"])
    op.create_index("deployment_job_history_deployment", "deployment_job_history", ["deployment_id", "created_at"])
    op.create_table(
        "deployment_execution",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("pod_uid", sa.Text, nullable=False),
        sa.Column("ending", sa.Text, nullable=False),
        sa.Column("ended_at", sa.BigInteger, nullable=False),
    )
    op.create_index("deployment_execution_ended_at", "deployment_execution", ["ended_at"])
    op.create_table(
        "deployment_event",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("object_id", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text),
        sa.Column("state", sa.Text),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("detail", sa.Text),
        sqlite_autoincrement=True,
    )
    op.create_index("deployment_event_at", "deployment_event", ["at"])
    op.create_index("deployment_event_object", "deployment_event", ["kind", "object_id", "id"])

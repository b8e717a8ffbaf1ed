"""Jobs that bring their own image."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "deployment_image_job",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("run", sa.Text, nullable=False, unique=True),
        sa.Column("node_pool_id", sa.Text, nullable=False),
        sa.Column("node_pool_name", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("session", sa.Text),
        sa.Column("session_label", sa.Text),
        sa.Column("agent", sa.Text),
        sa.Column("image", sa.Text, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("env", sa.LargeBinary, nullable=False),
        sa.Column("resources", sa.Text, nullable=False),
        sa.Column("time_limit_s", sa.BigInteger),
        sa.Column("submission_revision", sa.BigInteger, nullable=False),
        sa.Column("admission_id", sa.Text, nullable=False),
        sa.Column("visible", sa.Boolean, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("namespace", sa.Text),
        sa.Column("job_uid", sa.Text),
        sa.Column("secret_uid", sa.Text),
        sa.Column("running_since", sa.BigInteger),
        sa.Column("cancel_requested_at", sa.BigInteger),
        sa.Column("stopping", sa.Text),
        sa.Column("completed_at", sa.BigInteger),
        sa.Column("cleaned_at", sa.BigInteger),
        sa.Column("exit_code", sa.BigInteger),
        sa.Column("message", sa.Text),
        sa.Column("block", sa.Text),
        sa.Column("output", sa.LargeBinary),
    )
    op.create_index("deployment_image_job_created_at", "deployment_image_job", ["created_at"])
    op.create_index("deployment_image_job_cleaned_at", "deployment_image_job", ["cleaned_at"])
    op.create_table(
        "deployment_image_job_secret",
        sa.Column("name_key", sa.Text, nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name_key", "job_id"),
    )
    op.create_index("deployment_image_job_secret_job", "deployment_image_job_secret", ["job_id"])

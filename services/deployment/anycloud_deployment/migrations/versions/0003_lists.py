"""Indexes in the order of the lists, so that a page costs the same however many rows are behind it."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_JOBS = "deployment_job"
_HISTORY = "deployment_job_history"
_DEPLOYMENTS = "deployment_deployment"
_IMAGE_JOBS = "deployment_image_job"


def upgrade() -> None:
    for table, name in (
        (_JOBS, "deployment_job_created_at"),
        (_HISTORY, "deployment_job_history_created_at"),
        (_HISTORY, "deployment_job_history_deployment"),
        (_IMAGE_JOBS, "deployment_image_job_created_at"),
        (_DEPLOYMENTS, "deployment_deployment_node_pool"),
    ):
        op.drop_index(name, table)
    for table in (_JOBS, _HISTORY):
        op.create_index(f"{table}_listed", table, ["created_at", "queue_order", "id"])
        op.create_index(f"{table}_deployment", table, ["deployment_id", "created_at", "queue_order", "id"])
    op.create_index("deployment_job_counts", _JOBS, ["deployment_id", "state", "execution_id"])
    op.create_index("deployment_deployment_node_pool", _DEPLOYMENTS, ["node_pool_id", "created_at", "id"])
    for table in (_DEPLOYMENTS, _IMAGE_JOBS):
        shown = {"sqlite_where": sa.text("visible = 1"), "postgresql_where": sa.text("visible")}
        hidden = {"sqlite_where": sa.text("visible = 0"), "postgresql_where": sa.text("NOT visible")}
        op.create_index(f"{table}_listed", table, ["created_at", "id"], **shown)
        op.create_index(f"{table}_hidden", table, ["id"], **hidden)

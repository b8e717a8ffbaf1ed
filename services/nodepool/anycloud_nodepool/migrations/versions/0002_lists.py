"""An index in the order of the list: pools that were deleted long ago cost it nothing."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_index(
        "nodepool_pool_listed",
        "nodepool_pool",
        ["created_at", "id"],
        sqlite_where=sa.text("visible = 1 AND deleted_at IS NULL"),
        postgresql_where=sa.text("visible AND deleted_at IS NULL"),
    )

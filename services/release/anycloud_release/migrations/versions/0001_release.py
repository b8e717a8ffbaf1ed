"""The stamp of who served this data, and the revisions of the API's own release."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "release_owner",
        sa.Column("owner_epoch", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("expires_at", sa.BigInteger),
    )
    op.create_table(
        "release_stamp",
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("schema_version", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "release_revision",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("api_version", sa.Text, nullable=False),
        sa.Column("api_image", sa.Text, nullable=False),
        sa.Column("chart_version", sa.Text, nullable=False),
        sa.Column("last_error", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )

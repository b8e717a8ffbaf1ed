"""The tables of the deployment service. Times are epoch milliseconds; sealed values are Cipher's."""

from __future__ import annotations

from typing import Any

from anycloud_common import admission, feed
from anycloud_common.store import change_table, leases, owner_table
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

SERVICE = "deployment"
metadata = MetaData()

changes = change_table(SERVICE, metadata)
owners = owner_table(SERVICE, metadata)
admissions = admission.tables(SERVICE, metadata)
cursors = feed.tables(SERVICE, metadata)

# `visible` is false between the admission's first step and its last. `name_key` is the name in lower case. `replicas`
# and `slots` repeat the requested revision's, for the path of a Job.
deployments = Table(
    "deployment_deployment",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("name_key", Text, nullable=False),
    Column("node_pool_id", Text, nullable=False),
    Column("node_pool_name", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("visible", Boolean, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("applied", BigInteger),
    Column("applied_template", Text),
    Column("rolled_out", BigInteger),
    Column("replicas", BigInteger, nullable=False),
    Column("slots", BigInteger, nullable=False),
    Column("namespace", Text),
    Column("namespace_uid", Text),
    Column("service_account_uid", Text),
    Column("secret_uid", Text),
    Column("deployment_uid", Text),
    Column("block_reason", Text),
    Column("block_fatal", Boolean, nullable=False),
    Column("jobs_submitted", BigInteger, nullable=False),
    Column("deletion_requested_at", BigInteger),
    Column("deleted_at", BigInteger),
    *leases.columns(),
    Index(
        "deployment_deployment_active_name",
        "name_key",
        unique=True,
        sqlite_where=text("deleted_at IS NULL"),
        postgresql_where=text("deleted_at IS NULL"),
    ),
    Index("deployment_deployment_node_pool", "node_pool_id", "created_at", "id"),
    Index(
        "deployment_deployment_listed",
        "created_at",
        "id",
        sqlite_where=text("visible = 1"),
        postgresql_where=text("visible"),
    ),
    Index(
        "deployment_deployment_hidden",
        "id",
        sqlite_where=text("visible = 0"),
        postgresql_where=text("NOT visible"),
    ),
)

# `settings` is JSON of everything in the spec but the environment, whose values are nobody's to read.
revisions = Table(
    "deployment_revision",
    metadata,
    Column("deployment_id", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("settings", Text, nullable=False),
    Column("env", LargeBinary, nullable=False),
    Column("resources", Text, nullable=False),
    Column("admission_id", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("deployment_id", "generation"),
)

# Which revisions name which Secrets, for as long as they may still be applied.
references = Table(
    "deployment_secret_reference",
    metadata,
    Column("name_key", Text, nullable=False),
    Column("deployment_id", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    PrimaryKeyConstraint("name_key", "deployment_id", "generation"),
    Index("deployment_secret_reference_deployment", "deployment_id"),
)

secrets = Table(
    "deployment_secret",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("name_key", Text, nullable=False, unique=True),
    Column("values", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)


def _job_columns() -> list[Column[Any]]:
    """`timeout_s` and `created_by` are what a repeated submission is known by. The columns from `execution_id` to
    `outcome` are the execution's, and null without one."""
    return [
        Column("id", Text, primary_key=True),
        Column("deployment_id", Text, nullable=False),
        Column("created_by", Text, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("session", Text),
        Column("session_label", Text),
        Column("agent", Text),
        Column("timeout_s", Text),
        Column("submission_revision", BigInteger, nullable=False),
        Column("queue_order", BigInteger, nullable=False),
        Column("state", Text, nullable=False),
        Column("waiting", Boolean, nullable=False),
        Column("not_before", BigInteger, nullable=False),
        Column("retries", BigInteger, nullable=False),
        Column("claim_deadline_at", BigInteger),
        Column("claimed_at", BigInteger),
        Column("cancel_requested_at", BigInteger),
        Column("previous_execution_id", Text),
        Column("completed_at", BigInteger),
        Column("cleaned_at", BigInteger),
        Column("ended_by", Text),
        Column("message", Text),
        Column("execution_id", Text),
        Column("execution_claimed_at", BigInteger),
        Column("pod_uid", Text),
        Column("pod_name", Text),
        Column("generation", BigInteger),
        Column("node", Text),
        Column("node_uid", Text),
        Column("attempt", Text),
        Column("restarts", BigInteger),
        Column("outcome", Text),
    ]


# What isn't cleaned up yet. Claims touch this table only, so they cost the same whatever went before.
jobs = Table(
    "deployment_job",
    metadata,
    *_job_columns(),
    Index("deployment_job_queue", "deployment_id", "waiting", "queue_order"),
    Index("deployment_job_pod", "deployment_id", "pod_uid"),
    Index("deployment_job_execution", "execution_id", unique=True),
    Index("deployment_job_deadline", "deployment_id", "claim_deadline_at"),
    Index("deployment_job_order", "queue_order"),
    Index("deployment_job_listed", "created_at", "queue_order", "id"),
    Index("deployment_job_deployment", "deployment_id", "created_at", "queue_order", "id"),
    Index("deployment_job_counts", "deployment_id", "state", "execution_id"),
)

# What is over and cleaned up.
history = Table(
    "deployment_job_history",
    metadata,
    *_job_columns(),
    Index("deployment_job_history_listed", "created_at", "queue_order", "id"),
    Index("deployment_job_history_deployment", "deployment_id", "created_at", "queue_order", "id"),
)

# Executions that are over: a claim can't use their ids again, and a repeated report is told from a late one.
executions = Table(
    "deployment_execution",
    metadata,
    Column("id", Text, primary_key=True),
    Column("job_id", Text, nullable=False),
    Column("pod_uid", Text, nullable=False),
    Column("ending", Text, nullable=False),
    Column("ended_at", BigInteger, nullable=False),
    Index("deployment_execution_ended_at", "ended_at"),
)

# Jobs that bring their own image; each submission is a run of its own. `visible` is false between a first admission's
# first step and its last. `settings` is as a revision's. `version` counts changes: a pass writes over no other's.
# `output` is the last of what the container wrote, compressed and sealed.
image_jobs = Table(
    "deployment_image_job",
    metadata,
    Column("id", Text, primary_key=True),
    Column("run", Text, nullable=False, unique=True),
    Column("node_pool_id", Text, nullable=False),
    Column("node_pool_name", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("session", Text),
    Column("session_label", Text),
    Column("agent", Text),
    Column("image", Text, nullable=False),
    Column("settings", Text, nullable=False),
    Column("env", LargeBinary, nullable=False),
    Column("resources", Text, nullable=False),
    Column("time_limit_s", BigInteger),
    Column("submission_revision", BigInteger, nullable=False),
    Column("admission_id", Text, nullable=False),
    Column("visible", Boolean, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("namespace", Text),
    Column("job_uid", Text),
    Column("secret_uid", Text),
    Column("running_since", BigInteger),
    Column("cancel_requested_at", BigInteger),
    Column("stopping", Text),
    Column("completed_at", BigInteger),
    Column("cleaned_at", BigInteger),
    Column("exit_code", BigInteger),
    Column("message", Text),
    Column("block", Text),
    Column("output", LargeBinary),
    Index(
        "deployment_image_job_listed",
        "created_at",
        "id",
        sqlite_where=text("visible = 1"),
        postgresql_where=text("visible"),
    ),
    Index(
        "deployment_image_job_hidden",
        "id",
        sqlite_where=text("visible = 0"),
        postgresql_where=text("NOT visible"),
    ),
    Index("deployment_image_job_cleaned_at", "cleaned_at"),
)

# Which Secrets they name, until they are over.
image_job_secrets = Table(
    "deployment_image_job_secret",
    metadata,
    Column("name_key", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    PrimaryKeyConstraint("name_key", "job_id"),
    Index("deployment_image_job_secret_job", "job_id"),
)

# Append-only, 30 days or 1,000 an object. `detail` is JSON.
events = Table(
    "deployment_event",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("kind", Text, nullable=False),
    Column("object_id", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("request_id", Text),
    Column("state", Text),
    Column("reason", Text, nullable=False),
    Column("detail", Text),
    Index("deployment_event_object", "kind", "object_id", "id"),
    Index("deployment_event_at", "at"),
    sqlite_autoincrement=True,
)

"""Tables of cluster. Times are epoch ms. Whatever is secret is sealed (or a hash), and of type BLOB."""

from __future__ import annotations

from anycloud_common import holds
from anycloud_common.events import event_table
from anycloud_common.store import change_table, leases, owner_table
from sqlalchemy import BigInteger, Boolean, Column, Index, LargeBinary, MetaData, Table, Text

PREFIX = "cluster"
METADATA = MetaData()

OWNER = owner_table(PREFIX, METADATA)
CHANGE = change_table(PREFIX, METADATA)
HOLDS = holds.tables(PREFIX, METADATA)

# `account` is the account, project or subscription, as the cloud said it. `shown` is JSON of what may be answered.
CREDENTIAL = Table(
    "cluster_credential",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("provider", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("shown", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("auth_failed_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

# GitHub accounts that may use a hosted API besides its owner.
USER = Table(
    "cluster_user",
    METADATA,
    Column("id", Text, primary_key=True),  # GitHub's number
    Column("username", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# API tokens by their SHA-256. `expires_at` null: until rotated or revoked.
TOKEN = Table(
    "cluster_token",
    METADATA,
    Column("hash", LargeBinary, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("username", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Index("cluster_token_user_id", "user_id"),
)

# The ledger: everything that was made, or is to be made, outside. `id` is the token that its owner chose; a row whose
# kind is empty only says that its token was released before it was ever asked for.
RESOURCE = Table(
    "cluster_resource",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("owner_kind", Text, nullable=False),
    Column("owner_id", Text, nullable=False),
    Column("credential_id", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("zone", Text),
    Column("name", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("sealed_user_data", LargeBinary),
    Column("tags", Text, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("provider_id", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("ssh_port", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("sent_at", BigInteger),
    Column("confirmed_at", BigInteger),
    Column("failure_kind", Text),
    Column("failure_message", Text),
    Column("failure_at", BigInteger),
    Column("failure_count", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    *leases.columns(),
    Index("cluster_resource_owner", "owner_kind", "owner_id"),
    Index("cluster_resource_state", "state", "provider", "account"),
)

# Clusters. `own` marks a hosted API's record of the one that it runs on, which has no creation facts.
CLUSTER = Table(
    "cluster_cluster",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("name_key", Text, nullable=False),
    Column("own", Boolean, nullable=False),
    Column("state", Text, nullable=False),
    Column("intent", Text, nullable=False),  # create, delete; empty: nothing to do
    Column("phase", Text, nullable=False),  # the next one; empty: none
    Column("phase_since", BigInteger, nullable=False),  # when that was begun, or begun again by a person
    Column("interrupted", Boolean, nullable=False),
    Column("blocked", Boolean, nullable=False),
    Column("releasing", Boolean, nullable=False),
    Column("failures", BigInteger, nullable=False),
    Column("credential_id", Text, nullable=False),
    Column("credential_name", Text, nullable=False),
    Column("provider", Text),
    Column("account", Text),
    Column("region", Text),
    Column("zone", Text),
    Column("vm_type", Text),
    Column("k3s_version", Text),
    Column("k3s_sha256", Text),
    Column("helm_job_image", Text),
    Column("api_version", Text, nullable=False),
    Column("api_image", Text, nullable=False),
    Column("chart_version", Text, nullable=False),
    Column("chart_digest", Text),
    Column("bucket", Text),
    Column("bucket_managed", Boolean, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("owner_user_id", Text, nullable=False),
    Column("owner_username", Text, nullable=False),
    Column("ssh_port", BigInteger, nullable=False),
    Column("address", Text),
    Column("endpoint", Text),
    Column("ca", Text),
    Column("kubernetes_identity", Text),
    Column("connection_revision", BigInteger, nullable=False),
    Column("api_url", Text),
    Column("release_revision", BigInteger, nullable=False),  # 0: no release intent yet
    Column("released", Boolean, nullable=False),  # its HelmChart exists
    Column("served", Boolean, nullable=False),  # the API was seen serving
    Column("certificates", BigInteger, nullable=False),  # how many were asked for
    Column("connected", Boolean, nullable=False),
    Column("last_error", Text),
    Column("accepting", Boolean, nullable=False),
    Column("delete_id", Text),
    Column("delete_stage", Text, nullable=False),  # fencing, withdrawing; empty: neither
    Column("sealed_github_token", LargeBinary),
    Column("sealed_keys", LargeBinary),
    Column("sealed_connection", LargeBinary),
    Column("version", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    *leases.columns(),
)

# Deletions by an installer that this hosted API heard of. A withdrawn one is refused when it comes late.
FENCE = Table(
    "cluster_fence",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("withdrawn", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# What happened to a cluster, in order: 30 days or 1,000 a cluster.
EVENT = event_table("cluster", METADATA)

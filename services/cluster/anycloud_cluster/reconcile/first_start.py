"""A hosted API's record of the cluster that it runs on, made of the release values once these have proven true."""

from __future__ import annotations

from functools import partial
from typing import Any

from anycloud_common.kube import KubeError
from anycloud_common.release_values import ReleaseValues
from anycloud_common.store import Store, Tx

from anycloud_cluster.domain.cluster import State
from anycloud_cluster.domain.ports import Cluster
from anycloud_cluster.store import clusters, events


class FirstStartError(Exception):
    """This API must not serve here; the text is one sentence for the operator."""


async def record_own_cluster(store: Store, values: ReleaseValues, kubernetes: Cluster) -> None:
    """Compares the identity of the cluster around us with that of the release values, then writes or renews the record.

    A record of another identity is a restored one: it takes over the new cluster. Raises FirstStartError.
    """
    try:
        uid = await kubernetes.uid()
    except KubeError as error:
        raise FirstStartError(f"The cluster's kube-system Namespace can't be read: {error.message}.") from error
    if uid != values.cluster.identity:
        raise FirstStartError(
            f"The release values name the cluster with the kube-system UID {values.cluster.identity}, and this API "
            f"runs in the one with {uid}: it does not start on another cluster."
        )
    await store.write(partial(_record, values))


def _record(values: ReleaseValues, tx: Tx) -> None:
    facts = _facts(values)
    known = clusters.by_id(tx.conn, values.cluster.id)
    if known is None:
        clusters.add(tx, {"id": values.cluster.id, "own": True, **facts})
        events.append(tx, values.cluster.id, "own.recorded", f"Recorded from release {values.api.revision}.")
    elif any(getattr(known, key) != value for key, value in facts.items()):
        adopted = known.kubernetes_identity != values.cluster.identity
        revision = known.connection_revision + 1 if adopted else known.connection_revision
        accepting = True if adopted else known.accepting
        clusters.change(tx, known, {**facts, "connection_revision": revision, "accepting": accepting})
        events.append(tx, known.id, "own.adopted" if adopted else "own.renewed", "The release values are new.")


def _facts(values: ReleaseValues) -> dict[str, Any]:
    return {
        "name": values.cluster.name,
        "state": State.RUNNING,
        "api_version": values.api.version,
        "api_image": values.api.image,
        "chart_version": values.api.chart_version,
        "created_by": f"github:{values.owner.user_id}",
        "owner_user_id": values.owner.user_id,
        "owner_username": values.owner.username,
        "address": values.cluster.address,
        "endpoint": values.cluster.endpoint,
        "ca": values.cluster.ca,
        "kubernetes_identity": values.cluster.identity,
        "api_url": values.api.url,
        "release_revision": values.api.revision,
        "released": True,
        "served": True,
        "connected": True,
    }

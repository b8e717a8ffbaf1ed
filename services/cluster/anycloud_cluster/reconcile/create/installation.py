"""An install of the API's chart that doesn't get on: what is wrong with it, and a new beginning where nobody else makes
one. Three of them, so that what never works is told rather than tried for ever."""

from __future__ import annotations

from typing import Final

from anycloud_common.kube import names

from anycloud_cluster.domain import charts, helm
from anycloud_cluster.domain.ports import Cluster
from anycloud_cluster.reconcile.work import Permanent, Work

REPAIRS: Final = 3
_REPAIRED: Final = "release.begun-anew"


async def trouble(work: Work, kubernetes: Cluster) -> str | None:
    """Why there is no Pod of the API yet, in Helm's words; None while nothing went wrong. Raises Permanent.

    Kubernetes removes the Pods of a Job that gives up: then the words from before count."""
    job = await kubernetes.get("Job", helm.JOB, charts.NAMESPACE)
    if job is None:
        return None
    reason = helm.trouble(await kubernetes.list("Pod", charts.NAMESPACE, helm.JOB_PODS))
    if not helm.gave_up(job):
        return reason
    records = await kubernetes.list("Secret", names.NAMESPACE_API, helm.RECORDS)
    reason = reason or work.cluster.last_error or "Helm couldn't install the API's chart, and its Job has ended."
    if not helm.never_ran(records):
        return reason
    await _note(work, reason)
    for record in records:
        metadata = record["metadata"]
        await kubernetes.delete("Secret", metadata["name"], names.NAMESPACE_API, metadata["uid"])
    await kubernetes.delete("Job", helm.JOB, charts.NAMESPACE, job["metadata"]["uid"])
    return reason


async def _note(work: Work, reason: str) -> None:
    """On record before it is done. Raises Permanent once it was tried often enough."""
    begun = await work.count(_REPAIRED)
    if begun >= REPAIRS:
        raise Permanent(f"The install was begun anew {begun} times. {reason}")
    await work.record(_REPAIRED, reason)

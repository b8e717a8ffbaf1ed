"""How far helm-controller got with the API's chart, by its Job and by Helm's own records.

The first Job that is cut off while it installs leaves a record that says `pending-install`. Under the failure policy
`abort` (any other one may uninstall what holds data) the Job's image then only waits for a person, for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from anycloud_cluster.domain.cluster import API_CHART

Object = dict[str, Any]

JOB: Final = f"helm-install-{API_CHART}"
JOB_PODS: Final = {"helmcharts.helm.cattle.io/chart": API_CHART}
RECORDS: Final = {"owner": "helm", "name": API_CHART}
# Whoever has one of these runs a release, or ran one: a person must say what is to become of it.
_HAS_RUN: Final = ("deployed", "superseded", "uninstalling", "uninstalled", "pending-upgrade", "pending-rollback")
_TEXT: Final = 300


def gave_up(job: Object) -> bool:
    """Whether the Job has had all its attempts."""
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(item["type"] == "Failed" and item["status"] == "True" for item in conditions)


def never_ran(records: Iterable[Object]) -> bool:
    """Whether no release of the API has ever been complete, by the labels of Helm's records."""
    return all(_status(record) not in _HAS_RUN for record in records)


def trouble(pods: Sequence[Object]) -> str | None:
    """What the Job's Pods report of an attempt that failed; None while none did."""
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), reverse=True):
        for container in (pod.get("status") or {}).get("containerStatuses") or []:
            ended = _failed_run(container)
            if ended is not None:
                text = " ".join(str(ended.get("message") or "").split())[:_TEXT]
                return f"Helm couldn't install the API's chart (exit code {ended['exitCode']}): {text or 'no message'}"
    return None


def _failed_run(container: Object) -> Object | None:
    for key in ("state", "lastState"):
        ended: Object | None = (container.get(key) or {}).get("terminated")
        if ended is not None and ended.get("exitCode"):
            return ended
    return None


def _status(record: Object) -> str:
    return str((record["metadata"].get("labels") or {}).get("status", ""))

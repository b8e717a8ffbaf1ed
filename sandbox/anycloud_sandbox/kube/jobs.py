"""The controller of batch Jobs: one Pod each, once. Jobs of Helm are scripted: they are done at once."""

import time

from anycloud_sandbox.kube.store import Store, dig, fill, owners_of, timestamp
from anycloud_sandbox.state import Json

HELM = "helmcharts.helm.cattle.io/chart"
LIMIT = "Job has reached the specified backoff limit"


def control(store: Store, job: Json) -> None:
    """Makes the Pod of a Job that never had one, and says how that ended; a Pod that is gone has failed."""
    meta, status = job["metadata"], job["status"]
    if HELM in (meta.get("labels") or {}):
        store.tell(job, fill("job-done"))
        return
    if "deletionTimestamp" in meta or status.get("conditions"):
        return
    pods = [pod for pod in store.all("pods") if meta["uid"] in owners_of(pod)]
    if not pods and not status.get("startTime"):
        store.create("pods", meta["namespace"], _pod(job))
        store.tell(job, {"status": {"active": 1, "startTime": timestamp(time.time())}})
        return
    phase = dig(pods[0], "status.phase") if pods else "Failed"
    if phase == "Succeeded":
        ended = {"active": 0, "succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}
    elif phase == "Failed":
        failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": LIMIT}
        ended = {"active": 0, "failed": 1, "conditions": [failed]}
    else:
        ended = {"ready": int(phase == "Running")}
    store.tell(job, {"status": ended})


def _pod(job: Json) -> Json:
    meta, template = job["metadata"], job["spec"]["template"]
    labels = {"batch.kubernetes.io/job-name": meta["name"], "batch.kubernetes.io/controller-uid": meta["uid"]}
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": meta["name"], "uid": meta["uid"]}
    about = {"generateName": meta["name"] + "-", "labels": (dig(template, "metadata.labels") or {}) | labels}
    about["ownerReferences"] = [owner | {"controller": True, "blockOwnerDeletion": True}]
    return {"metadata": about, "spec": template["spec"]}

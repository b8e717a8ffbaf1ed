"""What the product does on a cluster, from the first node pool to its end, over /v1; and what others undo meanwhile.

Each flow waits for what it is about. Together they lead the product through all that it asks of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from anycloud_common.kube import names
from anycloud_nodepool.domain.addons import DEVICE_PLUGIN
from anycloud_nodepool.domain.egress import POLICY

from tests.contract.world import CREDENTIAL, Api
from tests.kube.hosted import PODS, RELEASE_SECRET, Hosted
from tests.kube.strangers import Attempt, with_certificate, with_token
from tests.support.control_plane import Refused
from tests.support.installation import until

Json = dict[str, Any]

SECONDS = 60.0
IMAGE, ENDING_IMAGE = "anycloud-test/waiting:1", "anycloud-test/ending:1"
SECRET_WORD = "a-word-that-only-its-secret-holds"

_EVERYWHERE = ("/api/v1/namespaces", "/api/v1/nodes", "/api/v1/secrets", "/api/v1/namespaces/kube-system/secrets")

# Tells its environment, then waits for its end; a file makes it crash.
_WAITING = """
env > "$ROOM/$ANYCLOUD_DEPLOYMENT_ID.new"
mv "$ROOM/$ANYCLOUD_DEPLOYMENT_ID.new" "$ROOM/$ANYCLOUD_DEPLOYMENT_ID"
echo told
trap 'exit 0' TERM
while ! rm "$ROOM/crash" 2>/dev/null; do sleep 0.2; done
exit 1
"""


class Flows:
    """`room` is a directory that the containers share with the test."""

    def __init__(self, hosted: Hosted, room: Path) -> None:
        self.hosted, self.plane, self.room = hosted, hosted.plane, room
        self.api: Api = hosted.sign_in()
        self.pool: Json = {}
        self.pool_ids: list[str] = []
        self.deployment: Json = {}
        self.namespace = ""
        self.knocks: dict[str, dict[str, int]] = {}
        self.pod_spec: Json = {}
        room.mkdir()
        hosted.sandbox.image(IMAGE, ["/bin/sh", "-c", _WAITING], env={"ROOM": str(room)}, labels={})

    # Node pool and Deployment

    def make_a_node_pool(self) -> None:
        self.api.ask("PUT", "/credentials/aws?overwrite=true", CREDENTIAL)
        self.pool = self._pool("pool", "m5.large")

    def make_a_deployment(self) -> None:
        self.api.ask("PUT", "/secrets/word", {"values": {"WORD": SECRET_WORD}})
        body = {"name": "waiting", "image": IMAGE, "nodePool": self.pool["id"], "secrets": ["word"]}
        made = self.api.ask("POST", "/deployments", body)["deployment"]
        self.deployment = until(lambda: self._ready(made["id"], 1), SECONDS)
        assert self._told()["WORD"] == SECRET_WORD
        self.namespace = names.pool_namespace(self.pool["clusterId"], self.pool["id"])

    def upgrade_it(self) -> None:
        self.api.ask("PATCH", self._path(), {"env": {"REVISION": "2"}})
        self.deployment = until(lambda: self._ready(self.deployment["id"], 2), SECONDS)
        assert until(lambda: self._told().get("REVISION"), SECONDS) == "2"

    def change_a_secret(self) -> None:
        """Its Kubernetes object follows by itself."""
        self.api.ask("PUT", "/secrets/word", {"values": {"WORD": SECRET_WORD + "-2"}})
        before = self._native("secrets")["metadata"]["resourceVersion"]
        self.api.ask("PATCH", self._path(), {"env": {"REVISION": "3"}})
        self.deployment = until(lambda: self._ready(self.deployment["id"], 3), SECONDS)
        assert self._native("secrets")["metadata"]["resourceVersion"] != before

    def read_logs(self) -> None:
        assert until(lambda: "told" in self._text(f"{self._path()}/logs"), SECONDS)

    # Jobs

    def finish_a_job(self) -> None:
        job, execution = self._claimed()
        self._report(job, execution)
        assert self._state(job) == "completed"

    def lose_a_job_with_its_container(self) -> None:
        """A container that restarts around a claim leaves open whose Job that was: its Pod is replaced."""
        pod = self._pod()["metadata"]["uid"]
        job, _ = self._claimed()
        (self.room / "crash").touch()
        until(lambda: self._pod_uids() and pod not in self._pod_uids(), SECONDS)
        self._lost(job)

    def lose_a_job_with_its_pod(self) -> None:
        """Somebody removes the Pod by force. That its containers have ended is believed when its Node, alive, has
        renewed its lease since."""
        job, _ = self._claimed()
        pod = self._pod()["metadata"]["name"]
        self.plane.call("DELETE", f"/api/v1/namespaces/{self.namespace}/pods/{pod}", {"gracePeriodSeconds": 0})
        self._lost(job)

    def run_jobs_that_bring_an_image(self) -> None:
        """One to its end, one until somebody ends it."""
        self.hosted.sandbox.image(ENDING_IMAGE, ["/bin/sh", "-c", "echo told $WORD; exit 0"], env={}, labels={})
        ended = self._submitted(ENDING_IMAGE)
        until(lambda: self._state(ended) == "completed", SECONDS)
        assert f"told {SECRET_WORD}" in self._text(f"/workloads/{ended}/logs")
        cancelled = self._submitted(IMAGE)
        until(lambda: self._state(cancelled) == "running", SECONDS)
        self.api.ask("DELETE", f"/workloads/{cancelled}")
        jobs = f"/apis/batch/v1/namespaces/{self.namespace}/jobs"
        until(lambda: not self.plane.call("GET", jobs)["items"], SECONDS)

    # What its containers and Nodes may do

    def knock_at_the_api_server(self) -> None:
        """`knocks` has what they were answered: containers with their token, somebody with a token of their account
        that is for the API server, and a Node with its certificate."""
        room, worker = f"/api/v1/namespaces/{self.namespace}", Path(self._told()["ANYCLOUD_WORKLOAD_TOKEN_FILE"])
        reads: list[Attempt] = [("GET", path, None) for path in (*_EVERYWHERE, f"{room}/secrets", f"{room}/pods")]
        own = self._pod()
        certificate = next(self.hosted.sandbox.state.glob("machines/*/client.pem"))
        node, system = f"/api/v1/nodes/{own['spec']['nodeName']}", "/api/v1/namespaces/kube-system"
        self.plane.ensure("/api/v1/nodes", {"metadata": {"name": "another"}})
        claim = {"metadata": {"labels": {"node-restriction.kubernetes.io/claim": "x"}}}
        attempts: list[Attempt] = [
            ("GET", f"{room}/secrets/{self.deployment['id']}", None),
            ("GET", RELEASE_SECRET, None),
            ("GET", f"{room}/secrets", None),
            ("PATCH", node, claim),
            ("PATCH", "/api/v1/nodes/another", {"spec": {"unschedulable": True}}),
            ("POST", f"{system}/serviceaccounts/default/token", {"spec": {"audiences": []}}),
            ("DELETE", f"{PODS}/{self.plane.call('GET', PODS)['items'][0]['metadata']['name']}", None),
        ]
        self.knocks = {
            "container": with_token(self.plane, worker.read_text().strip(), reads),
            "account": with_token(self.plane, self.plane.account_token(self.namespace, self.deployment["id"]), reads),
            "node": with_certificate(self.plane, certificate, attempts),
        }
        self.pod_spec = own["spec"]
        self.plane.call("DELETE", "/api/v1/nodes/another")

    # What others undo

    def repair_the_egress_policy(self) -> None:
        path = f"/apis/networking.k8s.io/v1/namespaces/{self.namespace}/networkpolicies/{POLICY}"
        wanted = self.plane.call("GET", path)["spec"]
        self.plane.call("PATCH", path, {"spec": {"egress": [{}]}})
        until(lambda: self.plane.call("GET", path)["spec"] == wanted, SECONDS)

    def repair_a_deployments_objects(self) -> None:
        """Whatever of them is deleted is made anew; a new ServiceAccount starts a revision, whose Pods are of it."""
        for plural in ("secrets", "serviceaccounts", "deployments"):
            uid = self._native(plural)["metadata"]["uid"]
            self.plane.call("DELETE", self._native_path(plural))
            until(lambda plural=plural, uid=uid: self._another(plural, uid), SECONDS)  # type: ignore[misc]
        generation = self.api.ask("GET", self._path())["deployment"]["generation"]
        assert generation > 3
        self.deployment = until(lambda: self._ready(self.deployment["id"], generation), SECONDS)

    # GPUs

    def bring_the_gpu_add_on(self) -> None:
        """Made for the first GPU pool; what is changed is put right, and what can't be is made anew."""
        self._pool("gpus", "g4dn.xlarge")
        plugin = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{DEVICE_PLUGIN}"
        runtime = f"/apis/node.k8s.io/v1/runtimeclasses/{names.RUNTIME_CLASS_NVIDIA}"
        intent = {"metadata": {"annotations": {names.ANNOTATION_INTENT: None}}}
        for path in (plugin, runtime):
            self.plane.call("PATCH", path, intent)
            self._until_gpus_were_seen_to(lambda path=path: _intent(self.plane.call("GET", path)))  # type: ignore[misc]
        for path, change in ((plugin, _other_selector), (runtime, _other_handler)):
            wanted = self.plane.call("GET", path)
            made = change(wanted)
            until(lambda path=path, made=made: self._replaced(path, made), SECONDS)  # type: ignore[misc]
            self._until_gpus_were_seen_to(lambda path=path, wanted=wanted: self._as_wanted(path, wanted))  # type: ignore[misc]

    # The end

    def delete_everything(self) -> None:
        self.api.ask("DELETE", self._path())
        until(lambda: self._settled(self._path(), "deployment"), SECONDS)
        for plural in ("secrets", "serviceaccounts", "deployments"):
            assert self.plane.find(self._native_path(plural)) is None
        for pool in ("pool", "gpus"):
            self.api.ask("DELETE", f"/node-pools/{pool}")
        for pool in ("pool", "gpus"):
            until(lambda pool=pool: self._settled(f"/node-pools/{pool}", "nodePool"), SECONDS)  # type: ignore[misc]
        assert self.plane.find(f"/api/v1/namespaces/{self.namespace}") is None
        for pool_id in self.pool_ids:  # tests beside this one have Nodes of their own
            of_pool = f"{names.LABEL_NODE_POOL}={pool_id}"
            assert self.plane.call("GET", f"/api/v1/nodes?labelSelector={of_pool}")["items"] == []

    # Helpers

    def _pool(self, name: str, vm_type: str) -> Json:
        place = {"region": "us-east-1", "vmTypes": [vm_type], "minVmCount": 1, "maxVmCount": 1}
        self.api.ask("POST", "/node-pools", {"name": name, "credentialName": "aws", **place})

        def running() -> Json | None:
            found: Json = self.api.ask("GET", f"/node-pools/{name}")["nodePool"]
            assert found["state"] != "failed", found["lastError"]
            return found if found["state"] == "running" and found["capacity"]["readyVmCount"] == 1 else None

        made = until(running, SECONDS)
        self.pool_ids.append(made["id"])
        return made

    def _path(self) -> str:
        return f"/deployments/{self.deployment['id']}"

    def _ready(self, deployment: str, generation: int) -> Json | None:
        """Once its Pod of that revision is ready and has told its environment."""
        found: Json = self.api.ask("GET", f"/deployments/{deployment}")["deployment"]
        status = found["status"]
        if not (status["ready"] and status.get("podGeneration") == generation and (self.room / deployment).exists()):
            return None
        self.deployment = found
        return found if status["podUid"] in self._told()["ANYCLOUD_WORKLOAD_TOKEN_FILE"] else None

    def _settled(self, path: str, key: str) -> bool:
        answer = self.api.call("GET", path)
        if answer.status_code == 404:
            return True
        found = answer.json()[key]
        status = found.get("status", found)
        return bool(status["state"] == "terminated" and not status.get("releasing"))

    def _told(self) -> dict[str, str]:
        lines = (self.room / self.deployment["id"]).read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def _worker(self) -> Api:
        token = Path(self._told()["ANYCLOUD_WORKLOAD_TOKEN_FILE"]).read_text().strip()
        return Api(self.hosted.url, token)

    def _claimed(self) -> tuple[str, str]:
        """A Job and its execution, held by the container."""
        job, execution = f"job-{uuid4()}", str(uuid4())
        self.api.ask("POST", "/workloads", {"deployment": self.deployment["id"], "id": job})

        def candidate() -> Json | None:
            answer = self._worker().call("GET", f"{self._path()}/jobs/candidate?waitMs=5000")
            return answer.json() if answer.status_code == 200 else None

        offered = until(candidate, SECONDS)
        assert offered["jobId"] == job
        claim = {key: offered.get(key) for key in ("submissionRevision", "previousExecutionId")}
        path = f"{self._path()}/jobs/{job}/claim"
        self._worker().ask("POST", path, claim, **{"idempotency-key": execution})
        return job, execution

    def _submitted(self, image: str) -> str:
        job = f"job-{uuid4()}"
        body = {"id": job, "image": image, "nodePool": self.pool["id"], "cloudConfig": {}, "secrets": ["word"]}
        self.api.ask("POST", "/workloads", body)
        return job

    def _state(self, job: str) -> str:
        return str(self.api.ask("GET", f"/workloads/{job}")["workload"]["state"])

    def _text(self, path: str) -> str:
        return self.api.call("GET", path).text

    def _report(self, job: str, execution: str) -> None:
        path = f"{self._path()}/jobs/{job}"
        self._worker().ask("POST", f"{path}/outcome", {"executionId": execution, "outcome": "completed"})
        self._worker().ask("POST", f"{path}/cleanup", {"executionId": execution})

    def _lost(self, job: str) -> None:
        """The Job goes back to the queue; the next container takes it and ends it."""

        until(lambda: self._state(job) in ("queued", "retrying"), SECONDS)
        until(lambda: self._ready(self.deployment["id"], self.deployment["generation"]), SECONDS)
        self.api.ask("DELETE", f"/workloads/{job}")

    def _pods(self) -> list[Json]:
        selector = f"{names.LABEL_DEPLOYMENT}={self.deployment['id']}"
        found = self.plane.call("GET", f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={selector}")
        return list(found["items"])

    def _pod(self) -> Json:
        return until(
            lambda: next((pod for pod in self._pods() if "deletionTimestamp" not in pod["metadata"]), None), 30
        )

    def _pod_uids(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self._pods()}

    def _native_path(self, plural: str) -> str:
        root = "/apis/apps/v1" if plural == "deployments" else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{plural}/{self.deployment['id']}"

    def _native(self, plural: str) -> Json:
        return self.plane.call("GET", self._native_path(plural))

    def _another(self, plural: str, uid: str) -> bool:
        found = self.plane.find(self._native_path(plural))
        return found is not None and found["metadata"]["uid"] != uid

    def _until_gpus_were_seen_to(self, done: Callable[[], object]) -> None:
        """A pool looks at all that is its own whenever one of its Nodes changes: here it loses a label."""
        path = self._gpu_node()
        self.plane.call("PATCH", path, {"metadata": {"labels": {names.LABEL_ACCELERATOR: None}}})
        until(lambda: names.LABEL_ACCELERATOR in self.plane.call("GET", path)["metadata"]["labels"], SECONDS)
        until(done, SECONDS)

    def _gpu_node(self) -> str:
        nodes = f"/api/v1/nodes?labelSelector={names.LABEL_ACCELERATOR}"
        (node,) = self.plane.call("GET", nodes)["items"]
        return f"/api/v1/nodes/{node['metadata']['name']}"

    def _replaced(self, path: str, made: Json) -> bool:
        """By another of that name; the product may be quicker, and has made its own again."""
        self.plane.call("DELETE", path)
        try:
            self.plane.call("POST", path.rpartition("/")[0], made)
        except Refused as refused:
            if refused.status != 409:
                raise
            return False
        return True

    def _as_wanted(self, path: str, wanted: Json) -> bool:
        found = self.plane.find(path)
        if found is None or found["metadata"]["uid"] == wanted["metadata"]["uid"]:
            return False
        same = found.get("handler") == wanted.get("handler")
        return same and found.get("spec", {}).get("selector") == wanted.get("spec", {}).get("selector")


def _intent(obj: Json) -> str | None:
    intent: str | None = obj["metadata"].get("annotations", {}).get(names.ANNOTATION_INTENT)
    return intent


def _renewed(obj: Json) -> Json:
    metadata = {key: obj["metadata"][key] for key in ("name", "labels", "annotations")}
    if "namespace" in obj["metadata"]:
        metadata["namespace"] = obj["metadata"]["namespace"]
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}


def _other_selector(plugin: Json) -> Json:
    made = _renewed(plugin)
    labels = {"app": "another"}
    template = {**made["spec"]["template"], "metadata": {"labels": labels}}
    return {**made, "spec": {**made["spec"], "selector": {"matchLabels": labels}, "template": template}}


def _other_handler(runtime: Json) -> Json:
    return {**_renewed(runtime), "handler": "another"}

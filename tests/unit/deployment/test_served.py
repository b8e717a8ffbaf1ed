"""The service on its socket: HTTP/JSON as it leaves Envoy, through the real interceptor and codec."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import grpc
import orjson
import pytest
from anycloud_common.calls import Principal
from anycloud_common.clock import ManualClock
from anycloud_common.errors import ApiError
from anycloud_common.rest import wrapper
from anycloud_common.rest.route import route
from anycloud_common.server import ServerKit, serving
from anycloud_common.settings import Settings
from anycloud_deployment import app
from anycloud_release.migrate import migrate_service
from anycloudapi.cluster.internal.v1 import cluster_pb2, cluster_pb2_grpc
from anycloudapi.common.internal.v1 import feed_pb2, feed_pb2_grpc
from anycloudapi.deployment.v1 import deployments_pb2, jobs_pb2, secrets_pb2, workloads_pb2
from anycloudapi.nodepool.internal.v1 import node_pool_pb2_grpc
from google.api import httpbody_pb2

from tests.unit.deployment.rig import Rig, execution, revision_of

TOKEN = "acapi_test"
_FILES = (deployments_pb2, jobs_pb2, secrets_pb2, workloads_pb2)
_METHODS = {
    f"{service.name}.{method.name}": method
    for file in _FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


class Answer(NamedTuple):
    status: int
    body: Any


class Client:
    """Calls as they leave Envoy."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def call(
        self,
        method: str,
        body: Any = None,
        *,
        token: str = TOKEN,
        headers: Mapping[str, str] | None = None,
        **params: Any,
    ) -> Answer:
        found = route(_METHODS[method])
        assert found is not None
        fields: dict[str, Any] = {name: [value] for name, value in params.items()}
        message: Any = wrapper.message_class(found)(**fields)
        if found.takes_body:
            message.http_body.data = orjson.dumps(body) if body is not None else b""
            message.http_body.content_type = "application/json"
        sent = {
            "authorization": f"Bearer {token}",
            "anycloud-client-version": "0.1.70",
            "x-envoy-original-path": "/v1/x",
            **(headers or {}),
        }
        call: Any = self._channel.unary_unary(found.grpc_path)
        made = httpbody_pb2.HttpBody.FromString(await call(message.SerializeToString(), metadata=tuple(sent.items())))
        status = re.search(r"; status=(\d+)$", made.content_type)
        return Answer(int(status[1]) if status else 200, orjson.loads(made.data) if made.data else None)


class OneToken:
    async def user(self, token: str) -> Principal:
        if token != TOKEN:
            raise ApiError("UNAUTHORIZED", "unknown token")
        return Principal("alice", "alice", "user")


def settings(data_dir: Path, runtime_dir: Path) -> Settings:
    return Settings(mode="installer", data_dir=data_dir, runtime_dir=runtime_dir, public_url="http://127.0.0.1:1")


@pytest.fixture
def runtime_dir() -> Any:
    with TemporaryDirectory(prefix="ac-") as made:
        yield Path(made) / "run"


@pytest.fixture
async def client(rig: Rig, tmp_path: Path, runtime_dir: Path) -> AsyncIterator[Client]:
    async def build(kit: ServerKit) -> None:
        kit.authenticator = OneToken()
        app._serve(kit, rig.service)

    async with (
        serving("deployment", settings(tmp_path, runtime_dir), build, rig.clock),
        grpc.aio.insecure_channel(f"unix:{runtime_dir}/deployment.sock") as channel,
    ):
        yield Client(channel)


MINIMAL = {"image": "acme/model:v1", "name": "voice", "nodePool": "training"}


@pytest.mark.req("DP-104", "DP-105", "DP-062", "DP-007")
async def test_the_published_clients_minimal_create_gets_the_contracts_shape(client: Client) -> None:
    answer = await client.call(
        "Deployments.CreateDeployment", {**MINIMAL, "maxConcurrentJobsPerReplica": 1, "replicas": 1}
    )
    assert answer.status == 202
    made = answer.body["deployment"]
    created = made["createdAt"]
    assert made == {
        "id": made["id"],
        "name": "voice",
        "image": "acme/model:v1",
        "nodePoolId": "np-1",
        "target": {"kind": "nodePool", "nodePoolId": "np-1"},
        "command": None,
        "envKeys": [],
        "secretNames": [],
        "readinessProbe": None,
        "replicas": 1,
        "maxConcurrentJobsPerReplica": 1,
        "gpuCount": 0,
        "generation": 1,
        "jobs": {"queued": 0, "running": 0, "retrying": 0, "terminal": 0, "unreleased": 0},
        "status": None,
        "workload": None,
        "createdAt": created,
        "updatedAt": created,
        "deletedAt": None,
        "deletionRequestedAt": None,
    }


@pytest.mark.req("DP-106", "DP-107", "DP-108", "DP-109")
async def test_a_look_has_every_field_of_the_status(rig: Rig, client: Client) -> None:
    await rig.running()
    answer = await client.call("Deployments.GetDeployment", id="VOICE")
    assert answer.status == 200
    status = answer.body["deployment"]["status"]
    assert status["blockingJobs"] == {"total": 0, "jobs": []}
    assert {
        key: status[key] for key in ("state", "releasing", "ready", "observation", "observationError", "upgrade")
    } == {
        "state": "running",
        "releasing": False,
        "ready": True,
        "observation": "observed",
        "observationError": None,
        "upgrade": None,
    }
    assert (status["applicationReady"], status["probeConfigured"], status["containerReady"]) == (None, False, True)


@pytest.mark.req("DP-139", "DP-140", "DP-141", "DP-142", "DP-143", "SC-017")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"dockerOptions": {"cpus": "6", "memory": None, "privileged": False}}, ("6", None, False, ("/a",))),
        ({"dockerOptions": {"binds": []}}, ("1", "1g", True, ())),
        ({"dockerOptions": None}, (None, None, None, None)),
        ({"command": None, "env": {"A": "1"}, "secrets": []}, ("1", "1g", True, ("/a",))),
    ],
)
async def test_patch_tells_absent_null_and_given_apart(
    rig: Rig, client: Client, body: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    options = {"cpus": "1", "memory": "1g", "privileged": True, "binds": ["/a"]}
    made = await client.call("Deployments.CreateDeployment", {**MINIMAL, "dockerOptions": options})
    answer = await client.call("Deployments.UpdateDeployment", body, id="voice")
    assert (answer.status, answer.body["deployment"]["generation"]) == (202, 2)
    found = (await revision_of(rig, made.body["deployment"]["id"], 2)).spec.options
    assert (found.cpus, found.memory, found.privileged, found.binds) == expected


@pytest.mark.req("DP-144", "DP-115")
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"dockerOptions": {}},
        {"image": "a:2", "dockerOptions": {}},
        {"image": None},
        {"replicas": 0},
        {"dockerOptions": {"ipc": "host"}},
        {"dockerOptions": {"runtime": ""}},
        {"nodePool": "other"},
        {"readinessProbe": {"httpGet": {}}},
    ],
)
async def test_bad_patches_are_400_and_change_nothing(client: Client, body: dict[str, Any]) -> None:
    await client.call("Deployments.CreateDeployment", MINIMAL)
    answer = await client.call("Deployments.UpdateDeployment", body, id="voice")
    assert (answer.status, answer.body["code"], answer.body["defined"]) == (400, "DEPLOYMENT_INVALID", True)
    listed = await client.call("Deployments.ListDeployments")
    assert listed.body["deployments"][0]["generation"] == 1


@pytest.mark.req("OPEN-070")
async def test_a_probe_has_no_other_keys(client: Client) -> None:
    probe = {"exec": {"command": ["/x"]}, "httpGet": {"path": "/"}}
    answer = await client.call("Deployments.CreateDeployment", {**MINIMAL, "readinessProbe": probe})
    assert (answer.status, answer.body["code"]) == (400, "DEPLOYMENT_INVALID")
    assert "httpGet" in answer.body["message"]


@pytest.mark.parametrize(
    ("method", "params", "status", "code"),
    [
        ("Deployments.GetDeployment", {"id": "x"}, 404, "DEPLOYMENT_NOT_FOUND"),
        ("Deployments.DeleteDeployment", {"id": "x"}, 404, "DEPLOYMENT_NOT_FOUND"),
        ("Deployments.ListDeployments", {"node_pool": "x"}, 400, "DEPLOYMENT_INVALID"),
        ("Workloads.GetWorkloadStatus", {"id": "x"}, 404, "WORKLOAD_MANAGEMENT_NOT_FOUND"),
        ("Workloads.ListWorkloads", {"limit": "0"}, 400, "WORKLOAD_MANAGEMENT_REQUEST_INVALID"),
    ],
)
async def test_errors_have_the_contracts_shape(
    client: Client, method: str, params: dict[str, Any], status: int, code: str
) -> None:
    answer = await client.call(method, **params)
    assert answer.status == status
    assert set(answer.body) == {"code", "defined", "message", "status"}
    assert (answer.body["code"], answer.body["defined"], answer.body["status"]) == (code, True, status)


async def test_a_job_goes_through_the_five_operations(rig: Rig, client: Client) -> None:
    deployment_id, pod = await rig.running()
    token = f"token-{pod.uid}"
    submitted = await client.call(
        "Workloads.SubmitWorkload", {"deployment": "voice", "id": "job-1", "workloadType": "job", "timeout": 60}
    )
    deadline = rig.clock.now_ms() + 60_000
    assert submitted == (202, {"id": "job-1", "submissionRevision": 0, "claimDeadlineAt": deadline})
    path: dict[str, Any] = {"deployment_id": deployment_id}
    candidate = await client.call("DeploymentJobs.DiscoverCandidate", token=token, wait_ms="0", **path)
    assert candidate == (200, {"jobId": "job-1", "submissionRevision": 0, "previousExecutionId": None})
    claim = {"submissionRevision": 0, "previousExecutionId": None}
    path["job_id"] = "job-1"
    key = {"idempotency-key": execution(1)}
    for _ in range(2):
        claimed = await client.call("DeploymentJobs.ClaimJob", claim, token=token, headers=key, **path)
        assert claimed == (200, {"jobId": "job-1", "executionId": execution(1)})
    asked = await client.call(
        "DeploymentJobs.GetCancellation", token=token, execution_id=execution(1), wait_ms="0", **path
    )
    assert asked == (200, {"cancelled": False})
    outcome = {"executionId": execution(1), "outcome": "completed"}
    assert await client.call("DeploymentJobs.ReportOutcome", outcome, token=token, **path) == (204, None)
    cleanup = {"executionId": execution(1)}
    assert await client.call("DeploymentJobs.CleanupJob", cleanup, token=token, **path) == (204, None)
    nothing = await client.call("DeploymentJobs.DiscoverCandidate", token=token, deployment_id=deployment_id)
    assert nothing == (204, None)
    job = (await client.call("Workloads.GetWorkloadStatus", id="job-1")).body
    assert (job["workload"]["state"], job["status"], job["jobsAhead"]) == ("completed", "down", None)
    assert [event["metadata"]["reason"] for event in job["events"]][:2] == ["cleaned-up", "outcome-reported"]
    listed = (await client.call("Workloads.ListWorkloads", deployment_id=deployment_id)).body
    assert [one["id"] for one in listed] == ["job-1"]
    assert listed[0]["isOwnedByCaller"] is True


async def test_a_claim_without_an_execution_id_is_an_undeclared_400(rig: Rig, client: Client) -> None:
    deployment_id, pod = await rig.running()
    claim = {"submissionRevision": 0, "previousExecutionId": None}
    for headers in ({}, {"idempotency-key": "x"}):
        answer = await client.call(
            "DeploymentJobs.ClaimJob",
            claim,
            token=f"token-{pod.uid}",
            headers=headers,
            deployment_id=deployment_id,
            job_id="job-1",
        )
        assert (answer.status, answer.body["defined"]) == (400, False)


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ("wrong token", 401, "WORKLOAD_UNAUTHORIZED"),
        ("other deployment", 403, "WORKLOAD_FORBIDDEN"),
        ("unknown deployment", 404, "WORKLOAD_NOT_FOUND"),
        ("unsynced", 503, "WORKLOAD_UNAVAILABLE"),
    ],
)
async def test_worker_refusals_have_their_codes(rig: Rig, client: Client, fault: str, status: int, code: str) -> None:
    deployment_id, pod = await rig.running()
    other_id, _ = await rig.running("other")
    rig.cluster.synced = fault != "unsynced"
    answer = await client.call(
        "DeploymentJobs.DiscoverCandidate",
        token="x" if fault == "wrong token" else f"token-{pod.uid}",
        deployment_id={"other deployment": other_id, "unknown deployment": "dep-x"}.get(fault, deployment_id),
    )
    assert (answer.status, answer.body["code"], answer.body["defined"]) == (status, code, True)


@pytest.mark.req("SC-018", "SC-006")
async def test_secrets_speak_the_contract(rig: Rig, client: Client) -> None:
    values = {"values": {"DATABASE_URL": "marker-value"}}
    assert await client.call("Secrets.SaveSecret", values, name="model-db") == (204, None)
    listed = await client.call("Secrets.ListSecrets")
    now = rig.clock.now_ms()
    assert listed == (200, [{"name": "model-db", "createdAt": now, "updatedAt": now}])
    made = await client.call("Deployments.CreateDeployment", {**MINIMAL, "secrets": ["model-db"]})
    refused = await client.call("Secrets.DeleteSecret", name="model-db")
    assert (refused.status, refused.body["code"]) == (409, "SECRET_IN_USE")
    assert refused.body["data"] == {"name": "model-db", "workloadIds": [made.body["deployment"]["id"]]}
    bad = await client.call("Secrets.SaveSecret", {"values": {"A-B": "marker-value"}}, name="x")
    assert bad.status == 400
    assert "A-B" in bad.body["message"]
    assert "marker-value" not in str(bad)
    assert await client.call("Secrets.DeleteSecret", name="model-db", force="true") == (204, None)


async def test_an_image_job_is_refused_with_a_sentence(client: Client) -> None:
    answer = await client.call("Workloads.SubmitWorkload", {"image": "a", "cloudConfig": {}, "workloadType": "job"})
    assert (answer.status, answer.body["code"]) == (400, "WORKLOAD_ADMISSION_REJECTED")
    both = await client.call("Workloads.SubmitWorkload", {"image": "a", "cloudConfig": {}, "deployment": "voice"})
    assert (both.status, both.body["code"]) == (400, "WORKLOAD_ADMISSION_REJECTED")


class Introspection(cluster_pb2_grpc.IntrospectionServicer):
    async def Introspect(self, request: Any, context: Any) -> cluster_pb2.IntrospectResponse:
        return cluster_pb2.IntrospectResponse(principal=cluster_pb2.Principal(id="local", name="local", owner=True))


class NoPools(node_pool_pb2_grpc.NodePoolFactsServicer):
    async def GetNodePool(self, request: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode.NOT_FOUND, "no such pool")

    async def ListNodePools(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def ListClosedAttempts(self, request: Any, context: Any) -> Any:
        raise NotImplementedError


class NoFeed(feed_pb2_grpc.FeedServiceServicer):
    async def List(self, request: Any, context: Any) -> Any:
        return feed_pb2.ListResponse()

    async def Watch(self, request: Any, context: Any) -> Any:
        await asyncio.Event().wait()
        yield feed_pb2.WatchResponse()


async def test_on_an_installer_lists_are_empty_and_creates_name_the_pool(tmp_path: Path, runtime_dir: Path) -> None:
    (tmp_path / "db").mkdir()
    migrate_service(tmp_path / "db" / "deployment.sqlite", "deployment")
    shared, clock = settings(tmp_path, runtime_dir), ManualClock()

    async def cluster(kit: ServerKit) -> None:
        kit.add(cluster_pb2_grpc.add_IntrospectionServicer_to_server, Introspection())

    async def nodepool(kit: ServerKit) -> None:
        kit.add(node_pool_pb2_grpc.add_NodePoolFactsServicer_to_server, NoPools())
        kit.add(feed_pb2_grpc.add_FeedServiceServicer_to_server, NoFeed())

    async with (
        serving("cluster", shared, cluster, clock),
        serving("nodepool", shared, nodepool, clock),
        serving("deployment", shared, app.build, clock),
        grpc.aio.insecure_channel(f"unix:{runtime_dir}/deployment.sock") as channel,
    ):
        client = Client(channel)
        assert await client.call("Deployments.ListDeployments") == (200, {"deployments": []})
        assert await client.call("Workloads.ListWorkloads") == (200, [])
        refused = await client.call("Deployments.CreateDeployment", MINIMAL)
        assert (refused.status, refused.body["code"]) == (404, "DEPLOYMENT_NOT_FOUND")
        assert "training" in refused.body["message"]
        worker = await client.call("DeploymentJobs.DiscoverCandidate", deployment_id="dep-1")
        assert (worker.status, worker.body["code"]) == (401, "WORKLOAD_UNAUTHORIZED")

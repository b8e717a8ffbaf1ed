"""Native gRPC on the same port: the same refusals as google.rpc.Status, deadlines, cancellation, reflection."""

from __future__ import annotations

import base64
import importlib
import itertools
import pkgutil
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import anycloudapi
import grpc
import pytest
from anycloud_common.errors import DECLARED, DOMAIN
from anycloud_common.server.policy import policy_of
from anycloudapi.cluster.v1 import buckets_pb2, credentials_pb2
from anycloudapi.common.v1 import errors_pb2
from anycloudapi.deployment.v1 import deployments_pb2, jobs_pb2, jobs_pb2_grpc, workloads_pb2
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_reflection.v1alpha import reflection_pb2

from tests.contract.world import Api, World, connection

Code = grpc.StatusCode
_addresses = (f"127.{a}.{b}.{c}" for a, b, c in itertools.product(range(80, 88), range(250), range(1, 250)))
LONG = 30  # seconds that a call may take that isn't held


def services(internal: bool) -> list[Any]:
    modules = [module.name for module in pkgutil.walk_packages(anycloudapi.__path__, "anycloudapi.")]
    files = [importlib.import_module(name).DESCRIPTOR for name in modules if name.endswith("_pb2")]
    found = [service for file in files for service in file.services_by_name.values()]
    return [service for service in found if (".internal." in service.full_name) is internal]


PUBLIC: list[MethodDescriptor] = [method for service in services(False) for method in service.methods]


@pytest.fixture(scope="module")
def channel(world: World) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(world.hosted.url.removeprefix("http://")) as made:
        yield made


def bearer(api: Api) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {api.token}"),)


def ask(channel: grpc.Channel, path: str, request: Message | bytes, api: Api | None, timeout: float = LONG) -> bytes:
    """One call by its path, `Service/Method` of some package; the bytes of its answer."""
    raw = request if isinstance(request, bytes) else request.SerializeToString()
    call: Any = channel.unary_unary(path)
    return bytes(call(raw, timeout=timeout, metadata=bearer(api) if api else ()))


def path_of(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


class Refusal:
    """A failed call, as its details tell it."""

    def __init__(self, error: Any) -> None:
        self.status: grpc.StatusCode = error.code()
        trailers = dict(error.trailing_metadata() or ())
        told = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
        assert (told.code, told.message) == (self.status.value[0], error.details())
        info = error_details_pb2.ErrorInfo()
        assert told.details[0].Unpack(info)
        assert info.domain == DOMAIN
        self.reason, self.http = info.reason, int(info.metadata["httpStatus"])
        self.message = told.message
        self.others = list(told.details[1:])

    @property
    def violations(self) -> list[str]:
        """The fields that were wrong."""
        found = error_details_pb2.BadRequest()
        return [one.field for detail in self.others if detail.Unpack(found) for one in found.field_violations]


def refused(call: Callable[[], Any]) -> Refusal:
    with pytest.raises(grpc.RpcError) as failed:
        call()
    return Refusal(failed.value)


@pytest.mark.parametrize("method", PUBLIC, ids=lambda one: f"{one.containing_service.name}.{one.name}")
def test_a_caller_without_a_token_is_told_the_reason_of_the_contract(world: World, method: MethodDescriptor) -> None:
    """From an address of its own, as whoever fails often is answered later; a client of gRPC can't choose one."""
    headers = {"content-type": "application/grpc", "te": "trailers"}
    message = message_factory.GetMessageClass(method.input_type)().SerializeToString()
    with connection(headers, next(_addresses)) as client:
        answer = client.post(
            f"{world.hosted.url}{path_of(method)}", content=struct.pack(">BI", 0, len(message)) + message
        )
    told = status_pb2.Status.FromString(base64.b64decode(answer.headers["grpc-status-details-bin"] + "=="))
    info = error_details_pb2.ErrorInfo()
    assert told.details[0].Unpack(info)
    expected = "WORKLOAD_UNAUTHORIZED" if policy_of(method).access == "workload" else "UNAUTHORIZED"
    assert (answer.status_code, answer.headers["grpc-status"]) == (200, str(Code.UNAUTHENTICATED.value[0]))
    assert (info.reason, info.domain, info.metadata["httpStatus"]) == (expected, DOMAIN, "401")


def test_what_the_contract_refuses_has_its_code_as_reason_and_its_status_of_grpc(
    world: World, channel: grpc.Channel, served: dict[str, Any], parked: dict[str, Any]
) -> None:
    home = "/anycloudapi.deployment.v1."
    spec = deployments_pb2.DeploymentSpec
    create = f"{home}Deployments/CreateDeployment"
    taken = spec(name="parked", image="i", node_pool="pool")
    cases = [
        (f"{home}Deployments/GetDeployment", deployments_pb2.GetDeploymentRequest(id="nope"), "DEPLOYMENT_NOT_FOUND"),
        (
            f"{home}Workloads/GetWorkloadStatus",
            workloads_pb2.GetWorkloadStatusRequest(id="nope"),
            "WORKLOAD_MANAGEMENT_NOT_FOUND",
        ),
        (create, deployments_pb2.CreateDeploymentRequest(deployment=taken), "DEPLOYMENT_CONFLICT"),
    ]
    for path, request, code in cases:
        told = refused(lambda path=path, request=request: ask(channel, path, request, world.hosted))  # type: ignore[misc]
        declared = DECLARED[code]
        assert (told.reason, told.status.value[0], told.http) == (code, declared.grpc, declared.http)
        assert told.message


def test_what_a_code_demands_comes_as_a_message(world: World, channel: grpc.Channel) -> None:
    request = credentials_pb2.DeleteCredentialRequest(name="aws")
    told = refused(lambda: ask(channel, "/anycloudapi.cluster.v1.Credentials/DeleteCredential", request, world.hosted))
    data = errors_pb2.CredentialInUseData()
    assert told.reason == "CREDENTIAL_IN_USE"
    assert told.others[0].Unpack(data)
    assert (data.name, world.pool["id"] in data.workload_ids) == ("aws", True)


def test_a_request_out_of_its_bounds_names_the_fields(world: World, channel: grpc.Channel) -> None:
    path = "/anycloudapi.deployment.v1.Deployments/CreateDeployment"
    spec = deployments_pb2.DeploymentSpec(image="i", node_pool="pool")
    request = deployments_pb2.CreateDeploymentRequest(deployment=spec)
    told = refused(lambda: ask(channel, path, request, world.hosted))
    assert (told.status, told.reason) == (Code.INVALID_ARGUMENT, "DEPLOYMENT_INVALID")
    assert told.violations == ["deployment.name"]
    told = refused(lambda: ask(channel, path, b"\xff", world.hosted))
    assert (told.status, told.reason) == (Code.INVALID_ARGUMENT, "DEPLOYMENT_INVALID")


def test_what_is_not_available_says_so(world: World, channel: grpc.Channel) -> None:
    request = buckets_pb2.ListBucketsRequest(credential_name="aws")
    told = refused(lambda: ask(channel, "/anycloudapi.cluster.v1.Buckets/ListBuckets", request, world.hosted))
    assert (told.status, told.reason, told.http) == (Code.PERMISSION_DENIED, "NOT_AVAILABLE", 403)


def test_a_container_of_another_deployment_is_forbidden(
    world: World, channel: grpc.Channel, served: dict[str, Any], parked: dict[str, Any]
) -> None:
    request = jobs_pb2.DiscoverCandidateRequest(deployment_id=served["id"])
    path = "/anycloudapi.deployment.v1.DeploymentJobs/DiscoverCandidate"
    told = refused(lambda: ask(channel, path, request, world.worker(parked)))
    assert (told.status, told.reason) == (Code.PERMISSION_DENIED, "WORKLOAD_FORBIDDEN")


@pytest.mark.parametrize("leaving", ["its deadline", "its caller's will"])
def test_a_held_call_ends_early_and_a_job_is_taken_through_all_its_calls(
    world: World, channel: grpc.Channel, served: dict[str, Any], unique: Callable[[str], str], leaving: str
) -> None:
    """What was offered to a call that ended is offered to the next."""
    worker: Any = jobs_pb2_grpc.DeploymentJobsStub(channel)
    container, home, job, key = bearer(world.worker(served)), served["id"], unique("job"), str(uuid4())
    waiting = jobs_pb2.DiscoverCandidateRequest(deployment_id=home, wait_ms=20_000)
    began = time.monotonic()
    if leaving == "its deadline":
        with pytest.raises(grpc.RpcError) as failed:
            worker.DiscoverCandidate(waiting, metadata=container, timeout=1)
        assert failed.value.code() == Code.DEADLINE_EXCEEDED
    else:
        held = worker.DiscoverCandidate.future(waiting, metadata=container, timeout=LONG)
        time.sleep(0.5)  # so that it is held; sooner or later, the answer has to be the same
        held.cancel()
        assert held.code() == Code.CANCELLED
    assert time.monotonic() - began < 15
    world.hosted.ask("POST", "/workloads", {"deployment": home, "id": job})
    found = worker.DiscoverCandidate(waiting, metadata=container, timeout=LONG).candidate
    assert found.job_id == job
    claim = jobs_pb2.ClaimJobRequest(
        deployment_id=home, job_id=job, claim=jobs_pb2.JobClaim(submission_revision=found.submission_revision)
    )
    told = refused(lambda: worker.ClaimJob(claim, metadata=container, timeout=LONG))  # without its key
    assert told.status == Code.INVALID_ARGUMENT
    taken = worker.ClaimJob(claim, metadata=(*container, ("idempotency-key", key)), timeout=LONG)
    assert (taken.job_id, taken.execution_id) == (job, key)
    asked = jobs_pb2.GetCancellationRequest(deployment_id=home, job_id=job, execution_id=key)
    assert not worker.GetCancellation(asked, metadata=container, timeout=LONG).cancelled
    report = jobs_pb2.OutcomeReport(execution_id=key, outcome=jobs_pb2.OutcomeReport.OUTCOME_COMPLETED)
    outcome = jobs_pb2.ReportOutcomeRequest(deployment_id=home, job_id=job, report=report)
    worker.ReportOutcome(outcome, metadata=container, timeout=LONG)
    clean = jobs_pb2.CleanupJobRequest(deployment_id=home, job_id=job, cleanup=jobs_pb2.JobCleanup(execution_id=key))
    worker.CleanupJob(clean, metadata=container, timeout=LONG)
    assert world.hosted.ask("GET", f"/workloads/{job}")["workload"]["state"] == "completed"


def test_a_message_that_is_too_large_is_not_read(world: World, channel: grpc.Channel) -> None:
    path = "/anycloudapi.deployment.v1.Deployments/GetDeployment"
    with pytest.raises(grpc.RpcError) as failed:
        ask(channel, path, deployments_pb2.GetDeploymentRequest(id="x" * (17 << 20)), world.hosted)
    assert failed.value.code() == Code.RESOURCE_EXHAUSTED
    assert ask(channel, "/anycloudapi.deployment.v1.Deployments/ListDeployments", b"", world.hosted)


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_shows_the_public_services_and_no_others(channel: grpc.Channel, version: str) -> None:
    question = reflection_pb2.ServerReflectionRequest
    asking: Any = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=question.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    internal = services(True)[0].full_name
    asked = [question(list_services=""), question(file_containing_symbol=internal)]
    listed, hidden = asking(iter(asked), timeout=LONG)
    assert {one.name for one in listed.list_services_response.service} == {one.full_name for one in services(False)}
    assert hidden.error_response.error_code == Code.NOT_FOUND.value[0]


@pytest.mark.parametrize("service", services(True), ids=lambda one: str(one.full_name))
def test_internal_services_are_not_there(world: World, channel: grpc.Channel, service: Any) -> None:
    for method in service.methods:
        call: Any = channel.stream_stream(path_of(method))
        with pytest.raises(grpc.RpcError) as failed:
            list(call(iter([b""]), timeout=LONG, metadata=(*bearer(world.hosted), ("anycloud-caller", "cluster"))))
        assert failed.value.code() == Code.UNIMPLEMENTED

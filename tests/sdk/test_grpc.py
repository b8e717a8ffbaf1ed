"""Native gRPC with the Python stubs, against a live gateway; test_examples.py has the Go ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from anycloudapi.deployment.v1 import deployments_pb2, deployments_pb2_grpc
from google.rpc import error_details_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status

from tests.contract.world import VERSION, World
from tests.sdk.test_operations import OPERATIONS

pytestmark = pytest.mark.timeout(600)  # the first test waits for the installation


@pytest.fixture(scope="module")
def channel(world: World) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(world.hosted.url.removeprefix("http://")) as made:
        yield made


@pytest.fixture(scope="module")
def metadata(world: World) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {world.hosted.token}"), ("anycloud-client-version", VERSION))


def test_a_page_has_its_cursor_and_total_as_fields(
    channel: grpc.Channel, metadata: Any, deployments: list[dict[str, Any]]
) -> None:
    stub = deployments_pb2_grpc.DeploymentsStub(channel)
    first = stub.ListDeployments(deployments_pb2.ListDeploymentsRequest(limit=1), metadata=metadata)
    assert ([d.name for d in first.deployments], first.total_count) == (["second"], 2)
    rest = deployments_pb2.ListDeploymentsRequest(limit=1, cursor=first.next_cursor)
    second = stub.ListDeployments(rest, metadata=metadata)
    assert ([d.name for d in second.deployments], second.next_cursor) == (["first"], "")


def test_a_refused_request_names_its_fields(channel: grpc.Channel, metadata: Any) -> None:
    stub = deployments_pb2_grpc.DeploymentsStub(channel)
    nameless = deployments_pb2.DeploymentSpec(image="app:1", node_pool="pool")
    with pytest.raises(grpc.RpcError) as raised:
        stub.CreateDeployment(deployments_pb2.CreateDeploymentRequest(deployment=nameless), metadata=metadata)
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    for detail in rpc_status.from_call(raised.value).details:
        for message in (info, bad):
            if detail.Is(message.DESCRIPTOR):
                detail.Unpack(message)
    assert info.reason == "DEPLOYMENT_INVALID"
    assert ["name" in violation.field for violation in bad.field_violations] == [True]


def test_reflection_tells_every_public_service_and_no_other(channel: grpc.Channel) -> None:
    known = ProtoReflectionDescriptorDatabase(channel)
    services = known.get_services()
    assert {name.rpartition(".")[2] for name in services} >= {api for api, _ in OPERATIONS}
    assert not [name for name in services if ".internal." in name]
    file = known.FindFileContainingSymbol("anycloudapi.release.v1.SystemRelease")
    assert [method.name for method in file.service[0].method] == ["GetSystemRelease", "RequestSystemRelease"]

"""Native gRPC callers are held to the same shapes as HTTP ones. The cases use the API's own messages."""

from __future__ import annotations

import math
from typing import Any

import pytest
from anycloud_common.rest import Invalid
from anycloud_common.server.shape import Shapes
from anycloudapi.cluster.v1 import credentials_pb2 as credentials_module
from anycloudapi.deployment.v1 import deployments_pb2 as deployments_module
from anycloudapi.deployment.v1 import jobs_pb2 as jobs_module
from anycloudapi.deployment.v1 import secrets_pb2 as secrets_module
from anycloudapi.deployment.v1 import workloads_pb2 as workloads_module

# Untyped, so that a case reads like the message that it makes.
credentials: Any = credentials_module
deployments: Any = deployments_module
jobs: Any = jobs_module
secrets: Any = secrets_module
workloads: Any = workloads_module

UUID = "2f1e6a0c-95a7-4a0e-8a52-3b1f6f0c7f11"


def deployment(**changes: Any) -> Any:
    spec = {"name": "web", "image": "i", "node_pool": "np-1", **changes}
    return deployments.CreateDeploymentRequest(deployment={k: v for k, v in spec.items() if v is not None})


def probe(**changes: Any) -> Any:
    return deployment(readiness_probe={"exec": {"command": ["true"]}, **changes})


def refusal(message: Any, variables: frozenset[str] = frozenset()) -> str | None:
    try:
        Shapes().of(message.DESCRIPTOR, variables)(message)
    except Invalid as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    "message",
    [
        deployment(),
        deployment(replicas=1),
        deployment(replicas=1000),
        deployment(env={"A": "1"}),
        probe(period_seconds=1),
        jobs.ClaimJobRequest(deployment_id="d", job_id="j", claim={"submission_revision": 0}),
        jobs.ClaimJobRequest(deployment_id="d", job_id="j", claim={"previous_execution_id": UUID}),
        jobs.DiscoverCandidateRequest(deployment_id="d", wait_ms=0),
        credentials.UpdateCredentialRequest(name="aws", changes={}),
    ],
)
def test_a_request_with_the_declared_shape_passes(message: Any) -> None:
    assert refusal(message) is None


@pytest.mark.parametrize(
    ("message", "where", "rule"),
    [
        (deployments.CreateDeploymentRequest(), "deployment", "is required"),
        (deployment(name=None), "deployment.name", "1 to 64 characters"),
        (deployment(name="a" * 65), "deployment.name", "1 to 64 characters"),
        (deployment(replicas=0), "deployment.replicas", "from 1 to 1000"),
        (deployment(replicas=1001), "deployment.replicas", "from 1 to 1000"),
        (probe(exec={}), "deployment.readiness_probe.exec.command", "1 to 128 items"),
        (probe(exec={"command": ["a" * 4097]}), "deployment.readiness_probe.exec.command[0]", "at most 4096"),
        (jobs.ClaimJobRequest(claim={"previous_execution_id": "x"}), "claim.previous_execution_id", "a UUID"),
        (jobs.ClaimJobRequest(claim={"submission_revision": -1}), "claim.submission_revision", "at least 0"),
        (jobs.ReportOutcomeRequest(report={"execution_id": UUID}), "report.outcome", "must be one of completed"),
        (jobs.ReportOutcomeRequest(report={"execution_id": UUID, "outcome": 99}), "report.outcome", "one of"),
        (jobs.DiscoverCandidateRequest(wait_ms=20_001), "wait_ms", "from 0 to 20000"),
        (secrets.SaveSecretRequest(name="9", secret={}), "name", "must be text that matches"),
        (workloads.SubmitWorkloadRequest(), "target", "needs one of deployment_target, image_target"),
    ],
)
def test_a_request_without_it_is_refused_with_place_and_rule(message: Any, where: str, rule: str) -> None:
    told = refusal(message)
    assert told is not None
    assert told.startswith(f"{where}: " if where else "")
    assert rule in told


def test_a_number_that_json_cannot_carry_is_refused() -> None:
    for odd in (math.nan, math.inf):
        message = workloads.ResubmitWorkloadRequest(id="w", resubmission={"timeout": odd})
        assert refusal(message) == "resubmission.timeout: must be a finite number"


def test_what_the_path_fills_is_never_empty() -> None:
    message = deployments.GetDeploymentRequest()
    assert refusal(message) is None
    assert refusal(message, frozenset({"id"})) == "id: is required"


def test_values_of_maps_are_not_shown() -> None:
    long = secrets.SaveSecretRequest(name="s", secret={"values": {"A": "hunter2" * 100_000}})
    assert "hunter2" not in (refusal(long) or "")

"""Every operation of the contract: how the published client calls it, how it looks on the wire, who may call it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

Caller = Literal["user", "workload", "sign-in"]

EXECUTION = "00000000-0000-4000-8000-000000000000"
AWS = {"cloudProvider": "AWS", "accessKeyId": "1.a", "secretAccessKey": "b"}
CLUSTER = {"name": "c", "credentialName": "aws", "region": "us-east-1", "vmType": "t3.large"}
POOL = {"name": "p", "credentialName": "aws", "vmTypes": ["m5.large"], "minVmCount": 1, "maxVmCount": 1}
DEPLOYMENT = {"name": "d", "image": "i", "nodePool": "nope"}


@dataclass(frozen=True)
class Operation:
    """`path` is below /v1. `body` is a usable one, and `query` what is required; nothing that they name exists."""

    name: str
    verb: str
    path: str
    body_argument: str = ""
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)
    caller: Caller = "user"

    @property
    def variables(self) -> list[str]:
        """The path's variables."""
        return re.findall(r"\{(\w+)\}", self.path)

    @property
    def url(self) -> str:
        """The path with some value for each variable."""
        path = re.sub(r"\{executionId\}", EXECUTION, self.path)
        return re.sub(r"\{\w+\}", "nope", path)

    @property
    def arguments(self) -> dict[str, Any]:
        """What the client's method takes."""
        given: dict[str, Any] = {_snake(name): "nope" for name in self.variables}
        given |= {_snake(name): value for name, value in self.query.items()}
        if self.body_argument:
            given[self.body_argument] = self.body
        if self.name == "claim_deployment_job":
            given["idempotency_key"] = EXECUTION
        return given


def _snake(name: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", name).lower()


_BUCKETS = "/credentials/{credentialName}/buckets"
_BUCKET = _BUCKETS + "/{bucketName}"
_JOB = "/deployments/{deploymentId}/jobs/{jobId}"
_CLAIM = {"submissionRevision": 0, "previousExecutionId": None}
_OUTCOME = {"executionId": EXECUTION, "outcome": "completed"}

OPERATIONS = [
    Operation("exchange_api_token", "POST", "/api-token", caller="sign-in"),
    Operation("rotate_api_token", "POST", "/api-token/rotate"),
    Operation("list_api_access_users", "GET", "/api-access/users"),
    Operation("grant_api_access_user", "POST", "/api-access/users", "grant_api_access_input", {"username": "u"}),
    Operation("revoke_api_access_user", "DELETE", "/api-access/users/{userId}"),
    Operation("list_clusters", "GET", "/clusters"),
    Operation("create_cluster", "POST", "/clusters", "create_cluster_input", CLUSTER),
    Operation("get_cluster", "GET", "/clusters/{id}"),
    Operation("destroy_cluster", "DELETE", "/clusters/{id}"),
    Operation("forget_cluster", "POST", "/clusters/{id}/forget"),
    Operation("list_node_pools", "GET", "/node-pools"),
    Operation("create_node_pool", "POST", "/node-pools", "create_node_pool_input", POOL),
    Operation("get_node_pool", "GET", "/node-pools/{id}"),
    Operation("delete_node_pool", "DELETE", "/node-pools/{id}"),
    Operation("list_deployments", "GET", "/deployments"),
    Operation("create_deployment", "POST", "/deployments", "create_deployment_input", DEPLOYMENT),
    Operation("get_deployment", "GET", "/deployments/{id}"),
    Operation("update_deployment", "PATCH", "/deployments/{id}", "update_deployment_body", {"replicas": 2}),
    Operation("delete_deployment", "DELETE", "/deployments/{id}"),
    Operation(
        "discover_deployment_job_candidate",
        "GET",
        "/deployments/{deploymentId}/jobs/candidate",
        caller="workload",
    ),
    Operation("claim_deployment_job", "POST", _JOB + "/claim", "workload_claim_job_body", _CLAIM, caller="workload"),
    Operation(
        "get_deployment_job_cancellation",
        "GET",
        _JOB + "/cancellation",
        query={"executionId": EXECUTION},
        caller="workload",
    ),
    Operation(
        "report_deployment_job_outcome", "POST", _JOB + "/outcome", "workload_outcome_body", _OUTCOME, caller="workload"
    ),
    Operation(
        "cleanup_deployment_job",
        "POST",
        _JOB + "/cleanup",
        "workload_cleanup_body",
        {"executionId": EXECUTION},
        caller="workload",
    ),
    Operation("submit_workload", "POST", "/workloads", "workload_admission_input", {"deployment": "nope"}),
    Operation("list_workloads", "GET", "/workloads"),
    Operation("get_workload_status", "GET", "/workloads/{id}"),
    Operation("terminate_workload", "DELETE", "/workloads/{id}"),
    Operation("resubmit_workload", "POST", "/workloads/{id}/resubmissions", "workload_resubmit_body", {}),
    Operation(
        "observe_job_submission",
        "POST",
        "/workloads/{id}/claim-observation",
        "job_submission_observation_body",
        {"submissionRevision": 0},
    ),
    Operation("upgrade_service", "POST", "/workloads/{id}/upgrades", "service_upgrade_body", {"image": "i"}),
    Operation("get_workload_cost", "GET", "/workloads/{id}/cost"),
    Operation("get_workload_cost_report", "GET", "/workload-costs", query={"sinceMs": "0"}),
    Operation("get_workload_ssh_access", "GET", "/workloads/{id}/ssh-access", query={"mode": "ssh"}),
    Operation("list_credentials", "GET", "/credentials"),
    Operation("get_credential", "GET", "/credentials/{name}"),
    Operation("save_credential", "PUT", "/credentials/{name}", "cloud_credential", AWS),
    Operation("update_credential", "PATCH", "/credentials/{name}", "credential_update", {}),
    Operation("delete_credential", "DELETE", "/credentials/{name}"),
    Operation("list_secrets", "GET", "/secrets"),
    Operation("save_secret", "PUT", "/secrets/{name}", "save_secret_body", {"values": {}}),
    Operation("delete_secret", "DELETE", "/secrets/{name}"),
    Operation("get_system_release_status", "GET", "/system-release"),
    Operation("request_system_release", "POST", "/system-release", "request_system_release_input", {"image": "i"}),
    Operation("list_buckets", "GET", _BUCKETS),
    Operation("bucket_exists", "GET", _BUCKET),
    Operation("create_bucket", "PUT", _BUCKET),
    Operation("delete_bucket", "DELETE", _BUCKET),
    Operation("list_bucket_objects", "GET", _BUCKET + "/objects"),
    Operation("delete_bucket_object", "DELETE", _BUCKET + "/objects", query={"remotePath": "a/b"}),
    Operation("get_database_schema", "GET", "/database/schema"),
    Operation("query_database", "POST", "/database/queries", "db_query_input", {"sql": "SELECT 1"}),
    Operation("list_notification_channels", "GET", "/notifications"),
    Operation(
        "save_notification_channel", "PUT", "/notifications/{channel}", "save_notification_body", {"webhook": "w"}
    ),
    Operation("test_notification_channel", "POST", "/notifications/{channel}/test", "test_notification_body", {}),
    Operation("delete_notification_channel", "DELETE", "/notifications/{channel}"),
    Operation("get_quota_status", "GET", "/quota/status", query={"cloud": "AWS", "credentialName": "aws"}),
    Operation("get_canceled_quota_submissions", "GET", "/quota/canceled"),
    Operation("list_budgets", "GET", "/spend/budgets"),
    Operation("set_budget", "PUT", "/spend/budgets/{period}/{scope}", "spend_cap_input", {"capUsd": 1}),
    Operation("unset_budget", "DELETE", "/spend/budgets/{period}/{scope}"),
    Operation("list_throttles", "GET", "/spend/throttles"),
    Operation("set_throttle", "PUT", "/spend/throttles/{scope}", "spend_cap_input", {"capUsd": 1}),
    Operation("unset_throttle", "DELETE", "/spend/throttles/{scope}"),
]

# What this API offers beyond the contract.
OURS = [Operation("", "GET", "/deployments/{id}/logs"), Operation("", "GET", "/workloads/{id}/logs")]

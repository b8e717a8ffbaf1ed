"""The contract's answers as pydantic models, for the benchmarks' FastAPI and for the codec's comparison."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class Strict(Model):
    """A request: unknown keys are refused, and nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Target(Model):
    kind: Literal["nodePool"] = "nodePool"
    node_pool_id: str


class JobsOf(Model):
    queued: int
    running: int
    retrying: int
    terminal: int
    unreleased: int


class BlockingJobs(Model):
    total: int
    jobs: list[dict[str, Any]]


class Upgrade(Model):
    number: int
    state: str


class Status(Model):
    state: str
    releasing: bool
    ready: bool
    reason: str
    observation: Literal["observed", "unavailable"]
    observation_error: str | None = None
    observed_at: int | None = None
    requested_generation: int
    applied_generation: int | None = None
    pod_generation: int | None = None
    pod_name: str | None = None
    pod_uid: str | None = None
    container_id: str | None = None
    container_ready: bool | None = None
    application_ready: bool | None = None
    probe_configured: bool | None = None
    ready_replicas: int
    blocking_jobs: BlockingJobs
    upgrade: Upgrade | None = None


class PodOf(Model):
    container_id: str | None = None
    container_ready: bool
    observed_generation: int | None = None
    pending_reason: str | None = None
    pod_name: str | None = None
    pod_uid: str | None = None


class Deployment(Model):
    id: str
    name: str
    image: str
    node_pool_id: str
    target: Target
    command: list[str] | None = None
    env_keys: list[str]
    secret_names: list[str]
    readiness_probe: dict[str, Any] | None = None
    replicas: int
    max_concurrent_jobs_per_replica: int
    gpu_count: int
    generation: int
    jobs: JobsOf
    status: Status | None = None
    workload: PodOf | None = None
    created_at: int
    updated_at: int
    deleted_at: int | None = None
    deletion_requested_at: int | None = None


class DeploymentAnswer(Model):
    deployment: Deployment


class Workload(Model):
    id: str
    state: str
    workload_type: Literal["job"] = "job"
    submission_revision: int
    claimed: bool
    claim_deadline_at: int | None = None
    deployment_id: str | None = None
    user_id: str
    session: str | None = None
    session_label: str | None = None
    agent: str | None = None
    started_at: int
    completed_at: int | None = None
    image: str | None = None
    image_digest: str | None = None
    command: list[str] | None = None
    docker_command: str = ""
    docker_options: dict[str, Any] | None = None
    secret_names: list[str] | None = None
    cloud_provider: str | None = None
    region: str | None = None
    availability_zone: str | None = None
    vm_type: str | None = None
    gpu_type: str | None = None
    spot: bool = False
    vm_count: int = 0
    disk_size_gb: int | None = None
    disk_tier: str | None = None
    input_bucket: str | None = None
    input_storage_region: str | None = None
    output_bucket: str | None = None
    output_storage_region: str | None = None
    checkpoint_bucket: str | None = None
    checkpoint_storage_region: str | None = None
    cost_source: str | None = None
    total_cost: float | None = None
    vm_duration_ms: int | None = None
    awaiting_release_ms: int | None = None
    dns_record_id: str | None = None
    public_endpoint: str | None = None
    version: str | None = None
    node_pool_id: str | None = None
    node_pool_name: str | None = None
    credential_id: str | None = None
    checkpoint_storage_credential_id: str | None = None
    input_storage_credential_id: str | None = None
    output_storage_credential_id: str | None = None
    image_runtime: str | None = None
    is_owned_by_caller: bool
    latest_message: str | None = None


class Submit(Strict):
    deployment: str = Field(min_length=1)
    workload_type: Literal["job"] | None = None
    id: str | None = None
    timeout: float | None = None
    session: str | None = None
    session_label: str | None = None
    agent: str | None = None


class Admission(Model):
    id: str
    claim_deadline_at: int | None = None
    submission_revision: int


class Location(Model):
    region: str
    zone: str
    vm_type: str


class Capacity(Model):
    ready_vm_count: int
    starting_vm_count: int
    draining_vm_count: int
    locations: list[Location]


class Ingress(Model):
    entry_ip: str | None = None
    release: str | None = None


class NodePool(Model):
    id: str
    name: str
    cluster_id: str
    state: str
    releasing: bool
    cloud_provider: str
    region: str
    zone: str | None = None
    vm_types: list[str]
    min_vm_count: int
    max_vm_count: int
    capacity: Capacity
    live_references: int
    last_error: str | None = None
    ingress_entry_ip: str | None = None
    ingress: Ingress | None = None
    created_at: int
    updated_at: int


class NodePoolAnswer(Model):
    node_pool: NodePool


class NodePoolsAnswer(Model):
    node_pools: list[NodePool]


Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(min_length=1, max_length=64)]


class NodePoolToCreate(Strict):
    name: Name
    cluster: Text | None = None
    credential_name: Text
    region: Text | None = None
    zone: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    vm_types: Annotated[list[Text], Field(min_length=1)]
    min_vm_count: Annotated[int, Field(ge=0)]
    max_vm_count: Annotated[int, Field(ge=0)]


class DockerOptions(Strict):
    binds: list[str] | None = None
    cpus: str | None = None
    gpus: str | None = None
    memory: str | None = None
    privileged: bool | None = None
    runtime: str | None = None
    shm_size: str | None = None


class DeploymentToCreate(Strict):
    name: Name
    image: Text
    node_pool: Text
    command: list[str] | None = None
    env: dict[str, str] = {}
    secret_names: list[Text] = []
    docker_options: DockerOptions | None = None
    replicas: Annotated[int, Field(ge=1)] | None = None
    max_concurrent_jobs_per_replica: Annotated[int, Field(ge=1)] | None = None


class DeploymentPatch(Strict):
    """What is left out is told from null by `model_fields_set`."""

    image: Text | None = None
    command: list[str] | None = None
    env: dict[str, str] | None = None
    docker_options: DockerOptions | None = None
    replicas: Annotated[int, Field(ge=1)] | None = None

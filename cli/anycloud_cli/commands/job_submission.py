"""How `anycloud job` submits: one request, repeated under one id until its answer is known."""

from __future__ import annotations

import secrets
from typing import Any

import click

from anycloud_cli.client import path
from anycloud_cli.failures import ApiRefusal, Failure, passing, unsent
from anycloud_cli.options import assignments, env_file
from anycloud_cli.session import Session

_RETRY_SECONDS = 30.0
_PAUSE_SECONDS = 1.0
_DOCKER = {"gpus": "gpus", "runtime": "runtime", "shm_size": "shmSize", "memory": "memory", "cpus": "cpus"}
_OF_AN_IMAGE = (*_DOCKER, "bind", "privileged", "secret", "env", "env_file", "time_limit", "node_pool", "cluster")
_OF_A_VM = ("credentials", "region", "zone", "vm_type", "gpu_type", "disk_size", "spot")


def to_deployment(session: Session, given: dict[str, Any], wait: bool) -> int:
    """A Job that a Deployment's worker claims."""
    if given["deployment"] is None:
        raise _usage("Give an image, or --deployment.")
    foreign = _given(given, (*_OF_AN_IMAGE, *_OF_A_VM))
    if foreign:
        raise _usage(f"--deployment and {foreign[0]} exclude each other: the Job runs in the Deployment's container.")
    body: dict[str, Any] = {"deployment": given["deployment"], "workloadType": "job"}
    if given["timeout"] is not None:
        body["timeout"] = given["timeout"]
    return _submitted(session, body, given["job_id"], wait)


def to_node_pool(session: Session, image: str, given: dict[str, Any], wait: bool) -> int:
    """A Job that brings its own image."""
    for flag in _given(given, ("deployment", "timeout")):
        raise _usage(f"An image and {flag} exclude each other: it is for Jobs that run in a Deployment's container.")
    _refuse_placement(given)
    environment = env_file(given["env_file"]) if given["env_file"] else {}
    environment |= assignments(given["env"], "--env")
    body: dict[str, Any] = {"image": image, "workloadType": "job", "cloudConfig": {}, **_settings(given)}
    if environment:
        body["env"] = environment
    body["nodePool"] = _pool(session, given["node_pool"], given["cluster"])
    return _submitted(session, body, given["job_id"], wait)


def _refuse_placement(given: dict[str, Any]) -> None:
    """What chooses a VM for one Job can't stand beside what chooses a node pool, and nothing buys VMs for one Job."""
    placed = _given(given, ("cluster", "node_pool"))
    for flag in _given(given, _OF_A_VM):
        if placed:
            raise _usage(f"{placed[0]} and {flag} exclude each other: the node pool has its VMs already.")
        raise _usage(f"{flag} asks for a VM for one Job, which this API doesn't buy; give --node-pool or --cluster.")
    if not placed:
        raise _usage("Missing --node-pool or --cluster.")


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """Only what was given."""
    docker = {field: given[option] for option, field in _DOCKER.items() if given[option] is not None}
    if given["bind"]:
        docker["binds"] = list(given["bind"])
    if given["privileged"]:
        docker["privileged"] = True
    settings: dict[str, Any] = {"dockerOptions": docker} if docker else {}
    if given["command"]:
        settings["command"] = list(given["command"])
    if given["secret"]:
        settings["secrets"] = list(given["secret"])
    if given["time_limit"] is not None:
        settings["timeLimit"] = max(round(given["time_limit"]), 1)
    return settings


def _pool(session: Session, node_pool: str | None, cluster: str | None) -> str:
    """The pool that was named, or the only running one of the cluster. A guess would spend somebody's money."""
    if cluster is None:
        assert node_pool is not None, "one of them was given"
        return node_pool
    pools = session.api.get(path("node-pools"), {"cluster": cluster})["nodePools"]
    if node_pool is not None:
        if not any(node_pool in (pool["id"], pool["name"]) for pool in pools):
            raise Failure(f"Cluster {cluster} has no node pool {node_pool}.")
        return node_pool
    running = [pool for pool in pools if pool["state"] == "running"]
    if len(running) == 1:
        return str(running[0]["id"])
    if running:
        names = ", ".join(pool["name"] for pool in running)
        said = f"Cluster {cluster} has {len(running)} running node pools: {names}. Give --node-pool with one of them."
        raise Failure(said)
    others = ", ".join(f"{pool['name']} ({pool['state']})" for pool in pools if pool["state"] != "terminated")
    raise Failure(f"Cluster {cluster} has no running node pool{f': {others}' if others else ''}.")


def _submitted(session: Session, body: dict[str, Any], job_id: str | None, wait: bool) -> int:
    receipt = _submit(session, body, job_id)
    if not wait:
        session.out.result(receipt, [receipt["id"]])
        return 0
    from anycloud_cli.waiting import WorkloadTarget, follow

    if session.out.as_json:
        session.out.record(receipt)
    return follow(session, [WorkloadTarget(session.api, receipt["id"])])


def _submit(session: Session, body: dict[str, Any], job_id: str | None) -> dict[str, Any]:
    """Submits under an id known before, so that a lost answer can be asked for again without a second Job."""
    chosen = job_id or f"job-{secrets.token_hex(12)}"
    body = {**body, "id": chosen}
    begun, lost = session.clock.monotonic(), False
    while True:
        try:
            receipt: dict[str, Any] = session.api.request("POST", path("workloads"), body=body)
            return receipt
        except Failure as failure:
            if lost and job_id is None and isinstance(failure, ApiRefusal) and failure.code == "WORKLOAD_ID_CONFLICT":
                return {"id": chosen}  # nobody else can have made that id: the lost answer was a yes
            if not lost and (unsent(failure) or not passing(failure)):
                raise
            lost = True
            if not passing(failure) or session.clock.monotonic() - begun >= _RETRY_SECONDS:
                raise _uncertain(chosen, failure) from failure
        session.clock.sleep(_PAUSE_SECONDS)


def _uncertain(chosen: str, failure: Failure) -> Failure:
    said = f"No certain answer ({failure.message.rstrip('.')}); Job {chosen} may have been submitted."
    return Failure(said, next_command=f"anycloud status {chosen}")


def _given(given: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    """The flags among these that were given."""
    return [f"--{name.replace('_', '-')}" for name in names if given[name] not in (None, ())]


def _usage(said: str) -> click.UsageError:
    return click.UsageError(said, click.get_current_context())

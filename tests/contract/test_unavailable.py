"""The published client while a part of the installation is away: it has to read that it may try again.

What is broken here is mended at the end of each test; the supervisor on the cluster is held still meanwhile, so that it
doesn't mend it sooner.
"""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from tests.contract.operations import OPERATIONS, Operation
from tests.contract.sdk import Judge
from tests.contract.world import SIGN_IN, Api, World, timed
from tests.support.installation import SERVICES, kill, until

BY_NAME = {one.name: one for one in OPERATIONS}
POOL = {
    "name": "later",
    "credentialName": "aws",
    "region": "us-east-1",
    "vmTypes": ["m5.large"],
    "minVmCount": 1,
    "maxVmCount": 1,
}


@contextmanager
def without(world: World, *services: str) -> Iterator[None]:
    """These services of the hosted API are gone, until the end."""
    supervisor = world.installation.process("hosted/supervisor")
    assert supervisor
    kill(supervisor, signal.SIGSTOP)
    try:
        for service in services:
            running = world.installation.process(f"hosted/{service}")
            assert running
            kill(running)
        yield
    finally:
        kill(supervisor, signal.SIGCONT)
        until(lambda: is_whole(world), 60)


def is_whole(world: World) -> bool:
    """Every service answers, and the cluster has noticed that the API does."""
    release = world.hosted.call("GET", "/system-release")
    if any(world.hosted.call("GET", path).status_code != 200 for path in ("/clusters", "/node-pools", "/deployments")):
        return False
    return release.status_code == 200 and release.json()["rollout"]["readyReplicas"] == 1


@contextmanager
def refused(world: World, effect: str, **match: str) -> Iterator[None]:
    """The world outside refuses these calls, until the end."""
    made = world.installation.world("POST", "/faults", {"effect": effect, "match": match})
    try:
        yield
    finally:
        world.installation.world("DELETE", f"/faults/{made['id']}")


def caller(world: World, served: dict[str, Any], operation: Operation) -> Api:
    return world.worker(served) if operation.caller == "workload" else world.hosted


def test_held_calls_of_a_service_that_stops_in_order_end_with_nothing_yet(
    world: World, served: dict[str, Any], parked: dict[str, Any], unique: Callable[[str], str]
) -> None:
    """No error is told to whoever only waits; and a claim or a submission is never left uncertain by it."""
    container, waiting, taken = world.worker(served), unique("job"), unique("job")
    world.hosted.ask("POST", "/workloads", {"deployment": parked["id"], "id": waiting})
    world.hosted.ask("POST", "/workloads", {"deployment": served["id"], "id": taken})
    jobs, key = f"/deployments/{served['id']}/jobs", str(uuid4())
    body = {"submissionRevision": 0, "previousExecutionId": None}
    container.ask("POST", f"{jobs}/{taken}/claim", body, **{"idempotency-key": key})
    observation = {"submissionRevision": 0, "waitMs": 20000}
    cancellation = f"{jobs}/{taken}/cancellation?executionId={key}&waitMs=20000"
    service = world.installation.process("hosted/deployment")
    assert service
    with without(world), ThreadPoolExecutor(3) as threads:
        held = [
            threads.submit(timed, container, "GET", f"{jobs}/candidate?waitMs=20000"),
            threads.submit(timed, container, "GET", cancellation),
            threads.submit(timed, world.hosted, "POST", f"/workloads/{waiting}/claim-observation", observation),
        ]
        time.sleep(0.5)  # all of them are held by now
        kill(service, signal.SIGTERM)
        answers = [one.result(30) for one in held]
    assert max(one.seconds for one in answers) < 5
    candidate, cancelled, observed = (one.answer for one in answers)
    assert candidate.status_code == 204
    assert (cancelled.status_code, cancelled.json()) == (200, {"cancelled": False})
    assert (observed.status_code, observed.json()["outcome"]) == (200, "pending")
    container.ask("POST", f"{jobs}/{taken}/outcome", {"executionId": key, "outcome": "completed"})
    container.ask("POST", f"{jobs}/{taken}/cleanup", {"executionId": key})
    world.hosted.ask("DELETE", f"/workloads/{waiting}")


def test_every_operation_of_a_service_that_restarts_may_be_tried_again(
    world: World, judge: Judge, served: dict[str, Any]
) -> None:
    with without(world, *SERVICES):
        for operation in OPERATIONS:
            judge.operation(caller(world, served, operation), operation.name, **operation.arguments).refused(
                503, "API_RESTARTING"
            )


def test_a_token_that_cannot_be_checked_is_not_a_wrong_one(world: World, judge: Judge) -> None:
    fresh = Api(world.hosted.url, "acapi_never_seen_before")
    with without(world, "cluster"):
        for name in ("list_node_pools", "list_deployments", "list_workloads", "list_secrets", "query_database"):
            judge.operation(fresh, name, **BY_NAME[name].arguments).refused(503, "AUTHENTICATION_UNAVAILABLE")


def test_without_github_nobody_signs_in(world: World, judge: Judge) -> None:
    with refused(world, "unreachable", area="github"):
        judge.operation(Api(world.hosted.url, SIGN_IN), "exchange_api_token").refused(503, "AUTHENTICATION_UNAVAILABLE")


def test_without_node_pools_no_deployment_is_made(
    world: World, judge: Judge, served: dict[str, Any], unique: Callable[[str], str]
) -> None:
    body = {"name": unique("late"), "image": world.register_image("contract/plain:1"), "nodePool": "pool"}
    world.hosted.ask("GET", "/deployments")  # the token is known to the service
    with without(world, "nodepool"):
        judge.operation(world.hosted, "create_deployment", create_deployment_input=body).refused(
            503, "DEPLOYMENT_UNAVAILABLE"
        )
        judge.operation(world.hosted, "get_deployment", id=served["id"]).value("DeploymentResponse", 200)
    judge.operation(world.hosted, "get_deployment", id=body["name"]).refused(404, "DEPLOYMENT_NOT_FOUND")


@pytest.mark.req("DP-061")
def test_a_containers_token_is_reviewed_for_each_pickup_or_nothing_is_taken(
    world: World, judge: Judge, served: dict[str, Any], unique: Callable[[str], str]
) -> None:
    container, job = world.worker(served), unique("job")
    world.hosted.ask("POST", "/workloads", {"deployment": served["id"], "id": job})
    claim = {
        "deployment_id": served["id"],
        "job_id": job,
        "idempotency_key": "00000000-0000-4000-8000-0000000000aa",
        "workload_claim_job_body": {"submissionRevision": 0, "previousExecutionId": None},
    }
    with refused(world, "unreachable", area="kube", action="POST", resource=""):  # reviews are no stored objects
        judge.operation(container, "claim_deployment_job", **claim).refused(503, "WORKLOAD_UNAVAILABLE")
    assert world.hosted.ask("GET", f"/workloads/{job}")["workload"]["state"] == "queued"
    world.hosted.ask("DELETE", f"/workloads/{job}")


def test_a_worker_rides_out_a_review_that_fails(
    world: World, worker: Judge, served: dict[str, Any], unique: Callable[[str], str]
) -> None:
    job = unique("job")
    world.hosted.ask("POST", "/workloads", {"deployment": served["id"], "id": job})
    once = {"effect": "unreachable", "match": {"area": "kube", "action": "POST", "resource": ""}, "times": 1}
    world.installation.world("POST", "/faults", once)
    finish(worker, job)


def test_a_worker_and_a_submitter_ride_out_a_restart(
    world: World, judge: Judge, worker: Judge, served: dict[str, Any], unique: Callable[[str], str]
) -> None:
    job = unique("job")
    judge.make("Client", "client", api_url=world.hosted.url, token=world.hosted.token).value("Client")
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(worker.on, "deployment", "next_job", keep="job", timeout=15)
        with without(world, "deployment"):
            told = judge.on("client", "submit", deployment="served", workload_id=job).raised("JobSubmissionUncertain")
            assert told["job"]["id"] == job
            assert told["cause"]["error"]["code"] == "API_RESTARTING"
        judge.on("client", "get", workload_id=job).refused(404, "WORKLOAD_MANAGEMENT_NOT_FOUND")
        judge.on("client", "submit", deployment="served", workload_id=job).value("Job")
        assert waiting.result(30).value("CurrentJob")["jobId"] == job
    worker.on("job", "complete").value("NoneType")
    worker.on("job", "cleanup").value("NoneType")


def finish(worker: Judge, job: str) -> None:
    assert worker.on("deployment", "next_job", keep="job", timeout=10).value("CurrentJob")["jobId"] == job
    worker.on("job", "complete").value("NoneType")
    worker.on("job", "cleanup").value("NoneType")


def test_without_kubernetes_neither_release_nor_pods_are_told_and_no_pool_is_made(
    world: World, judge: Judge, served: dict[str, Any]
) -> None:
    with refused(world, "unreachable", area="kube"):
        judge.operation(world.hosted, "get_system_release_status").refused(503, "SYSTEM_RELEASE_UNAVAILABLE")
        judge.operation(world.hosted, "create_node_pool", create_node_pool_input=POOL).refused(
            400, "NODE_POOLS_UNAVAILABLE"
        )
        shown = judge.operation(world.hosted, "get_deployment", id=served["id"]).value("DeploymentResponse", 200)
        status = shown["deployment"]["status"]
        assert (status["state"], status["observation"]) == ("unknown", "unavailable")
        assert status["observationError"]
        assert shown["deployment"]["workload"] is None
    until(lambda: is_whole(world), 30)


def test_while_the_database_takes_no_writes_everything_may_be_tried_again(
    world: World, judge: Judge, worker: Judge, parked: dict[str, Any], unique: Callable[[str], str]
) -> None:
    """Somebody else holds the lock of the file: what can't be stored is refused, and what is only read is answered."""
    job, late = unique("job"), unique("job")
    world.hosted.ask("POST", "/workloads", {"deployment": parked["id"], "id": job})
    [file] = (world.config / "data" / "sandbox").rglob("db/deployment.sqlite")
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(4) as threads:
        body = {"deployment": parked["id"], "id": late}
        submitted = threads.submit(judge.operation, world.hosted, "submit_workload", workload_admission_input=body)
        terminated = threads.submit(worker.operation, world.hosted, "terminate_workload", id=job)
        saved = threads.submit(world.hosted.call, "PUT", f"/secrets/{late}", {"values": {}})
        patched = threads.submit(world.hosted.call, "PATCH", f"/deployments/{parked['id']}", {"replicas": 1})
        time.sleep(0.2)  # all of them wait for the lock by now
        assert world.hosted.ask("GET", f"/workloads/{job}")["workload"]["state"] == "queued"
        submitted.result(30).refused(503, "WORKLOAD_ADMISSION_UNAVAILABLE")
        terminated.result(30).refused(503, "WORKLOAD_MANAGEMENT_UNAVAILABLE")
        assert (saved.result(30).status_code, saved.result().json()["code"]) == (503, "API_RESTARTING")
        assert (patched.result(30).status_code, patched.result().json()["code"]) == (503, "DEPLOYMENT_UNAVAILABLE")
    holder.execute("ROLLBACK")
    holder.close()
    assert world.hosted.call("GET", f"/workloads/{late}").status_code == 404
    until(lambda: world.hosted.call("DELETE", f"/workloads/{job}").status_code == 202, 20)

"""What a real kubelet does with the Pods that the product writes: Deployments made through /v1, containers in a VM."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from anycloud_common.kube.names import WORKLOAD_TOKEN_AUDIENCE, WORKLOAD_TOKEN_PATH

from tests.world.vm import until
from tests.world.world import Json, World

Deploy = Callable[..., Json]

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def shell(script: str) -> Json:
    """A container that runs a script, instead of the worker that its image starts."""
    return {"command": ["/bin/sh", "-c", script]}


IDLE = shell("trap 'exit 0' TERM; while :; do sleep 0.1; done")


def claims(token: str) -> Json:
    payload = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))))


def reviewed(world: World, token: str, audience: str = WORKLOAD_TOKEN_AUDIENCE) -> Json:
    """What the API server says of a token."""
    return dict(world.plane.call("POST", REVIEWS, {"spec": {"token": token, "audiences": [audience]}})["status"])


def container(pod: Json) -> Json:
    """Status of the Pod's only container."""
    (found,) = pod["status"]["containerStatuses"]
    return dict(found)


# Jobs


def test_jobs_are_done_by_the_published_client_in_a_container(world: World, steady: Json, deploy: Deploy) -> None:
    made = deploy(steady)
    jobs = [world.submit(made) for _ in range(3)]
    for job in jobs:
        assert world.wait_for_job(job)["state"] == "completed"
    said = "\n".join(world.logs(made))
    assert all(f"job={job} " in said for job in jobs)


# Security


@pytest.mark.req("DP-014")
def test_a_container_can_gain_no_privileges_and_has_the_default_seccomp_filter(
    world: World, steady: Json, deploy: Deploy
) -> None:
    pod = world.pod(deploy(steady, **IDLE))
    status = dict(line.split(":\t", 1) for line in world.run_in(pod, "cat", "/proc/1/status").splitlines())
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    script = "import ctypes; l=ctypes.CDLL(None, use_errno=True); print(l.unshare(0x10000000), ctypes.get_errno())"
    assert world.run_in(pod, "python3.11", "-c", script).split() == ["-1", "1"]  # no user namespace: EPERM


@pytest.mark.req("DP-008")
def test_limits_are_held_by_the_kernel(world: World, steady: Json, deploy: Deploy) -> None:
    pod = world.pod(deploy(steady, dockerOptions={"cpus": "0.5", "memory": "64m"}, **IDLE))
    seen = world.run_in(pod, "sh", "-c", _SHOW_LIMITS).split()
    assert seen == ["67108864", "0.50"]


# cgroup v1 names, else v2's; the quota as a part of its period.
_SHOW_LIMITS = """
cd /sys/fs/cgroup
cat memory/memory.limit_in_bytes 2>/dev/null || cat memory.max
if [ -d cpu ]; then set -- $(cat cpu/cpu.cfs_quota_us) $(cat cpu/cpu.cfs_period_us); else set -- $(cat cpu.max); fi
echo "0.$(($1 * 100 / $2))"
"""


def test_a_container_that_takes_more_memory_than_its_limit_is_ended_and_started_again(
    world: World, steady: Json, deploy: Deploy
) -> None:
    script = "echo begun; python3.11 -c 'x = bytearray(200 << 20)'; echo ended with $?; sleep 600"
    made = deploy(steady, wait=False, dockerOptions={"memory": "64m"}, command=["/bin/sh", "-c", f"exec {script[12:]}"])
    ended = until(lambda: last_end(world, made), "the end of the container")
    assert ended["reason"] == "OOMKilled"


def last_end(world: World, deployment: Json) -> Json | None:
    for pod in world.pods(deployment):
        for status in pod["status"].get("containerStatuses", ()):
            if found := status.get("lastState", {}).get("terminated"):
                return dict(found)
    return None


# Tokens


@pytest.mark.req("DP-060")
def test_the_projected_token_is_bound_to_account_and_pod_and_good_for_one_audience(
    world: World, steady: Json, deploy: Deploy
) -> None:
    made = deploy(steady, **IDLE)
    pod = world.pod(made)
    told = claims(token := world.run_in(pod, "cat", WORKLOAD_TOKEN_PATH))
    bound = told["kubernetes.io"]
    assert told["aud"] == [WORKLOAD_TOKEN_AUDIENCE]
    assert bound["pod"] == {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    assert bound["serviceaccount"]["name"] == made["id"]
    assert bound["node"]["name"] == pod["spec"]["nodeName"]
    said = reviewed(world, token)
    assert said["authenticated"]
    assert said["user"]["extra"]["authentication.kubernetes.io/pod-uid"] == [pod["metadata"]["uid"]]
    assert not reviewed(world, token, "https://kubernetes.default.svc.cluster.local").get("authenticated")


def test_any_user_of_a_container_reads_the_token_and_nothing_else_of_the_account(
    world: World, steady: Json, deploy: Deploy
) -> None:
    pod = world.pod(deploy(steady, **IDLE))
    script = f"import os; os.setuid(1000); print(len(open({WORKLOAD_TOKEN_PATH!r}).read()))"
    assert int(world.run_in(pod, "python3.11", "-c", script)) > 500
    assert world.run_in(pod, "ls", "/var/run/secrets").split() == ["anycloud.sh"]


def test_a_kubelet_that_starts_again_leaves_the_container_and_gives_it_a_fresh_token(
    world: World, steady: Json, deploy: Deploy
) -> None:
    made = deploy(steady)
    pod = world.pod(made)
    before, running = claims(world.run_in(pod, "cat", WORKLOAD_TOKEN_PATH)), container(pod)
    vm = world.vm(world.node(steady))
    vm.run("systemctl", "restart", "k3s-agent", seconds=90)

    def renewed() -> Json | None:
        try:
            found = claims(world.run_in(pod, "cat", WORKLOAD_TOKEN_PATH))
        except RuntimeError:  # the kubelet isn't back yet
            return None
        return found if found["jti"] != before["jti"] else None

    after = until(renewed, "a fresh token", 1)
    assert after["iat"] > before["iat"]
    assert after["kubernetes.io"]["pod"] == before["kubernetes.io"]["pod"]
    now = container(world.pod(made))
    assert (now["containerID"], now["restartCount"]) == (running["containerID"], 0)
    assert world.wait_for_job(world.submit(made))["state"] == "completed"


def test_the_token_of_a_deleted_pod_is_refused(world: World, steady: Json, deploy: Deploy) -> None:
    made = deploy(steady, **IDLE)
    pod = world.pod(made)
    token = world.run_in(pod, "cat", WORKLOAD_TOKEN_PATH)
    assert reviewed(world, token)["authenticated"]
    world.remove(made["id"])
    until(lambda: world.find_pod(pod) is None, "the end of the Pod")
    # The API server remembers a verdict for up to ten seconds.
    until(lambda: not reviewed(world, token).get("authenticated"), "the end of the token", 0.5)


# Readiness


@pytest.mark.req("DP-019", "DP-022", "DP-078", "DP-084")
def test_a_readiness_probe_decides_when_a_deployment_is_ready(world: World, steady: Json, deploy: Deploy) -> None:
    probe = {"exec": {"command": ["cat", "/tmp/ready"]}, "periodSeconds": 1}
    made = deploy(steady, wait=False, readinessProbe=probe, **IDLE)
    pod = until(lambda: running_pod(world, made), "the container")
    before = world.deployment(made["id"])
    assert (before["status"]["state"], before["status"]["ready"]) == ("starting", False)
    world.run_in(pod, "touch", "/tmp/ready")
    assert world.wait_for_deployment(made["id"])["status"]["state"] == "running"
    world.run_in(pod, "busybox", "rm", "/tmp/ready")

    def lost() -> Json | None:
        found = dict(world.deployment(made["id"])["status"])
        return found if not found["ready"] else None

    assert until(lost, "the loss of readiness")["state"] == "running"


def running_pod(world: World, deployment: Json) -> Json | None:
    """A Pod whose container runs."""
    for pod in world.pods(deployment):
        for status in pod["status"].get("containerStatuses", ()):
            if "running" in status["state"]:
                return pod
    return None


# Replacement


@pytest.mark.req("DP-128")
def test_an_upgrade_never_has_two_pods_at_once(world: World, steady: Json, deploy: Deploy) -> None:
    made = deploy(steady, **shell("trap 'sleep 1; exit 0' TERM; while :; do sleep 0.1; done"))
    old = world.pod(made)
    with world.watching(made) as seen:
        world.api.ask("PATCH", f"/deployments/{made['id']}", {"command": [*IDLE["command"], "new"]})

        def replaced() -> Json | None:
            pods = [pod for pod in world.pods(made) if pod["metadata"]["uid"] != old["metadata"]["uid"]]
            return pods[0] if pods and world.deployment(made["id"])["status"]["ready"] else None

        until(replaced, "the new Pod")
        events = seen()
    alive: set[str] = {old["metadata"]["uid"]}
    for event in events:
        uid = event["object"]["metadata"]["uid"]
        over = event["type"] == "DELETED" or event["object"]["status"]["phase"] in ("Succeeded", "Failed")
        alive = alive - {uid} if over else alive | {uid}
        assert len(alive) <= 1, [(each["type"], each["object"]["metadata"]["name"]) for each in events]
    assert {event["type"] for event in events} >= {"ADDED", "DELETED"}


# The end of a container


def test_the_end_of_a_pod_is_told_to_its_process_and_forced_after_the_grace(
    world: World, steady: Json, deploy: Deploy
) -> None:
    stubborn = shell("trap 'echo asked to end' TERM; echo up; while :; do sleep 0.1; done")
    made = deploy(steady, **stubborn)
    pod = world.pod(made)
    about = pod["metadata"]
    with world.following(pod) as lines:
        until(lambda: "up" in lines, "the first line")
        path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
        began = time.monotonic()
        world.plane.call("DELETE", path, {"gracePeriodSeconds": 3})
        until(lambda: world.find_pod(pod) is None, "the end of the Pod")
        took = time.monotonic() - began
        until(lambda: "asked to end" in lines, "the last line")
    assert took >= 2.5


# Crashes


def test_a_crashed_container_starts_again_with_its_binds_and_its_last_lines_are_kept(
    world: World, steady: Json, deploy: Deploy
) -> None:
    script = (
        "echo run >> /data/runs; n=$(grep -c run /data/runs); echo this is run $n; [ $n -gt 2 ] || exit $((n + 40)); "
    )
    made = deploy(
        steady, dockerOptions={"binds": ["/data"]}, **shell(script + "trap 'exit 0' TERM; while :; do sleep 0.1; done")
    )
    third = until(lambda: (found := container(world.pod(made)))["restartCount"] == 2 and found, "the third run")
    assert third["lastState"]["terminated"]["exitCode"] == 42
    assert any("this is run 3" in line for line in world.logs(made))
    assert any("this is run 2" in line for line in world.logs(made, previous="true"))


def test_a_container_that_always_ends_is_started_ever_later_and_the_deployment_says_so(
    world: World, steady: Json, deploy: Deploy
) -> None:
    made = deploy(steady, wait=False, **shell("echo up; exit 3"))

    def backing_off() -> Json | None:
        for pod in world.pods(made):
            for status in pod["status"].get("containerStatuses", ()):
                if (
                    status["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"
                    and status["restartCount"] > 1
                ):
                    return dict(status)
        return None

    until(backing_off, "the back-off")
    said = until(lambda: _told_of_crash(world, made), "the reason in the status")
    assert "3" in said or "CrashLoop" in said


def _told_of_crash(world: World, deployment: Json) -> str | None:
    status: dict[str, Any] = world.deployment(deployment["id"])["status"]
    assert not status["ready"]
    text = json.dumps(status)
    return text if "rash" in text or "exit" in text else None

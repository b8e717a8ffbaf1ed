"""Calls of the client: create first, apply only what is ours, delete that very object, errors classified once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from anycloud_common.clock import ManualClock
from anycloud_common.kube import Foreign, Kube, KubeError
from anycloud_common.kube.names import ANNOTATION_INTENT
from anycloud_common.kube.transport import TokenFile
from anycloud_common.settings import Settings

from tests.unit.kube.api_server import ApiServer, Fault, Refusal

OWNER = {"anycloud.sh/deployment": "dep-1"}


def config(name: str = "c", intent: str = "i1", **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "labels": dict(OWNER), "annotations": {ANNOTATION_INTENT: intent}}
    return {"metadata": metadata, "data": data}


async def test_an_absent_object_is_none(kube: Kube) -> None:
    assert await kube.get("ConfigMap", "c", "n") is None


async def test_kind_and_version_are_filled_in_and_the_token_is_sent(kube: Kube, server: ApiServer) -> None:
    created = await kube.create("Deployment", {"metadata": {"name": "d", "namespace": "n"}})
    assert (created["apiVersion"], created["kind"]) == ("apps/v1", "Deployment")
    seen = server.seen[-1]
    assert (seen.method, seen.path, seen.token) == ("POST", "/apis/apps/v1/namespaces/n/deployments", "the-token")


async def test_a_list_is_read_in_pages_with_its_version(kube: Kube, server: ApiServer) -> None:
    for number in range(1203):
        server.put("pods", {"metadata": {"name": f"p{number}", "namespace": "n"}})
    items, version = await kube.list("Pod", "n")
    assert len(items) == 1203
    assert version == str(server.version)
    assert [seen.query.get("continue") for seen in server.seen] == [None, "500", "1000"]


async def test_a_list_whose_moment_was_forgotten_is_read_in_one_piece(kube: Kube, server: ApiServer) -> None:
    server.put("pods", {"metadata": {"name": "p", "namespace": "n"}})
    server.faults.append(Fault("GET", "/pods", Refusal(410, "Expired")))
    items, _ = await kube.list("Pod", "n")
    assert len(items) == 1
    assert "limit" not in server.seen[-1].query


async def test_a_list_of_all_namespaces_takes_labels(kube: Kube, server: ApiServer) -> None:
    server.put("pods", {"metadata": {"name": "p", "namespace": "n", "labels": {"a": "b", "c": "d"}}})
    server.put("pods", {"metadata": {"name": "q", "namespace": "m", "labels": {"a": "b"}}})
    assert len((await kube.list("Pod", labels={"a": "b"}))[0]) == 2
    assert len((await kube.list("Pod", labels={"a": "b", "c": "d"}))[0]) == 1


# Create first


async def test_ensure_creates_and_a_repeat_finds_the_same_object(kube: Kube) -> None:
    first = await kube.ensure("ConfigMap", config(), OWNER)
    again = await kube.ensure("ConfigMap", config(), OWNER)
    assert again["metadata"]["uid"] == first["metadata"]["uid"]


async def test_ensure_after_a_lost_answer_finds_what_it_created(kube: Kube, server: ApiServer) -> None:
    server.faults.append(Fault("POST", "/configmaps", "lose"))
    with pytest.raises(KubeError) as caught:
        await kube.ensure("ConfigMap", config(), OWNER)
    assert caught.value.reason == "unreachable"
    stored = await kube.get("ConfigMap", "c", "n")
    assert stored is not None
    assert (await kube.ensure("ConfigMap", config(), OWNER))["metadata"]["uid"] == stored["metadata"]["uid"]


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"labels": OWNER},
        {"labels": OWNER, "annotations": {ANNOTATION_INTENT: "another"}},
        {"labels": {"anycloud.sh/deployment": "dep-2"}, "annotations": {ANNOTATION_INTENT: "i1"}},
    ],
)
async def test_an_object_without_our_owner_and_intent_is_foreign_and_untouched(
    kube: Kube, server: ApiServer, metadata: dict[str, Any]
) -> None:
    stored = server.put("configmaps", {"metadata": {"name": "c", "namespace": "n", **metadata}, "data": {"x": "y"}})
    version = stored["metadata"]["resourceVersion"]
    with pytest.raises(Foreign) as caught:
        await kube.ensure("ConfigMap", config(x="mine"), OWNER)
    assert (caught.value.kind, caught.value.namespace, caught.value.name) == ("ConfigMap", "n", "c")
    assert stored["metadata"]["resourceVersion"] == version
    assert {seen.method for seen in server.seen} == {"POST", "GET"}


async def test_an_earlier_object_of_ours_that_is_being_deleted_is_a_conflict(kube: Kube, server: ApiServer) -> None:
    body = config()
    body["metadata"] |= {"deletionTimestamp": "2026-10-01T00:00:00Z"}
    server.put("configmaps", body)
    with pytest.raises(KubeError, match="still being deleted") as caught:
        await kube.ensure("ConfigMap", config(), OWNER)
    assert caught.value.reason == "conflict"


async def test_ensure_refuses_a_body_without_intent_or_owner(kube: Kube) -> None:
    body = config()
    del body["metadata"]["annotations"]
    with pytest.raises(ValueError, match="intent"):
        await kube.ensure("ConfigMap", body, OWNER)
    with pytest.raises(ValueError, match="owner"):
        await kube.ensure("ConfigMap", config(), {"anycloud.sh/deployment": "dep-9"})


def test_a_foreign_object_comes_with_the_command_that_removes_it() -> None:
    assert Foreign("DaemonSet", "kube-system", "x").remedy == "kubectl -n kube-system delete daemonsets.apps x"
    assert Foreign("RuntimeClass", None, "nvidia").remedy == "kubectl delete runtimeclasses.node.k8s.io nvidia"


# Apply


def applied(created: dict[str, Any], **data: str) -> dict[str, Any]:
    body = config(**data)
    body["metadata"]["uid"] = created["metadata"]["uid"]
    return body


async def test_apply_without_a_uid_is_refused_here(kube: Kube, server: ApiServer) -> None:
    with pytest.raises(ValueError, match="uid"):
        await kube.apply("ConfigMap", config())
    assert server.seen == []


async def test_apply_never_touches_an_object_that_replaced_ours(kube: Kube, server: ApiServer) -> None:
    created = await kube.create("ConfigMap", config(a="1"))
    server.remove("configmaps", "c", "n")
    theirs = server.put("configmaps", {"metadata": {"name": "c", "namespace": "n"}, "data": {"theirs": "1"}})
    with pytest.raises(KubeError) as caught:
        await kube.apply("ConfigMap", applied(created, a="2"))
    assert caught.value.reason == "conflict"
    assert theirs["data"] == {"theirs": "1"}


async def test_apply_does_not_bring_a_deleted_object_back(kube: Kube, server: ApiServer) -> None:
    created = await kube.create("ConfigMap", config(a="1"))
    server.remove("configmaps", "c", "n")
    with pytest.raises(KubeError) as caught:
        await kube.apply("ConfigMap", applied(created, a="2"))
    assert caught.value.reason == "conflict"
    assert await kube.get("ConfigMap", "c", "n") is None


@pytest.mark.parametrize("conflicts", [0, 2])
async def test_a_field_that_was_created_and_is_left_out_later_goes(
    kube: Kube, server: ApiServer, conflicts: int
) -> None:
    created = await kube.create("ConfigMap", config(a="1", b="1"))
    server.conflict_next_field_patches(conflicts)
    stored = await kube.apply("ConfigMap", applied(created, a="2"))
    assert stored["data"] == {"a": "2"}
    before = len(server.seen)
    stored = await kube.apply("ConfigMap", applied(created, a="3"))
    assert stored["data"] == {"a": "3"}
    assert [seen.method for seen in server.seen[before:]] == ["GET", "PATCH"]  # ownership is handed over once


async def test_apply_keeps_what_others_own(kube: Kube, server: ApiServer) -> None:
    created = await kube.create("ConfigMap", config(a="1"))
    stored = server.objects[("/api/v1", "configmaps", "n", "c")]
    stored["data"]["theirs"] = "1"
    result = await kube.apply("ConfigMap", applied(created, a="2"))
    assert result["data"] == {"a": "2", "theirs": "1"}


async def test_a_patch_changes_one_field_of_an_object_of_that_uid(kube: Kube, server: ApiServer) -> None:
    node = server.put("nodes", {"metadata": {"name": "n1", "labels": {"keep": "1", "drop": "1"}}})
    change = {"metadata": {"labels": {"drop": None, "new": "1"}}}
    patched = await kube.patch("Node", "n1", None, node["metadata"]["uid"], change)
    assert patched["metadata"]["labels"] == {"keep": "1", "new": "1"}
    with pytest.raises(KubeError) as caught:
        await kube.patch("Node", "n1", None, "another-uid", change)
    assert caught.value.reason == "conflict"


# Delete


async def test_delete_ends_that_very_object_and_repeats_well(kube: Kube) -> None:
    uid = (await kube.create("ConfigMap", config()))["metadata"]["uid"]
    assert await kube.delete("ConfigMap", "c", "n", uid) is False
    assert await kube.get("ConfigMap", "c", "n") is None
    assert await kube.delete("ConfigMap", "c", "n", uid) is True


async def test_delete_leaves_an_object_that_took_the_name(kube: Kube, server: ApiServer) -> None:
    server.put("configmaps", {"metadata": {"name": "c", "namespace": "n", "uid": "theirs"}})
    assert await kube.delete("ConfigMap", "c", "n", "ours") is True
    assert await kube.get("ConfigMap", "c", "n") is not None


async def test_delete_of_a_held_object_is_on_its_way(kube: Kube, server: ApiServer) -> None:
    server.put("configmaps", {"metadata": {"name": "c", "namespace": "n", "uid": "u", "finalizers": ["x/y"]}})
    assert await kube.delete("ConfigMap", "c", "n", "u") is False
    held = await kube.get("ConfigMap", "c", "n")
    assert held is not None
    assert held["metadata"]["deletionTimestamp"]


async def test_a_conflict_about_the_right_object_is_told(kube: Kube, server: ApiServer) -> None:
    server.put("configmaps", {"metadata": {"name": "c", "namespace": "n", "uid": "u"}})
    server.faults.append(Fault("DELETE", "/configmaps", Refusal(409, "Conflict")))
    with pytest.raises(KubeError) as caught:
        await kube.delete("ConfigMap", "c", "n", "u")
    assert caught.value.reason == "conflict"


# Errors


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (Refusal(401, "Unauthorized"), "auth"),
        (Refusal(403, "Forbidden"), "forbidden"),
        (Refusal(403, "Forbidden", causes=[{"reason": "NamespaceTerminating"}]), "conflict"),
        (Refusal(404, "NotFound"), "not_found"),
        (Refusal(409, "AlreadyExists"), "conflict"),
        (Refusal(415, "UnsupportedMediaType"), "invalid"),
        (Refusal(422, "Invalid"), "invalid"),
        (Refusal(429, "TooManyRequests"), "throttled"),
        (Refusal(500, "InternalError"), "unreachable"),
        (Refusal(503, "ServiceUnavailable"), "unreachable"),
    ],
)
async def test_every_refusal_has_its_reason(kube: Kube, server: ApiServer, refusal: Refusal, reason: str) -> None:
    server.faults.append(Fault("POST", "/configmaps", refusal))
    with pytest.raises(KubeError) as caught:
        await kube.create("ConfigMap", config())
    assert caught.value.reason == reason
    assert caught.value.status == refusal.status


async def test_a_denied_write_names_verb_and_resource(kube: Kube, server: ApiServer) -> None:
    server.faults.append(Fault("POST", "/daemonsets", Refusal(403, "Forbidden", "no")))
    with pytest.raises(KubeError, match=r"create daemonsets\.apps: no") as caught:
        await kube.create("DaemonSet", config())
    assert (caught.value.verb, caught.value.resource) == ("create", "daemonsets.apps")


async def test_a_silent_server_is_unreachable_within_the_deadline(kube: Kube, server: ApiServer) -> None:
    impatient = Kube.from_token(kube._transport._endpoint, "", "t", deadline_s=0.5)
    await impatient.get("ConfigMap", "warm-up", "n")
    server.faults.append(Fault("GET", "/configmaps", "hang"))
    began = time.monotonic()
    with pytest.raises(KubeError, match="no answer in time") as caught:
        await impatient.get("ConfigMap", "c", "n")
    assert caught.value.reason == "unreachable"
    assert time.monotonic() - began < 3
    await impatient.close()


async def test_a_closed_port_is_unreachable() -> None:
    kube = Kube.from_token("https://127.0.0.1:1", "", "secret-token")
    with pytest.raises(KubeError) as caught:
        await kube.get("Pod", "p", "n")
    assert caught.value.reason == "unreachable"
    assert "secret-token" not in str(caught.value)
    await kube.close()


async def test_a_broken_ca_is_unreachable_and_closes_well() -> None:
    kube = Kube.from_token("https://127.0.0.1:1", "not a certificate", "t")
    with pytest.raises(KubeError):
        await kube.get("Pod", "p", "n")
    await kube.close()


# Reviews, version, logs


async def test_a_pods_token_is_known_by_its_review(kube: Kube, server: ApiServer) -> None:
    extra = {
        "authentication.kubernetes.io/pod-name": ["p-1"],
        "authentication.kubernetes.io/pod-uid": ["u-1"],
        "authentication.kubernetes.io/node-name": ["node-1"],
    }
    user = {"username": "system:serviceaccount:ns:workload", "uid": "sa-1", "extra": extra}
    server.token_status = {"authenticated": True, "audiences": ["anycloud.sh/workload"], "user": user}
    identity = await kube.token_review("t", ["anycloud.sh/workload"])
    assert identity is not None
    assert (identity.namespace, identity.service_account, identity.service_account_uid) == ("ns", "workload", "sa-1")
    assert (identity.pod_name, identity.pod_uid, identity.node_name) == ("p-1", "u-1", "node-1")
    assert server.seen[-1].body["spec"] == {"token": "t", "audiences": ["anycloud.sh/workload"]}


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"authenticated": False, "error": "invalid bearer token"},
        {"authenticated": True, "error": "odd", "audiences": ["a"], "user": {"username": "system:serviceaccount:n:s"}},
        {"authenticated": True, "user": {"username": "system:serviceaccount:n:s"}},
        {"authenticated": True, "audiences": ["b"], "user": {"username": "system:serviceaccount:n:s"}},
        {"authenticated": True, "audiences": ["a"], "user": {"username": "system:node:n"}},
        {"authenticated": True, "audiences": ["a"], "user": {"username": "admin:x"}},
    ],
)
async def test_a_token_is_nobodys_unless_authenticated_for_our_audience(
    kube: Kube, server: ApiServer, status: dict[str, Any]
) -> None:
    server.token_status = status
    assert await kube.token_review("t", ["a"]) is None


async def test_the_version_is_read_from_the_git_version(kube: Kube, server: ApiServer) -> None:
    version = await kube.version()
    assert (version.major, version.minor, version.git_version) == (1, 36, "v1.36.5+k3s1")
    server.git_version = "unknown"
    with pytest.raises(KubeError, match="unknown"):
        await kube.version()


async def test_log_lines_come_as_written(kube: Kube, server: ApiServer) -> None:
    server.logs["p"] = [b"one\ntw", b"o\n", b"no end"]
    lines = [line async for line in kube.pod_log("n", "p", tail=10, previous=True, follow=True, container="main")]
    assert lines == [b"one\n", b"two\n", b"no end"]
    query = {"tailLines": "10", "previous": "true", "follow": "true", "container": "main"}
    assert server.seen[-1].query == query


async def test_a_container_may_write_lines_of_any_length(kube: Kube, server: ApiServer) -> None:
    """A very long one comes in pieces, each of some megabytes."""
    long, longest = b"x" * 1_000_000 + b"\n", b"y" * 10_000_000 + b"\n"
    server.logs["p"] = [long, longest, b"end"]
    lines = [line async for line in kube.pod_log("n", "p")]
    assert (lines[0], lines[-1], b"".join(lines[1:-1])) == (long, b"end", longest)
    assert 2 <= len(lines[1:-1]) <= 4


async def test_a_log_that_cannot_be_read_is_an_error(kube: Kube, server: ApiServer) -> None:
    server.faults.append(Fault("GET", "/log", Refusal(400, "BadRequest", "container is waiting to start")))
    with pytest.raises(KubeError, match="waiting to start") as caught:
        [line async for line in kube.pod_log("n", "p")]
    assert caught.value.reason == "invalid"


async def test_a_token_that_is_refused_is_read_again_at_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    token = TokenFile(path, ManualClock())
    assert token() == "one"
    path.write_text("two")
    token.refused()
    assert token() == "two"


async def test_a_rotated_token_is_read_again_within_a_minute(tmp_path: Path) -> None:
    clock = ManualClock()
    path = tmp_path / "token"
    path.write_text("one\n")
    token = TokenFile(path, clock)
    assert token() == "one"
    path.write_text("two\n")
    assert token() == "one"
    await clock.advance(60)
    assert token() == "two"
    path.unlink()
    await clock.advance(60)
    with pytest.raises(KubeError) as caught:
        token()
    assert caught.value.reason == "auth"


async def test_a_stream_that_falls_silent_counts_as_lost(kube: Kube, server: ApiServer) -> None:
    lines = kube.watch("Pod", "n", None, resource_version="0", timeout_s=60, idle_s=0.3)
    with pytest.raises(KubeError, match="no answer in time") as caught:
        async with lines as stream:
            async for _ in stream:
                pass
    assert caught.value.reason == "unreachable"


async def test_a_pod_without_its_service_account_files_cannot_connect(tmp_path: Path) -> None:
    settings = Settings(
        mode="hosted",
        data_dir=tmp_path,
        runtime_dir=tmp_path,
        public_url="http://127.0.0.2:1",
        serviceaccount_dir=tmp_path,
        kubernetes_host="127.0.0.1",
    )
    with pytest.raises(KubeError, match=r"ca\.crt") as caught:
        Kube.in_cluster(settings)
    assert caught.value.reason == "auth"

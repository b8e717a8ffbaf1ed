"""What our client relies on, against every API server: objects, their owners, and their fields."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest
from anycloud_common.kube import Foreign, Kube, KubeError, Object

from tests.kube.objects import OWNER, config_map, deployment, metadata, pod_spec, strangers
from tests.kube.relay import Relay
from tests.kube.servers import Server, connect
from tests.kube.waiting import until


async def refusal(action: object) -> KubeError:
    with pytest.raises(KubeError) as caught:
        await action  # type: ignore[misc]
    return caught.value


def uid_of(obj: Object) -> str:
    return str(obj["metadata"]["uid"])


# Create first


async def test_ensure_creates_once_and_finds_its_own(kube: Kube, ns: str) -> None:
    first = await kube.ensure("ConfigMap", config_map(ns, a="1"), OWNER)
    again = await kube.ensure("ConfigMap", config_map(ns, a="1"), OWNER)
    assert uid_of(first) == uid_of(again)
    assert first["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]


async def test_a_create_whose_answer_was_lost_is_found_as_ours(server: Server, ns: str) -> None:
    at = urlsplit(server.endpoint)
    assert at.hostname and at.port
    async with Relay(at.hostname, at.port) as relay:
        kube = connect(server, port=relay.port)
        await kube.version()
        relay.lose_next_answer()
        error = await refusal(kube.ensure("ConfigMap", config_map(ns), OWNER))
        assert error.reason == "unreachable"
        stored = await until(lambda: kube.get("ConfigMap", "c", ns))
        assert uid_of(await kube.ensure("ConfigMap", config_map(ns), OWNER)) == uid_of(stored)
        await kube.close()


async def test_a_strangers_object_is_foreign_and_stays_as_it_is(kube: Kube, ns: str) -> None:
    theirs = await kube.create("ConfigMap", strangers(ns, their="s"))
    with pytest.raises(Foreign):
        await kube.ensure("ConfigMap", config_map(ns), OWNER)
    assert (await refusal(kube.apply("ConfigMap", config_map(ns, uid="another", a="1")))).reason == "conflict"
    change = {"data": {"mine": "1"}}
    assert (await refusal(kube.patch("ConfigMap", "c", ns, "another", change))).reason == "conflict"
    assert await kube.delete("ConfigMap", "c", ns, "another") is True
    assert await kube.get("ConfigMap", "c", ns) == theirs


async def test_an_object_of_ours_that_is_being_deleted_is_a_conflict(kube: Kube, ns: str) -> None:
    held = config_map(ns)
    held["metadata"]["finalizers"] = ["test/hold"]
    uid = uid_of(await kube.ensure("ConfigMap", held, OWNER))
    assert await kube.delete("ConfigMap", "c", ns, uid) is False
    error = await refusal(kube.ensure("ConfigMap", config_map(ns), OWNER))
    assert error.reason == "conflict"
    assert "being deleted" in error.message
    await kube.patch("ConfigMap", "c", ns, uid, {"metadata": {"finalizers": None}})
    assert uid_of(await kube.ensure("ConfigMap", config_map(ns), OWNER)) != uid


async def test_a_namespace_that_does_not_exist_is_not_found(kube: Kube) -> None:
    error = await refusal(kube.ensure("ConfigMap", config_map("no-such-namespace"), OWNER))
    assert error.reason == "not_found"


async def test_a_malformed_object_is_invalid(kube: Kube, ns: str) -> None:
    assert (await refusal(kube.create("ConfigMap", config_map(ns, name="Not A Name")))).reason == "invalid"
    broken = deployment(ns)
    broken["spec"]["selector"] = {"matchLabels": {"other": "label"}}
    assert (await refusal(kube.create("Deployment", broken))).reason == "invalid"


# Apply


async def test_apply_does_not_bring_a_deleted_object_back(kube: Kube, ns: str) -> None:
    uid = uid_of(await kube.create("ConfigMap", config_map(ns)))
    await kube.delete("ConfigMap", "c", ns, uid)
    assert (await refusal(kube.apply("ConfigMap", config_map(ns, uid=uid)))).reason in ("conflict", "not_found")
    assert await kube.get("ConfigMap", "c", ns) is None


async def test_apply_does_not_touch_what_took_the_name(kube: Kube, ns: str) -> None:
    uid = uid_of(await kube.create("ConfigMap", config_map(ns)))
    await kube.delete("ConfigMap", "c", ns, uid)
    theirs = await kube.create("ConfigMap", strangers(ns, their="s"))
    assert (await refusal(kube.apply("ConfigMap", config_map(ns, uid=uid, a="1")))).reason == "conflict"
    assert await kube.get("ConfigMap", "c", ns) == theirs


async def test_a_created_field_that_is_left_out_later_goes(kube: Kube, ns: str) -> None:
    uid = uid_of(await kube.create("ConfigMap", config_map(ns, a="1", b="1")))
    assert (await kube.apply("ConfigMap", config_map(ns, uid=uid, a="2")))["data"] == {"a": "2"}
    assert (await kube.apply("ConfigMap", config_map(ns, uid=uid, c="3")))["data"] == {"c": "3"}


async def test_created_labels_and_annotations_that_are_left_out_go(kube: Kube, ns: str) -> None:
    body = config_map(ns, a="1")
    body["metadata"]["labels"]["extra"] = body["metadata"]["annotations"]["extra"] = "1"
    uid = uid_of(await kube.create("ConfigMap", body))
    applied = await kube.apply("ConfigMap", config_map(ns, uid=uid, a="1"))
    assert "extra" not in applied["metadata"]["labels"]
    assert "extra" not in applied["metadata"]["annotations"]


async def test_an_equal_apply_writes_nothing(kube: Kube, ns: str) -> None:
    uid = uid_of(await kube.create("ConfigMap", config_map(ns, a="1")))
    first = await kube.apply("ConfigMap", config_map(ns, uid=uid, a="1"))
    second = await kube.apply("ConfigMap", config_map(ns, uid=uid, a="1"))
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_an_edit_of_our_field_is_undone_and_a_strangers_field_stays(kube: Kube, ns: str) -> None:
    uid = uid_of(await kube.create("ConfigMap", config_map(ns, a="1")))
    await kube.apply("ConfigMap", config_map(ns, uid=uid, a="1"))
    await edit(kube, "ConfigMap", "c", ns, {"data": {"a": "edited", "theirs": "1"}})
    applied = await kube.apply("ConfigMap", config_map(ns, uid=uid, a="1"))
    assert applied["data"] == {"a": "1", "theirs": "1"}


async def edit(kube: Kube, kind: str, name: str, ns: str, change: Object) -> None:
    """A merge patch by somebody else."""
    from anycloud_common.kube import KINDS
    from anycloud_common.kube.transport import Request

    path = KINDS[kind].path(ns, name)
    query = {"fieldManager": "somebody-else"}
    request = Request("patch", kind, "PATCH", path, query, change, "application/merge-patch+json")
    await kube._transport.call(request)


async def test_a_deployments_template_is_replaced_field_by_field(kube: Kube, ns: str) -> None:
    body = deployment(ns, serviceAccountName="default", volumes=[{"name": "v", "emptyDir": {}}])
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]
    container["readinessProbe"] = {"exec": {"command": ["/ready"]}}
    uid = uid_of(await kube.create("Deployment", body))
    body = deployment(ns, uid=uid)
    body["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "B", "value": "2"}]
    applied = await kube.apply("Deployment", body)
    spec = applied["spec"]["template"]["spec"]
    assert spec["containers"][0]["env"] == [{"name": "B", "value": "2"}]
    assert "readinessProbe" not in spec["containers"][0]
    assert "volumes" not in spec
    assert applied["metadata"]["generation"] == 2


async def test_a_field_that_a_controller_owns_survives_an_apply(kube: Kube, ns: str) -> None:
    uid = uid_of(await kube.create("Deployment", deployment(ns)))

    async def annotated() -> Object | None:
        found = await kube.get("Deployment", "d", ns)
        assert found is not None
        return found if "deployment.kubernetes.io/revision" in found["metadata"]["annotations"] else None

    await until(annotated)
    applied = await kube.apply("Deployment", deployment(ns, uid=uid, replicas=2))
    assert applied["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
    assert applied["status"]


async def test_applies_at_once_end_in_one_of_them(kube: Kube, ns: str) -> None:
    uid = uid_of(await kube.create("ConfigMap", config_map(ns, created="1")))
    bodies = [config_map(ns, uid=uid, **{f"k{number}": "1"}) for number in range(6)]
    await asyncio.gather(*(kube.apply("ConfigMap", body) for body in bodies))
    stored = await kube.get("ConfigMap", "c", ns)
    assert stored is not None
    assert stored["data"] in [body["data"] for body in bodies]


async def test_a_service_keeps_its_address_through_applies(kube: Kube, ns: str) -> None:
    def service(port: int, **more: str) -> Object:
        spec = {"selector": {"app": "a"}, "ports": [{"name": "http", "port": port, "targetPort": 8080}]}
        return {"metadata": metadata("s", ns, **more), "spec": spec}

    made = await kube.ensure("Service", service(80), OWNER)
    applied = await kube.apply("Service", service(81, uid=uid_of(made)))
    assert [port["port"] for port in applied["spec"]["ports"]] == [81]
    assert applied["spec"].get("clusterIP") == made["spec"].get("clusterIP")


async def test_a_secrets_bytes_come_back(kube: Kube, ns: str) -> None:
    body = {"metadata": metadata("s", ns), "type": "Opaque", "data": {"key": "AAEC"}}
    uid = uid_of(await kube.ensure("Secret", body, OWNER))
    body = {"metadata": metadata("s", ns, uid=uid), "type": "Opaque", "data": {"other": "AwQF"}}
    assert (await kube.apply("Secret", body))["data"] == {"other": "AwQF"}


async def test_what_never_changes_is_invalid_to_change(kube: Kube, ns: str) -> None:
    uid = uid_of(await kube.create("Deployment", deployment(ns)))
    body = deployment(ns, uid=uid)
    body["spec"]["selector"]["matchLabels"] = {"app": "other"}
    body["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    assert (await refusal(kube.apply("Deployment", body))).reason == "invalid"


# Patch and delete


async def test_a_patch_needs_the_right_uid(kube: Kube, ns: str) -> None:
    made = await kube.create("ConfigMap", config_map(ns, a="1"))
    change = {"metadata": {"labels": {"new": "1", "anycloud.sh/deployment": None}}}
    patched = await kube.patch("ConfigMap", "c", ns, uid_of(made), change)
    assert patched["metadata"]["labels"] == {"new": "1"}
    assert (await refusal(kube.patch("ConfigMap", "c", ns, "another", change))).reason == "conflict"
    assert (await refusal(kube.patch("ConfigMap", "none", ns, "another", change))).reason == "not_found"


async def test_a_delete_ends_that_very_object_and_repeats_well(kube: Kube, ns: str) -> None:
    uid = uid_of(await kube.create("ConfigMap", config_map(ns)))
    assert await kube.delete("ConfigMap", "c", ns, uid) is False
    assert await kube.get("ConfigMap", "c", ns) is None
    assert await kube.delete("ConfigMap", "c", ns, uid) is True


async def test_a_delete_leaves_what_took_the_name(kube: Kube, ns: str) -> None:
    uid = uid_of(await kube.create("ConfigMap", config_map(ns)))
    await kube.delete("ConfigMap", "c", ns, uid)
    await kube.create("ConfigMap", strangers(ns))
    assert await kube.delete("ConfigMap", "c", ns, uid) is True
    assert await kube.get("ConfigMap", "c", ns) is not None


async def test_a_pod_that_no_node_has_goes_at_once(kube: Kube, ns: str) -> None:
    await default_account(kube, ns)
    body = {"metadata": metadata("p", ns), "spec": pod_spec(nodeSelector={"test/none": "none"})}
    uid = uid_of(await kube.create("Pod", body))
    await kube.delete("Pod", "p", ns, uid)
    assert await kube.get("Pod", "p", ns) is None


async def test_a_pod_on_a_node_stays_until_its_kubelet_lets_it_go(kube: Kube, ns: str) -> None:
    await default_account(kube, ns)
    body = {"metadata": metadata("p", ns), "spec": pod_spec(nodeName="nobody")}
    uid = uid_of(await kube.create("Pod", body))
    assert await kube.delete("Pod", "p", ns, uid) is False
    marked = await kube.get("Pod", "p", ns)
    assert marked is not None
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30


async def default_account(kube: Kube, ns: str) -> None:
    """A Pod is refused until the controllers have made its Namespace's ServiceAccount."""
    await until(lambda: kube.get("ServiceAccount", "default", ns))


async def test_dependents_go_with_their_owner(kube: Kube, ns: str) -> None:
    owner = await kube.create("ConfigMap", config_map(ns, name="owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid_of(owner)}
    child = config_map(ns, name="child")
    child["metadata"]["ownerReferences"] = [reference]
    await kube.create("ConfigMap", child)
    await kube.create("ConfigMap", config_map(ns, name="other"))
    await kube.delete("ConfigMap", "owner", ns, uid_of(owner))

    async def child_gone() -> bool:
        return await kube.get("ConfigMap", "child", ns) is None

    await until(child_gone)
    assert await kube.get("ConfigMap", "other", ns) is not None


async def test_an_owner_that_never_was_ends_its_dependents(kube: Kube, ns: str) -> None:
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "never",
        "uid": "00000000-0000-0000-0000-000000000000",
    }
    child = config_map(ns, name="child")
    child["metadata"]["ownerReferences"] = [reference]
    await kube.create("ConfigMap", child)

    async def child_gone() -> bool:
        return await kube.get("ConfigMap", "child", ns) is None

    await until(child_gone)


async def test_a_namespace_that_is_going_takes_nothing_new_and_ends_with_its_content(kube: Kube, ns: str) -> None:
    held = config_map(ns, name="held")
    held["metadata"]["finalizers"] = ["test/hold"]
    uid = uid_of(await kube.create("ConfigMap", held))
    namespace = await kube.get("Namespace", ns)
    assert namespace is not None
    assert await kube.delete("Namespace", ns, None, uid_of(namespace)) is False
    error = await refusal(kube.ensure("ConfigMap", config_map(ns), OWNER))
    assert error.reason == "conflict"
    assert await kube.delete("Namespace", ns, None, uid_of(namespace)) is False

    async def released() -> bool:
        """Content is deleted when the controllers come to it."""
        found = await kube.get("ConfigMap", "held", ns)
        return found is not None and "deletionTimestamp" in found["metadata"]

    await until(released)
    await kube.patch("ConfigMap", "held", ns, uid, {"metadata": {"finalizers": None}})

    async def gone() -> bool:
        return await kube.get("Namespace", ns) is None

    await until(gone)
    assert await kube.delete("Namespace", ns, None, uid_of(namespace)) is True


# Lists


async def test_a_list_is_read_in_pages_at_one_moment(kube: Kube, ns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anycloud_common.kube.client._PAGE", 3)
    for number in range(8):
        await kube.create("ConfigMap", config_map(ns, name=f"c{number}"))
    items, version = await kube.list("ConfigMap", ns, OWNER)
    assert sorted(item["metadata"]["name"] for item in items) == [f"c{number}" for number in range(8)]
    assert version


async def test_selectors_choose_by_label_and_field(kube: Kube, ns: str) -> None:
    for name in ("one", "two", "three"):
        body = config_map(ns, name=name)
        body["metadata"]["labels"] |= {"app": name}
        await kube.create("ConfigMap", body)

    async def names(labels: str, fields: str | None = None) -> set[str]:
        items, _ = await kube.list("ConfigMap", ns, labels, fields)
        return {item["metadata"]["name"] for item in items}

    assert await names("app in (one,two)") == {"one", "two"}
    assert await names("app,app!=one") == {"two", "three"}
    assert await names("app notin (one)", "metadata.name=two") == {"two"}
    assert "kube-root-ca.crt" in await until(lambda: names("!app"))

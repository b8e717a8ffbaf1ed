"""The published client on credentials and Secrets."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.contract.sdk import Judge
from tests.contract.world import ACCOUNT, CREDENTIAL, World
from tests.support.installation import until

PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQ==\n-----END PRIVATE KEY-----\n"
GCP = {"cloudProvider": "GCP", "clientEmail": "robot@p.iam", "privateKey": PEM, "projectId": "p"}
AZURE = {
    "cloudProvider": "Azure",
    "applicationId": "app",
    "directoryId": "dir",
    "secret": "s3cret",
    "subscriptionId": "sub",
}
SHOWN: dict[str, dict[str, Any]] = {
    "AWS": {"cloudProvider": "AWS", "accessKeyId": CREDENTIAL["accessKeyId"]},
    "GCP": {"cloudProvider": "GCP", "clientEmail": "robot@p.iam", "projectId": "p"},
    "Azure": {"cloudProvider": "Azure", "applicationId": "app", "subscriptionId": "sub"},
}


@pytest.fixture
def name(unique: Callable[[str], str]) -> str:
    return unique("cred")


def save(judge: Judge, world: World, name: str, credential: dict[str, str], **more: Any) -> Any:
    return judge.operation(world.local, "save_credential", name=name, cloud_credential=credential, **more)


@pytest.mark.parametrize("credential", [CREDENTIAL, GCP, AZURE], ids=lambda one: one["cloudProvider"])
def test_a_credential_is_saved_shown_without_its_secret_and_deleted(
    world: World, judge: Judge, name: str, credential: dict[str, str]
) -> None:
    shown = {"name": name, **SHOWN[credential["cloudProvider"]]}
    save(judge, world, name, credential).value("NoneType", 204)
    assert judge.operation(world.local, "get_credential", name=name).value("RedactedCredential", 200) == shown
    assert shown in judge.operation(world.local, "list_credentials").value("list", 200)
    judge.operation(world.local, "delete_credential", name=name).value("NoneType", 204)
    assert shown not in judge.operation(world.local, "list_credentials").value("list", 200)
    judge.operation(world.local, "delete_credential", name=name, force="false").value("NoneType", 204)


@pytest.mark.parametrize("overwrite", [None, "false"])
def test_a_taken_name_is_kept_unless_it_is_to_be_overwritten(
    world: World, judge: Judge, name: str, overwrite: str | None
) -> None:
    save(judge, world, name, CREDENTIAL).value("NoneType", 204)
    more = {} if overwrite is None else {"overwrite": overwrite}
    error = save(judge, world, name, GCP, **more).refused(409, "CREDENTIAL_NAME_EXISTS")
    assert error["data"] == {"name": name}
    save(judge, world, name, GCP, overwrite="true").value("NoneType", 204)
    shown = judge.operation(world.local, "get_credential", name=name).value("RedactedCredential", 200)
    assert shown["cloudProvider"] == "GCP"
    world.local.ask("DELETE", f"/credentials/{name}")


def test_a_credential_is_changed_in_parts(world: World, judge: Judge, name: str) -> None:
    def update(**changes: str) -> Any:
        return judge.operation(world.local, "update_credential", name=name, credential_update=changes)

    assert update(accessKeyId="x").refused(404, "CREDENTIAL_NOT_FOUND")["data"] == {"name": name}
    save(judge, world, name, CREDENTIAL).value("NoneType", 204)
    update().value("NoneType", 204)
    update(accessKeyId=f"{ACCOUNT}.newer", secretAccessKey="other").value("NoneType", 204)
    shown = judge.operation(world.local, "get_credential", name=name).value("RedactedCredential", 200)
    assert shown["accessKeyId"] == f"{ACCOUNT}.newer"
    error = update(projectId="not-of-aws").refused(400, "CREDENTIAL_UPDATE_INVALID")
    assert error["data"] == {"name": name}
    assert "projectId" in error["message"]
    update(secretAccessKey="revoked").refused(400, "CREDENTIAL_UPDATE_INVALID")
    world.local.ask("DELETE", f"/credentials/{name}")


def test_of_two_changes_at_one_moment_the_slower_one_is_refused(world: World, judge: Judge, name: str) -> None:
    save(judge, world, name, CREDENTIAL).value("NoneType", 204)
    slow = {"effect": "slow", "match": {"area": "cloud", "action": "Identity"}, "times": 1, "seconds": 1.5}
    world.installation.world("POST", "/faults", slow)
    with ThreadPoolExecutor(1) as thread:
        change = {"credential_update": {"secretAccessKey": "slower"}}
        slower = thread.submit(judge.operation, world.local, "update_credential", name=name, **change)
        time.sleep(0.5)  # so that its cloud is being asked
        world.local.ask("PATCH", f"/credentials/{name}", {"secretAccessKey": "faster"})
        assert slower.result(10).refused(409, "CREDENTIAL_CHANGED")["data"] == {"name": name}
    world.local.ask("DELETE", f"/credentials/{name}")


def test_a_credential_that_there_is_not(world: World, judge: Judge) -> None:
    error = judge.operation(world.local, "get_credential", name="no/such").refused(404, "CREDENTIAL_NOT_FOUND")
    assert error["data"] == {"name": "no/such"}


@pytest.mark.parametrize("api", ["local", "hosted"])
def test_a_credential_in_use_names_its_users(world: World, judge: Judge, api: str) -> None:
    user = {"local": world.cluster, "hosted": world.pool}[api]["id"]
    error = judge.operation(getattr(world, api), "delete_credential", name="aws").refused(409, "CREDENTIAL_IN_USE")
    assert error["data"]["name"] == "aws"
    assert user in error["data"]["workloadIds"]


@pytest.mark.parametrize(
    "credential",
    [
        {**CREDENTIAL, "secretAccessKey": "revoked"},
        {"cloudProvider": "Lambda", "apiKey": "k"},
        {"cloudProvider": "Cloudflare", "accountId": "a", "apiToken": "t", "jurisdiction": "eu"},
    ],
    ids=lambda one: one["cloudProvider"],
)
def test_a_credential_that_cannot_be_used_is_not_saved(
    world: World, judge: Judge, name: str, credential: dict[str, str]
) -> None:
    save(judge, world, name, credential).refused(400, "INVALID_REQUEST", defined=False)
    judge.operation(world.local, "get_credential", name=name).refused(404, "CREDENTIAL_NOT_FOUND")


def test_a_secret_is_saved_listed_by_name_and_deleted(world: World, judge: Judge, unique: Callable[[str], str]) -> None:
    name = unique("secret")
    judge.operation(world.hosted, "save_secret", name=name, save_secret_body={"values": {"K": "m4rker"}}).value(
        "NoneType", 204
    )
    [first] = [one for one in judge.operation(world.hosted, "list_secrets").value("list", 200) if one["name"] == name]
    judge.operation(world.hosted, "save_secret", name=name.upper(), save_secret_body={"values": {}}).value(
        "NoneType", 204
    )
    listed = judge.operation(world.hosted, "list_secrets").value("list", 200)
    [second] = [one for one in listed if one["name"].lower() == name]
    assert first["createdAt"] == second["createdAt"] < second["updatedAt"]
    assert "m4rker" not in str(listed)
    judge.operation(world.hosted, "delete_secret", name=name).value("NoneType", 204)
    judge.operation(world.hosted, "delete_secret", name=name).value("NoneType", 204)
    names = [one["name"].lower() for one in judge.operation(world.hosted, "list_secrets").value("list", 200)]
    assert name not in names


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("1digit", {}, "name"),
        ("a" * 65, {}, "name"),
        ("a/b", {}, "name"),
        ("fine", {"a-b": "1"}, "a-b"),
        ("fine", {"": "1"}, "values"),
        ("fine", {"A": "zero\0byte"}, "A"),
    ],
)
def test_an_unusable_secret_is_not_saved(
    world: World, judge: Judge, name: str, values: dict[str, str], says: str
) -> None:
    error = judge.operation(world.hosted, "save_secret", name=name, save_secret_body={"values": values}).refused(
        400, "INVALID_REQUEST", defined=False
    )
    assert says in error["message"]
    assert name not in [one["name"] for one in world.hosted.ask("GET", "/secrets")]


def test_a_secret_in_use_is_deleted_by_force_only(world: World, judge: Judge, unique: Callable[[str], str]) -> None:
    name = unique("secret")
    world.hosted.ask("PUT", f"/secrets/{name}", {"values": {"K": "v"}})
    image = world.register_image("contract/plain:1")
    body = {"name": unique("user"), "image": image, "nodePool": "pool", "secrets": [name]}
    user = world.hosted.ask("POST", "/deployments", body)["deployment"]["id"]
    error = judge.operation(world.hosted, "delete_secret", name=name).refused(409, "SECRET_IN_USE")
    assert error["data"] == {"name": name, "workloadIds": [user]}
    judge.operation(world.hosted, "delete_secret", name=name, force="true").value("NoneType", 204)
    world.hosted.ask("DELETE", f"/deployments/{user}")


@pytest.mark.req("SC-003", "SC-021")
def test_a_deployment_whose_secret_is_gone_is_changed_once_it_is_back_or_named_no_more(
    world: World, judge: Judge, unique: Callable[[str], str]
) -> None:
    def update(**changes: Any) -> Any:
        return judge.operation(world.hosted, "update_deployment", id=user, update_deployment_body=changes)

    name, image = unique("secret"), world.register_image("contract/plain:1")
    body = {"name": unique("user"), "image": image, "nodePool": "pool", "secrets": [name]}
    create = {"create_deployment_input": body}
    refused = judge.operation(world.hosted, "create_deployment", **create).refused(400, "DEPLOYMENT_INVALID")
    assert name in refused["message"]
    assert world.hosted.call("GET", f"/deployments/{body['name']}").status_code == 404
    world.hosted.ask("PUT", f"/secrets/{name}", {"values": {"K": "v"}})
    user = judge.operation(world.hosted, "create_deployment", **create).value("DeploymentResponse", 202)["deployment"][
        "id"
    ]
    world.hosted.ask("DELETE", f"/secrets/{name}?force=true")
    assert name in update(replicas=2).refused(400, "DEPLOYMENT_INVALID")["message"]
    world.hosted.ask("PUT", f"/secrets/{name}", {"values": {"K": "v"}})
    update(replicas=2).value("DeploymentResponse", 202)
    world.hosted.ask("DELETE", f"/secrets/{name}?force=true")
    update(replicas=1, secrets=None).value("DeploymentResponse", 202)
    world.hosted.ask("DELETE", f"/deployments/{user}")


@pytest.mark.req("SC-006")
def test_a_secrets_value_is_in_no_answer_and_in_no_log(
    world: World, judge: Judge, unique: Callable[[str], str]
) -> None:
    name, marker, image = unique("secret"), f"m4rker{time.time_ns()}", world.register_image("contract/plain:1")
    values = {"K": marker, "bad name": marker}
    told = [judge.operation(world.hosted, "save_secret", name=name, save_secret_body={"values": values}).told]
    world.hosted.ask("PUT", f"/secrets/{name}", {"values": {"K": marker}})
    body = {"name": unique("user"), "image": image, "nodePool": "pool", "secrets": [name]}
    made = world.hosted.ask("POST", "/deployments", body)["deployment"]
    told_by_container = world.told / made["id"]
    until(lambda: told_by_container.exists() and marker in told_by_container.read_text(), 30)
    told += [world.hosted.ask("GET", path) for path in ("/secrets", "/deployments", f"/deployments/{made['id']}")]
    told.append(judge.operation(world.hosted, "delete_secret", name=name).told)
    tables = world.hosted.ask("GET", "/database/schema")["tables"]
    told += [world.hosted.ask("POST", "/database/queries", {"sql": f"SELECT * FROM {one['name']}"}) for one in tables]
    world.hosted.ask("DELETE", f"/deployments/{made['id']}")
    world.hosted.ask("DELETE", f"/secrets/{name}?force=true")
    logs = [*(world.config / "data" / "logs").glob("*.log"), *(world.config / "data" / "sandbox").rglob("log")]
    assert len(logs) > 5
    assert marker not in str(told)
    for file in logs:
        with contextlib.suppress(FileNotFoundError):  # of a Pod that is just going
            assert marker not in file.read_text(errors="replace"), file

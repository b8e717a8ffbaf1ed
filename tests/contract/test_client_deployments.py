"""The published client on Deployments: every form of an update, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.contract.sdk import Judge
from tests.contract.world import Api, World
from tests.support.installation import until

PROBE = {"exec": {"command": ["true"]}, "periodSeconds": 2, "failureThreshold": 100}
OPTIONS = {"cpus": "0.5", "memory": "256m", "binds": ["/scratch"], "privileged": False, "shmSize": "64m"}
WIRE = {"shm_size": "shmSize"}
START = {
    "command": ["serve", "--port", "1"],
    "env": {"A": "1", "B": "2"},
    "dockerOptions": OPTIONS,
    "readinessProbe": PROBE,
}


@pytest.fixture(scope="module")
def changing(world: World) -> Iterator[str]:
    """A Deployment that has a value for each setting, except Secrets; its Pods don't matter."""
    image = world.register_image("contract/changing:1")
    body = {"name": "changing", "image": image, "nodePool": "pool", **START}
    made = world.hosted.ask("POST", "/deployments", body)["deployment"]
    yield made["id"]
    world.hosted.ask("DELETE", f"/deployments/{made['id']}")


def settings(api: Api, deployment: str) -> dict[str, Any]:
    """What is stored of the newest revision, options included; no answer of the Deployment itself shows these."""
    newest = f"deployment_id = '{deployment}' ORDER BY generation DESC LIMIT 1"
    sql = f"SELECT settings FROM deployment_revision WHERE {newest}"
    [row] = api.ask("POST", "/database/queries", {"sql": sql})["rows"]
    return dict(json.loads(row["settings"]))


def update(judge: Judge, api: Api, deployment: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = judge.operation(api, "update_deployment", id=deployment, update_deployment_body=body)
    return dict(answer.value("DeploymentResponse", 202)["deployment"])


@pytest.mark.req("DP-105")
def test_deployments_are_found_by_id_name_and_pool(world: World, judge: Judge, parked: dict[str, Any]) -> None:
    for pool in ({}, {"node_pool": "pool"}, {"node_pool": world.pool["id"]}):
        listed = judge.operation(world.hosted, "list_deployments", **pool).value("ListDeploymentsResponse", 200)
        found = {one["id"]: one for one in listed["deployments"]}
        assert found[parked["id"]]["status"] is None
    for name in (parked["id"], "parked", "PARKED"):
        shown = judge.operation(world.hosted, "get_deployment", id=name).value("DeploymentResponse", 200)["deployment"]
        assert shown["id"] == parked["id"]
        assert shown["status"]["observation"] == "observed"
        assert shown["workload"]["observedGeneration"] == shown["generation"]


@pytest.mark.req("DP-007", "DP-062", "DP-105")
def test_a_deployment_is_made_with_defaults_and_deleted(
    world: World, judge: Judge, unique: Callable[[str], str]
) -> None:
    body = {"name": unique("plain"), "image": world.register_image("contract/plain:1"), "nodePool": "pool"}
    made = judge.operation(world.hosted, "create_deployment", create_deployment_input=body).value(
        "DeploymentResponse", 202
    )["deployment"]
    assert made["target"] == {"kind": "nodePool", "nodePoolId": world.pool["id"]}
    assert (made["replicas"], made["maxConcurrentJobsPerReplica"], made["generation"], made["gpuCount"]) == (1, 1, 1, 0)
    assert made["status"] is None
    deleted = judge.operation(world.hosted, "delete_deployment", id=body["name"]).value("DeploymentResponse", 202)
    assert deleted["deployment"]["deletionRequestedAt"] > made["createdAt"]
    again = judge.operation(world.hosted, "delete_deployment", id=made["id"]).value("DeploymentResponse", 202)
    assert again["deployment"]["deletionRequestedAt"] == deleted["deployment"]["deletionRequestedAt"]
    until(lambda: world.hosted.ask("GET", f"/deployments/{made['id']}")["deployment"]["deletedAt"], 60)


@pytest.mark.req("DP-139", "DP-140", "DP-146")
@pytest.mark.parametrize(
    ("body", "stored"),
    [
        ({"command": None}, {"command": None}),
        ({"command": []}, {"command": []}),
        ({"command": ["other"]}, {"command": ["other"]}),
        ({"image": "contract/changing:1", "replicas": 2}, {"replicas": 2}),
        ({"maxConcurrentJobsPerReplica": 7}, {"slots": 7}),
        ({"readinessProbe": None}, {"probe": None}),
        ({"dockerOptions": None}, {"options": {}}),
        ({"dockerOptions": {"memory": None}}, {"options": {**OPTIONS, "memory": None}}),
        ({"dockerOptions": {"cpus": "1", "binds": []}}, {"options": {**OPTIONS, "cpus": "1", "binds": []}}),
        ({"dockerOptions": {"binds": ["/other"]}}, {"options": {**OPTIONS, "binds": ["/other"]}}),
        (
            {"dockerOptions": {"cpus": "0.25", "memory": None, "privileged": True}},
            {"options": {**OPTIONS, "cpus": "0.25", "memory": None, "privileged": True}},
        ),
        ({"dockerOptions": dict.fromkeys(OPTIONS)}, {"options": {}}),
    ],
    ids=json.dumps,
)
def test_an_update_changes_what_it_names_and_nothing_else(
    world: World, judge: Judge, changing: str, body: dict[str, Any], stored: dict[str, Any]
) -> None:
    world.hosted.ask("PATCH", f"/deployments/{changing}", {**START, "replicas": 1, "maxConcurrentJobsPerReplica": 1})
    before = settings(world.hosted, changing)
    generation = update(judge, world.hosted, changing, body)["generation"]
    expected = {**before, **stored}
    if "options" in stored:
        expected["options"] = {name: stored["options"].get(WIRE.get(name, name)) for name in before["options"]}
    assert settings(world.hosted, changing) == expected
    assert world.hosted.ask("GET", f"/deployments/{changing}")["deployment"]["generation"] == generation


@pytest.mark.parametrize(
    ("env", "keys"), [(None, []), ({}, []), ({"C": ""}, ["C"]), ({"A": "9", "D": "4"}, ["A", "D"])], ids=json.dumps
)
def test_an_update_replaces_the_environment_whole(
    world: World, judge: Judge, changing: str, env: dict[str, str] | None, keys: list[str]
) -> None:
    update(judge, world.hosted, changing, {"env": {"A": "1", "B": "2"}})
    assert update(judge, world.hosted, changing, {"env": env})["envKeys"] == keys


@pytest.mark.req("SC-005", "SC-017")
def test_an_update_replaces_the_secrets_whole(world: World, judge: Judge, changing: str) -> None:
    for name in ("one", "two"):
        judge.operation(world.hosted, "save_secret", name=name, save_secret_body={"values": {name: "v"}})
    assert update(judge, world.hosted, changing, {"secrets": ["two", "one"]})["secretNames"] == ["two", "one"]
    assert update(judge, world.hosted, changing, {"replicas": 1})["secretNames"] == ["two", "one"]
    assert update(judge, world.hosted, changing, {"secrets": ["one"]})["secretNames"] == ["one"]
    assert update(judge, world.hosted, changing, {"secrets": None})["secretNames"] == []
    assert update(judge, world.hosted, changing, {"secrets": []})["secretNames"] == []
    update(judge, world.hosted, changing, {"env": {"one": "plain", "other": "plain"}})
    both = update(judge, world.hosted, changing, {"secrets": ["one"], "env": {"other": "plain"}})
    assert (both["secretNames"], both["envKeys"]) == (["one"], ["other"])
    update(judge, world.hosted, changing, {"secrets": None})


@pytest.mark.req("DP-120")
def test_an_update_replaces_the_probe_whole_or_takes_it_away(world: World, judge: Judge, changing: str) -> None:
    update(judge, world.hosted, changing, {"readinessProbe": PROBE})
    fresh = {"exec": {"command": ["test", "-e", "/"]}, "timeoutSeconds": 3}
    assert update(judge, world.hosted, changing, {"readinessProbe": fresh})["readinessProbe"] == fresh
    assert update(judge, world.hosted, changing, {"replicas": 1})["readinessProbe"] == fresh
    assert update(judge, world.hosted, changing, {"readinessProbe": None})["readinessProbe"] is None


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "empty"),
        ({"secrets": ["never-saved"]}, "never-saved"),
        ({"env": {"ANYCLOUD_API_URL": "x"}}, "ANYCLOUD_API_URL"),
        ({"image": "not an image"}, "image"),
        ({"replicas": 1001}, "replicas"),
        ({"readinessProbe": {"exec": {"command": ["x"]}, "httpGet": {}}}, "httpGet"),
        ({"dockerOptions": {"runtime": ""}}, "runtime"),
        ({"dockerOptions": {"gpus": "1"}}, "gpus"),
        ({"dockerOptions": {"gpus": "0"}}, "gpus"),
        ({"dockerOptions": {"binds": ["/proc/x"]}}, "/proc"),
        ({"dockerOptions": {"cpus": "many"}}, "cpus"),
    ],
    ids=json.dumps,
)
def test_an_unusable_update_changes_nothing(
    world: World, judge: Judge, changing: str, body: dict[str, Any], says: str
) -> None:
    before = world.hosted.ask("GET", f"/deployments/{changing}")["deployment"]
    error = judge.operation(world.hosted, "update_deployment", id=changing, update_deployment_body=body).refused(
        400, "DEPLOYMENT_INVALID"
    )
    assert says in error["message"]
    after = world.hosted.ask("GET", f"/deployments/{changing}")["deployment"]
    assert (after["generation"], after["updatedAt"]) == (before["generation"], before["updatedAt"])


@pytest.mark.req("DP-145")
def test_of_two_updates_at_one_moment_each_is_a_revision_or_a_conflict(world: World, changing: str) -> None:
    before = world.hosted.ask("GET", f"/deployments/{changing}")["deployment"]["generation"]

    def change(number: int) -> Any:
        return world.hosted.call("PATCH", f"/deployments/{changing}", {"env": {"N": str(number)}})

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(change, range(8)))
    taken = [one for one in answers if one.status_code == 202]
    refused = [(one.status_code, one.json()["code"]) for one in answers if one.status_code != 202]
    assert taken
    assert set(refused) <= {(409, "DEPLOYMENT_CONFLICT")}
    generations = sorted(one.json()["deployment"]["generation"] for one in taken)
    assert generations == list(range(before + 1, before + 1 + len(taken)))


@pytest.mark.parametrize(
    ("changed", "status", "code", "says"),
    [
        ({"name": "1st"}, 400, "DEPLOYMENT_INVALID", "1st"),
        ({"image": "a b"}, 400, "DEPLOYMENT_INVALID", "image"),
        ({"dockerOptions": {"ipc": "host"}}, 400, "DEPLOYMENT_INVALID", "ipc"),
        ({"dockerOptions": {"network": "host"}}, 400, "DEPLOYMENT_INVALID", "network"),
        ({"dockerOptions": {"ulimits": ["nofile=1"]}}, 400, "DEPLOYMENT_INVALID", "ulimits"),
        ({"dockerOptions": {"gpus": "all"}}, 400, "DEPLOYMENT_INVALID", "gpus"),
        ({"secrets": ["never-saved"]}, 400, "DEPLOYMENT_INVALID", "never-saved"),
        ({"env": {"a-b": "1"}}, 400, "DEPLOYMENT_INVALID", "a-b"),
        ({"nodePool": "nope"}, 404, "DEPLOYMENT_NOT_FOUND", "nope"),
        ({"name": "parked"}, 409, "DEPLOYMENT_CONFLICT", "parked"),
        ({"name": "Parked"}, 409, "DEPLOYMENT_CONFLICT", "arked"),
    ],
)
def test_refusals_of_a_new_deployment(
    world: World, judge: Judge, parked: dict[str, Any], changed: dict[str, Any], status: int, code: str, says: str
) -> None:
    body = {"name": "wanted", "image": "contract/parked:1", "nodePool": "pool", **changed}
    error = judge.operation(world.hosted, "create_deployment", create_deployment_input=body).refused(status, code)
    assert says in error["message"]
    assert world.hosted.call("GET", "/deployments/wanted").status_code == 404


@pytest.mark.parametrize("operation", ["get_deployment", "delete_deployment", "update_deployment"])
def test_a_deployment_that_there_is_not(hosted: Api, judge: Judge, operation: str) -> None:
    body = {"update_deployment_body": {"replicas": 2}} if operation == "update_deployment" else {}
    judge.operation(hosted, operation, id="nope", **body).refused(404, "DEPLOYMENT_NOT_FOUND")


def test_deployments_of_a_pool_that_there_is_not(hosted: Api, judge: Judge) -> None:
    judge.operation(hosted, "list_deployments", node_pool="nope").refused(400, "DEPLOYMENT_INVALID")


def test_a_deployment_that_is_being_deleted_is_not_updated(
    world: World, judge: Judge, unique: Callable[[str], str]
) -> None:
    body = {"name": unique("leaving"), "image": world.register_image("contract/plain:1"), "nodePool": "pool"}
    made = world.hosted.ask("POST", "/deployments", body)["deployment"]
    world.hosted.ask("DELETE", f"/deployments/{made['id']}")
    judge.operation(world.hosted, "update_deployment", id=made["id"], update_deployment_body={"replicas": 2}).refused(
        409, "DEPLOYMENT_CONFLICT"
    )

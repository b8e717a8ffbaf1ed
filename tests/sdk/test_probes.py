"""What each SDK makes of answers and errors, and what it sends; the probes make one call and say what they saw."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.contract.world import VERSION, World
from tests.sdk.building import Built
from tests.sdk.canned import Canned
from tests.support.installation import until

pytestmark = pytest.mark.timeout(600)  # the first test waits for the builds and the installation

NOT_FOUND = {"code": "DEPLOYMENT_NOT_FOUND", "defined": True, "message": "There is none.", "status": 404}


def probe(sdk: Built, name: str, url: str, token: str, argument: str = "") -> Any:
    command = [*sdk.probe, name, url, token, argument]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


# --- a live gateway


def test_an_error_has_the_contracts_code(sdk: Built, world: World) -> None:
    seen = probe(sdk, "deployment", world.hosted.url, world.hosted.token, "no-such")
    assert seen == {"error": {"status": 404, "code": "DEPLOYMENT_NOT_FOUND", "defined": True, "data": None}}


def test_an_error_has_the_data_of_its_code(sdk: Built, world: World) -> None:
    seen = probe(sdk, "credential", world.hosted.url, world.hosted.token, "no-such")
    assert seen == {
        "error": {"status": 404, "code": "CREDENTIAL_NOT_FOUND", "defined": True, "data": {"name": "no-such"}}
    }


def test_a_wrong_token_is_unauthorized(sdk: Built, world: World) -> None:
    assert probe(sdk, "workloads", world.hosted.url, "wrong")["error"]["code"] == "UNAUTHORIZED"


def test_null_stays_null_and_nested_objects_are_objects(
    sdk: Built, world: World, deployments: list[dict[str, Any]]
) -> None:
    seen = probe(sdk, "deployment", world.hosted.url, world.hosted.token, deployments[0]["id"])
    assert seen == {"name": "first", "image": deployments[0]["image"], "command": None, "state": "running"}


@pytest.mark.req("IN-034")
def test_a_pools_ingress_is_typed_objects_one_in_the_other(sdk: Built, api: Canned, world: World) -> None:
    found = world.hosted.ask("GET", f"/node-pools/{world.pool['id']}")
    assert probe(sdk, "ingress", world.hosted.url, world.hosted.token, world.pool["id"]) is None
    release = {
        "state": "failed",
        "helmJob": {"phase": "Failed", "message": "exit 1"},
        "daemonSet": None,
        "lastEvent": None,
        "routes": 1,
    }
    found["nodePool"]["ingress"]["release"] = release
    api.answers(200, found)
    assert probe(sdk, "ingress", api.url, "token", "pool") == "Failed"


def test_a_union_is_the_variant_of_its_tag(sdk: Built, world: World) -> None:
    seen = probe(sdk, "credential", world.hosted.url, world.hosted.token, "aws")
    assert seen == {"kind": "RedactedCredentialAws", "cloudProvider": "AWS"}


def test_a_list_comes_in_pages_whose_headers_are_seen(
    sdk: Built, world: World, deployments: list[dict[str, Any]]
) -> None:
    seen = probe(sdk, "pages", world.hosted.url, world.hosted.token)
    assert seen == {"names": ["second", "first"], "total": len(deployments)}


def test_a_streams_lines_arrive_as_they_were_sent(sdk: Built, world: World, deployments: list[dict[str, Any]]) -> None:
    url, token = world.hosted.url, world.hosted.token
    job = probe(sdk, "submit-deployment", url, token, "first")["id"]

    def printed() -> bool:
        lines = [json.loads(line) for line in probe(sdk, "logs", url, token, "first").splitlines()]
        return any(line["text"] == f"job={job} completed" for line in lines)

    assert until(printed, 60)


# --- answers that a test makes up


def test_every_call_brings_token_and_version(sdk: Built, api: Canned) -> None:
    api.answers(200, [])
    probe(sdk, "workloads", api.url, "acapi_mine")
    (asked,) = api.asked
    assert (asked.method, asked.path) == ("GET", "/v1/workloads")
    assert asked.headers["authorization"] == "Bearer acapi_mine"
    assert asked.headers["anycloud-client-version"] == VERSION


def test_an_answer_of_a_newer_api_is_read(
    sdk: Built, api: Canned, world: World, deployments: list[dict[str, Any]]
) -> None:
    now = world.hosted.ask("GET", f"/deployments/{deployments[0]['id']}")
    newer = now["deployment"]
    newer["learned"] = {"since": "0.2.0"}
    newer["status"].update(state="a word from the future", mood="good")
    api.answers(200, {**now, "hint": 1})
    seen = probe(sdk, "deployment", api.url, "token", "first")
    assert seen == {"name": "first", "image": newer["image"], "command": None, "state": "a word from the future"}


def test_an_error_of_a_newer_api_is_read(sdk: Built, api: Canned) -> None:
    api.answers(418, {"code": "TEAPOT", "defined": True, "message": "", "status": 418, "data": {"cups": 2}, "more": 1})
    seen = probe(sdk, "deployment", api.url, "token", "first")
    assert seen == {"error": {"status": 418, "code": "TEAPOT", "defined": True, "data": {"cups": 2}}}


@pytest.mark.parametrize("content_type", ["text/html", "application/json"])
def test_what_is_no_answer_of_the_api_is_an_error_without_code(sdk: Built, api: Canned, content_type: str) -> None:
    api.answers(502, "<html>Bad gateway</html>", content_type)
    assert probe(sdk, "deployment", api.url, "token", "first") == {"error": {"status": 502, "code": None}}


def test_a_change_tells_null_from_what_is_not_given(sdk: Built, api: Canned) -> None:
    api.answers(404, NOT_FOUND)
    probe(sdk, "update", api.url, "token", "first")
    (asked,) = api.asked
    assert (asked.method, asked.path) == ("PATCH", "/v1/deployments/first")
    assert asked.body == {"command": None, "dockerOptions": {"shmSize": None}}


def test_the_variants_of_a_submission_are_sent_flat(sdk: Built, api: Canned) -> None:
    api.answers(202, {"id": "job-1", "submissionRevision": 0, "claimDeadlineAt": None})
    assert probe(sdk, "submit-deployment", api.url, "token", "first") == {"id": "job-1", "claimDeadlineAt": None}
    assert probe(sdk, "submit-image", api.url, "token", "app:1") == {"id": "job-1"}
    to_deployment, to_image = (asked.body for asked in api.asked)
    assert to_deployment == {"deployment": "first"}
    assert to_image == {"image": "app:1", "nodePool": "pool", "cloudConfig": {}, "gpuType": ["t4", "l4"]}


def test_text_or_a_list_of_text_is_either_or_null(
    sdk: Built, api: Canned, world: World, deployments: list[dict[str, Any]]
) -> None:
    job = world.hosted.ask("POST", "/workloads", {"deployment": deployments[0]["id"]})["id"]
    listed = next(w for w in world.hosted.ask("GET", "/workloads") if w["id"] == job)
    kinds = ["m5.large", ["m5.large", "m5.xlarge"], None]
    api.answers(200, [{**listed, "vmType": kind} for kind in kinds])
    assert probe(sdk, "workloads", api.url, "token") == kinds

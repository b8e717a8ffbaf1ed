"""Who may call what: every operation by every kind of caller, at both APIs.

Whoever fails often is delayed by source address; so each call that is to fail comes from an address of its own.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.contract import wire
from tests.contract.operations import OPERATIONS, OURS, Operation
from tests.contract.world import SIGN_IN, Api, World, connection

EVERY = [*OPERATIONS, *OURS]
UNKNOWN = {"user": "UNAUTHORIZED", "sign-in": "UNAUTHORIZED", "workload": "WORKLOAD_UNAUTHORIZED"}
OWNERS_ONLY = ("grant_api_access_user", "revoke_api_access_user")
STRANGERS = {
    "nobody": None,
    "no bearer": "Basic dXNlcjpwYXNz",
    "an empty bearer": "Bearer",
    "a made-up token": "Bearer acapi_0123456789012345678901234567890123456789",
    "what is no token": "Bearer '; DROP TABLE cluster_token; --",
    "two bearers": "Bearer a, Bearer b",
}
WITHOUT_TOKEN = ("nobody", "no bearer", "an empty bearer")

_addresses = (f"127.{a}.{b}.{c}" for a, b, c in itertools.product(range(90, 120), range(250), range(1, 250)))


def call(api: Api, operation: Operation, authorization: str | None, path: str = "", **headers: str) -> httpx.Response:
    """One call from a fresh address. `path` replaces the operation's own, of which nothing exists."""
    sent = {**api.headers, "idempotency-key": "00000000-0000-4000-8000-000000000000", **headers}
    sent.pop("authorization")
    if authorization is not None:
        sent["authorization"] = authorization
    with connection(sent, next(_addresses)) as client:
        url = f"{api.url}/v1{path or operation.url}"
        body = {"json": operation.body} if operation.body_argument else {}
        return client.request(operation.verb, url, params=operation.query, **body)


def bearer(api: Api) -> str:
    return f"Bearer {api.token}"


def check_let_in(answer: httpx.Response) -> None:
    """The handler has answered: whatever it says, it isn't about the caller."""
    wire.check_form(answer)
    assert answer.status_code < 500 or answer.json()["code"] == "CLUSTER_UNAVAILABLE", answer.text
    assert answer.status_code != 401, answer.text
    if answer.status_code == 403:
        assert answer.json()["code"] in ("NOT_AVAILABLE", "GITHUB_SIGN_IN_REQUIRED"), answer.text


@pytest.fixture(scope="module")
def callers(world: World, served: dict[str, Any], granted: Api) -> dict[str, Callable[[], str]]:
    """Authorization of everybody who has a token somewhere, or had one."""
    guest = world.exchange("ghs_sandbox_friend")
    world.hosted.ask("POST", "/api-access/users", {"username": "leaver"}, **{"anycloud-github-token": SIGN_IN})
    rotated = world.exchange("ghs_sandbox_leaver")
    revoked = Api(world.hosted.url, rotated).ask("POST", "/api-token/rotate")["token"]
    users = world.hosted.ask("GET", "/api-access/users")["users"]
    [leaver] = [user["userId"] for user in users if user["username"] == "leaver"]
    world.hosted.ask("DELETE", f"/api-access/users/{leaver}")
    expired = world.expired(world.worker(served).token)
    return {
        "who rotated the token": lambda: f"Bearer {rotated}",
        "who may not any more": lambda: f"Bearer {revoked}",
        "a container whose token expired": lambda: f"Bearer {expired}",
        "owner": lambda: bearer(world.hosted),
        "guest": lambda: f"Bearer {guest}",
        "installer": lambda: bearer(world.local),
        "container": lambda: bearer(world.worker(served)),
        "github": lambda: f"Bearer {SIGN_IN}",
    }


@pytest.mark.parametrize("operation", EVERY, ids=lambda one: one.name or one.path)
def test_strangers_are_told_nothing_but_that(world: World, operation: Operation) -> None:
    for api in (world.local, world.hosted):
        for who, authorization in STRANGERS.items():
            if api == world.local and operation.caller == "sign-in" and who not in WITHOUT_TOKEN:
                continue  # see test_an_installer_knows_its_own_token_alone
            answer = call(api, operation, authorization)
            try:
                wire.check_refused(answer, 401, UNKNOWN[operation.caller])
            except AssertionError as wrong:
                raise AssertionError(f"{who} at {api.url}: {wrong}") from None


@pytest.mark.parametrize("operation", EVERY, ids=lambda one: one.name or one.path)
def test_a_token_is_for_its_own_api_and_its_own_operations(
    world: World, callers: dict[str, Callable[[], str]], operation: Operation
) -> None:
    """Let in at the hosted API, and at the installer; everybody else is unknown there."""
    hosted = {"user": {"owner", "guest"}, "workload": {"container"}, "sign-in": {"github"}}[operation.caller]
    for who, authorization in callers.items():
        if operation.name == "rotate_api_token" and who in hosted:
            continue  # would end the tests' own tokens; tried in test_client_installation.py
        answer = call(world.hosted, operation, authorization())
        try:
            if who == "guest" and operation.name in OWNERS_ONLY:
                wire.check_refused(answer, 403, "API_ACCESS_OWNER_REQUIRED")
            elif who in hosted:
                check_let_in(answer)
            else:
                wire.check_refused(answer, 401, UNKNOWN[operation.caller])
        except AssertionError as wrong:
            raise AssertionError(f"{who}: {wrong}") from None


@pytest.mark.parametrize("operation", EVERY, ids=lambda one: one.name or one.path)
def test_an_installer_knows_its_own_token_alone(
    world: World, callers: dict[str, Callable[[], str]], operation: Operation
) -> None:
    for who, authorization in callers.items():
        answer = call(world.local, operation, authorization())
        try:
            if operation.caller == "sign-in":
                wire.check_refused(answer, 403, "FORBIDDEN")  # it issues no tokens, whoever asks
            elif operation.caller == "workload":
                wire.check_refused(answer, 401, "WORKLOAD_UNAUTHORIZED")  # it has no containers
            elif who == "installer":
                check_let_in(answer)
            else:
                wire.check_refused(answer, 401, "UNAUTHORIZED")
        except AssertionError as wrong:
            raise AssertionError(f"{who}: {wrong}") from None


@pytest.mark.req("DP-060")
@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.caller == "workload"], ids=lambda one: one.name)
def test_a_container_speaks_for_its_own_deployment_alone(
    world: World, served: dict[str, Any], parked: dict[str, Any], operation: Operation
) -> None:
    path = operation.url.replace("/deployments/nope", f"/deployments/{served['id']}", 1)
    wire.check_refused(call(world.hosted, operation, bearer(world.worker(parked)), path), 403, "WORKLOAD_FORBIDDEN")
    own = call(world.hosted, operation, bearer(world.worker(served)), path)
    assert own.status_code == 204 or own.json()["code"] == "WORKLOAD_NOT_FOUND", own.text  # of Job `nope`


def test_a_containers_token_without_a_bound_pod_or_with_another_audience_is_no_workload_token(
    world: World, served: dict[str, Any]
) -> None:
    """The token of the API's own ServiceAccount is signed by the same cluster, but says neither."""
    [operation] = [one for one in OPERATIONS if one.name == "discover_deployment_job_candidate"]
    found = list((world.config / "data" / "sandbox").rglob("serviceaccount/token"))
    assert found, "the sandbox mounts tokens elsewhere now"
    path = f"/deployments/{served['id']}/jobs/candidate"
    for token in {file.read_text().strip() for file in found}:
        wire.check_refused(call(world.hosted, operation, f"Bearer {token}", path), 401, "WORKLOAD_UNAUTHORIZED")


@pytest.mark.parametrize("operation", EVERY, ids=lambda one: one.name or one.path)
def test_who_calls_is_judged_before_what_is_asked(
    world: World, served: dict[str, Any], parked: dict[str, Any], operation: Operation
) -> None:
    """Neither version nor parameters nor body of a stranger are looked at. (Of a sign-in the version is: GitHub is
    asked last.)"""
    given = ("", None) if operation.verb == "GET" else ("hostile", ["hostile"])
    hostile = Operation(operation.name, operation.verb, operation.path, *given)
    path = operation.url.replace("/deployments/nope/jobs", f"/deployments/{served['id']}/jobs", 1)
    version = {} if operation.caller == "sign-in" else {"anycloud-client-version": "9.9.9"}
    answer = call(world.hosted, hostile, "Bearer made-up", path, **version)
    wire.check_refused(answer, 401, UNKNOWN[operation.caller])
    if operation.caller == "workload":
        wire.check_refused(call(world.hosted, hostile, bearer(world.worker(parked)), path), 403, "WORKLOAD_FORBIDDEN")
        wire.check_refused(call(world.hosted, hostile, bearer(world.worker(parked))), 404, "WORKLOAD_NOT_FOUND")
    if operation.caller == "sign-in":
        answer = call(world.local, hostile, bearer(world.local))
        wire.check_refused(answer, 403, "FORBIDDEN")


def test_internal_methods_and_the_callers_word_for_itself_are_nothing_worth(world: World) -> None:
    operation = next(one for one in OPERATIONS if one.name == "list_clusters")
    posing = {
        "anycloud-caller": "deployment",
        "anycloud-principal": "local",
        "x-envoy-original-path": "/v1/clusters",
        "x-forwarded-for": "127.0.0.1",
    }
    wire.check_refused(call(world.hosted, operation, None, **posing), 401, "UNAUTHORIZED")


def test_guessing_is_slowed_down_by_address_and_never_a_valid_token(hosted: Api) -> None:
    with connection({}, "127.88.1.1") as client:

        def ask(token: str) -> tuple[int, float]:
            began = time.monotonic()
            headers = {**hosted.headers, "authorization": f"Bearer {token}"}
            status = client.get(f"{hosted.url}/v1/secrets", headers=headers).status_code
            return status, time.monotonic() - began

        guesses = [ask(f"acapi_guess{number}") for number in range(8)]
        valid = ask(hosted.token)
    assert {status for status, _ in guesses} == {401}
    assert guesses[-1][1] > 0.7  # 0.2, 0.4, 0.8 s from the sixth on
    assert valid[0] == 200
    assert valid[1] < 0.5

"""The published client on the installation itself: who may use it, its release, its database; and what every operation
of a user refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.sdk import Judge
from tests.contract.world import GRANTED_SIGN_IN, SIGN_IN, VERSION, Api, World
from tests.support.installation import until

SIGNED_IN = {"_headers": {"AnyCloud-GitHub-Token": SIGN_IN}}


def user_of(api: Api, login: str) -> str:
    users = api.ask("GET", "/api-access/users")
    [found] = [user["userId"] for user in [users["owner"], *users["users"]] if user["username"] == login]
    return str(found)


def test_a_github_sign_in_is_traded_for_a_token(world: World, judge: Judge) -> None:
    signed_in = Api(world.hosted.url, SIGN_IN)
    token = judge.operation(signed_in, "exchange_api_token").value("ApiTokenResponse", 200)["token"]
    assert Api(world.hosted.url, token).ask("GET", "/clusters")["clusters"]
    judge.operation(Api(world.local.url, SIGN_IN), "exchange_api_token").refused(403, "FORBIDDEN")
    judge.operation(Api(world.hosted.url, "ghs_sandbox_stranger"), "exchange_api_token").refused(403, "FORBIDDEN")


@pytest.mark.parametrize("ended_by", ["rotation", "revocation"])
def test_a_token_that_ended_is_unknown_to_every_service_at_once(world: World, judge: Judge, ended_by: str) -> None:
    judge.operation(
        world.hosted, "grant_api_access_user", grant_api_access_input={"username": "passer-by"}, **SIGNED_IN
    ).value("ApiAccessUser", 200)
    api = Api(world.hosted.url, world.exchange("ghs_sandbox_passer-by"))
    paths = ["/clusters", "/node-pools", "/deployments", "/system-release"]
    assert [api.call("GET", path).status_code for path in paths] == [200] * 4  # and is remembered for some seconds
    if ended_by == "rotation":
        fresh = judge.operation(api, "rotate_api_token").value("ApiTokenResponse", 200)["token"]
        assert [Api(api.url, fresh).call("GET", path).status_code for path in paths] == [200] * 4
    else:
        judge.operation(world.hosted, "revoke_api_access_user", user_id=user_of(world.hosted, "passer-by"))
    until(lambda: all(api.call("GET", path).status_code == 401 for path in paths), 2)


def test_the_owner_grants_and_revokes(world: World, judge: Judge) -> None:
    grant = {"grant_api_access_input": {"username": "guest"}, **SIGNED_IN}
    user = judge.operation(world.hosted, "grant_api_access_user", **grant).value("ApiAccessUser", 200)
    assert user["username"] == "guest"
    token = world.exchange("ghs_sandbox_guest")
    listed = judge.operation(world.hosted, "list_api_access_users").value("ApiAccessUsersResponse", 200)
    assert listed["owner"]["username"] == "demo"
    assert user in listed["users"]
    assert Api(world.hosted.url, token).call("GET", "/clusters").status_code == 200
    judge.operation(world.hosted, "revoke_api_access_user", user_id=user["userId"]).value("NoneType", 204)
    judge.operation(world.hosted, "revoke_api_access_user", user_id=user["userId"]).value("NoneType", 204)
    assert Api(world.hosted.url, token).call("GET", "/clusters").status_code == 401
    judge.operation(Api(world.hosted.url, "ghs_sandbox_guest"), "exchange_api_token").refused(403, "FORBIDDEN")


def test_refusals_of_who_may_use_the_api(world: World, judge: Judge, granted: Api) -> None:
    owner = user_of(world.hosted, "demo")
    grant = {"grant_api_access_input": {"username": "no such login"}, **SIGNED_IN}
    judge.operation(world.hosted, "grant_api_access_user", **grant).refused(400, "API_ACCESS_ACCOUNT_NOT_USER")
    judge.operation(world.hosted, "revoke_api_access_user", user_id="guest").refused(400, "INVALID_GITHUB_USER_ID")
    judge.operation(world.hosted, "revoke_api_access_user", user_id=owner).refused(
        400, "API_ACCESS_OWNER_CANNOT_BE_REMOVED"
    )


def test_only_the_owner_decides_who_may_use_the_api(world: World, judge: Judge) -> None:
    friend = Api(world.hosted.url, world.exchange(GRANTED_SIGN_IN))
    grant = {"grant_api_access_input": {"username": "guest"}, **SIGNED_IN}
    judge.operation(friend, "grant_api_access_user", **grant).refused(403, "API_ACCESS_OWNER_REQUIRED")
    judge.operation(friend, "revoke_api_access_user", user_id="1").refused(403, "API_ACCESS_OWNER_REQUIRED")
    judge.operation(friend, "list_api_access_users").value("ApiAccessUsersResponse", 200)


@pytest.mark.parametrize(
    ("operation", "args"),
    [
        ("rotate_api_token", {}),
        ("list_api_access_users", {}),
        ("grant_api_access_user", {"grant_api_access_input": {"username": "guest"}}),
        ("revoke_api_access_user", {"user_id": "1"}),
    ],
)
def test_an_installer_has_no_users(local: Api, judge: Judge, operation: str, args: dict[str, Any]) -> None:
    judge.operation(local, operation, **args).refused(400, "API_ACCESS_NOT_HOSTED")


def test_the_release_of_each_api(world: World, judge: Judge) -> None:
    here = judge.operation(world.local, "get_system_release_status").value("SystemReleaseStatus", 200)
    assert (here["servedVersion"], here["rollout"], here["upgrade"]) == (VERSION, None, None)
    there = judge.operation(world.hosted, "get_system_release_status").value("SystemReleaseStatus", 200)
    assert (there["servedVersion"], there["upgrade"]) == (VERSION, None)
    assert (there["rollout"]["replicas"], there["rollout"]["readyReplicas"]) == (1, 1)


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0", "0.0.1"])
def test_the_release_is_told_to_clients_of_a_neighbouring_version(world: World, judge: Judge, version: str) -> None:
    judge.operation(world.local, "get_system_release_status", any_cloud_client_version=version).value(
        "SystemReleaseStatus", 200
    )


def test_moving_the_api_to_what_runs_already_changes_nothing(world: World, judge: Judge) -> None:
    wanted = {"request_system_release_input": {"image": world.cluster["apiImage"]}}
    answer = judge.operation(world.hosted, "request_system_release", **wanted).value("SystemReleaseResponse", 202)
    assert answer == {"unchanged": True, "upgrade": None}


@pytest.mark.parametrize("image", ["not an image", "elsewhere/unknown:1"])
def test_the_api_is_moved_to_an_image_of_its_own_only(world: World, judge: Judge, image: str) -> None:
    for api in (world.local, world.hosted):
        judge.operation(api, "request_system_release", request_system_release_input={"image": image}).refused(
            400, "SYSTEM_RELEASE_REFUSED"
        )


def test_the_schema_of_the_database(hosted: Api, judge: Judge) -> None:
    tables = judge.operation(hosted, "get_database_schema").value("DbSchemaResponse", 200)["tables"]
    assert {table["name"].partition("_")[0] for table in tables} == {"cluster", "nodepool", "deployment", "release"}
    [one] = judge.operation(hosted, "get_database_schema", table="deployment_job").value("DbSchemaResponse", 200)[
        "tables"
    ]
    assert one["type"] == "table"
    assert [column["name"] for column in one["columns"] if column.get("primaryKey")] == ["id"]
    assert judge.operation(hosted, "get_database_schema", table="nope").value("DbSchemaResponse", 200) == {"tables": []}


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT 1 AS a, NULL AS b, 'c' AS c, 1.5 AS d", [{"a": 1, "b": None, "c": "c", "d": 1.5}]),
        ("SELECT 1 WHERE 0", []),
        ("SELECT x'00ff' AS bytes", [{"bytes": "00ff"}]),
        ("SELECT 9007199254740993 AS beyond", [{"beyond": "9007199254740993"}]),
        ("SELECT 1e999 AS endless, -1e999 AS less", [{"endless": "Infinity", "less": "-Infinity"}]),
        ("SELECT json_array() AS array, '' AS empty", [{"array": "[]", "empty": ""}]),
    ],
)
def test_a_query_is_answered_row_by_row(hosted: Api, judge: Judge, sql: str, rows: list[dict[str, Any]]) -> None:
    answer = judge.operation(hosted, "query_database", db_query_input={"sql": sql}).value("DbQueryResponse", 200)
    assert answer == {"rows": rows, "rowCount": len(rows), "truncated": False}


def test_a_long_answer_is_cut_and_says_so(hosted: Api, judge: Judge) -> None:
    sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000) SELECT i FROM n"
    answer = judge.operation(hosted, "query_database", db_query_input={"sql": sql}).value("DbQueryResponse", 200)
    assert answer["truncated"]
    assert answer["rowCount"] == len(answer["rows"]) < 20000


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "no sql",
        "SELECT 1; SELECT 2",
        "DELETE FROM deployment_job",
        "ATTACH '/etc/passwd' AS x",
        "PRAGMA journal_mode=DELETE",
        "SELECT nope FROM deployment_job",
        "SELECT load_extension('x')",
    ],
)
def test_a_query_that_is_not_one_or_does_not_only_read(hosted: Api, judge: Judge, sql: str) -> None:
    answer = judge.operation(hosted, "query_database", db_query_input={"sql": sql})
    if not sql:
        answer.raised("ValidationError")  # the client itself doesn't send it
        return
    assert "sql" in answer.refused(400, "DB_QUERY_INVALID")["message"]


def test_no_secret_is_in_any_answer_of_the_database(world: World, judge: Judge) -> None:
    tables = judge.operation(world.hosted, "get_database_schema").value("DbSchemaResponse", 200)["tables"]
    columns = {(table["name"], column["name"], column["type"]) for table in tables for column in table["columns"]}
    assert not [column for column in columns if "BLOB" in column[2]]
    row = judge.operation(world.hosted, "query_database", db_query_input={"sql": "SELECT * FROM cluster_credential"})
    assert "secretAccessKey" not in str(row.value("DbQueryResponse", 200))

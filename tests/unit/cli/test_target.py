"""Which API is asked, with which token; and what a command says when that fails."""

from __future__ import annotations

import json
import os
import stat
from typing import Any

import pytest

from tests.unit.cli.conftest import refusal

CLUSTERS: dict[str, Any] = {"clusters": []}


def test_every_request_carries_version_bearer_and_content_type(cli: Any, api: Any) -> None:
    api.on("GET", "/clusters", CLUSTERS)
    assert cli("cluster", "list").code == 0
    headers = api.requests[0].headers
    assert headers["anycloud-client-version"] == "0.1.70"
    assert headers["authorization"] == "Bearer install-token"
    assert headers["content-type"] == "application/json"
    assert "anycloud-github-token" not in headers


def test_the_github_sign_in_goes_to_a_local_api_only(
    cli: Any, api: Any, hosted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_env")
    api.on("GET", "/clusters", CLUSTERS)
    hosted.on("GET", "/clusters", CLUSTERS)
    cli("cluster", "list")
    cli.write(".token", "ghp_file\n")
    cli("cluster", "list")
    assert [request.headers["anycloud-github-token"] for request in api.requests] == ["ghp_env", "ghp_file"]
    cli.write("api-url", hosted.url)
    cli.write("api-tokens.json", json.dumps({hosted.url: "acapi_x"}))
    assert cli("cluster", "list").code == 0
    assert "anycloud-github-token" not in hosted.requests[0].headers


@pytest.mark.req("CLI-001")
def test_the_url_of_the_environment_goes_before_the_file(
    cli: Any, api: Any, hosted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted.on("GET", "/clusters", CLUSTERS)
    monkeypatch.setenv("API_URL", f" {hosted.url}/ ")
    monkeypatch.setenv("ANYCLOUD_API_TOKEN", "acapi_env")
    assert cli("cluster", "list").code == 0
    assert hosted.requests[0].headers["authorization"] == "Bearer acapi_env"
    assert api.requests == []


def test_a_token_of_the_environment_is_for_the_url_of_the_environment_only(
    cli: Any, hosted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.write("api-url", hosted.url)
    monkeypatch.setenv("ANYCLOUD_API_TOKEN", "acapi_env")
    said = f"No token for {hosted.url} is here; run `anycloud api use {hosted.url}`.\n"
    assert cli("cluster", "list") == (1, "", said)
    assert hosted.requests == []


def test_a_token_of_the_environment_never_goes_to_a_local_api(
    cli: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.on("GET", "/clusters", CLUSTERS)
    monkeypatch.setenv("API_URL", api.url)
    monkeypatch.setenv("ANYCLOUD_API_TOKEN", "acapi_env")
    cli("cluster", "list")
    assert api.requests[0].headers["authorization"] == "Bearer install-token"


@pytest.mark.parametrize("tokens", ["", "{", "[]", '{"other": "acapi_x"}', '{"URL/v1": "acapi_x"}', '{"URL": 7}'])
def test_a_token_is_found_under_the_exact_url_only(cli: Any, hosted: Any, tokens: str) -> None:
    cli.write("api-url", hosted.url)
    cli.write("api-tokens.json", tokens.replace("URL", hosted.url))
    assert cli("cluster", "list").code == 1
    assert hosted.requests == []


def test_a_url_that_ends_in_v1_is_used_as_it_is(cli: Any, api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    api.on("GET", "/clusters", CLUSTERS)
    monkeypatch.setenv("API_URL", f"{api.url}/v1")
    assert cli("cluster", "list").code == 0


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "localhost:8080",
        "http://",
        "http://u:p@x",
        "http://x?a",
        "http://x#a",
        "http://x:99999",
        "http://x:0",
    ],
)
def test_what_is_no_url_of_an_api_is_refused(cli: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_URL", url)
    run = cli("cluster", "list")
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith("That isn't the URL of an API")
    assert "u:p" not in run.err


def test_a_missing_local_api_is_told_with_the_command_that_starts_it(cli: Any, api: Any) -> None:
    api.close()
    said = f"The local API at {api.url} doesn't answer (connection refused); start it with `anycloud api start`.\n"
    assert cli("cluster", "list") == (1, "", said)


def test_a_missing_install_token_is_told_with_the_command_that_makes_it(cli: Any) -> None:
    (cli.directory / "local-api-token").unlink()
    said = "No token of a local API is here; run `anycloud api start` as this user, with the same ANYCLOUD_DIR.\n"
    assert cli("cluster", "list") == (1, "", said)


def test_a_refused_token_is_told_with_the_way_to_a_new_one(cli: Any, api: Any, hosted: Any) -> None:
    api.refuse("GET", "/clusters", 401, "UNAUTHORIZED", "The token is unknown.")
    assert cli("cluster", "list") == (1, "", "The token is unknown. Next: `anycloud api start`.\n")
    cli.write("api-url", hosted.url)
    cli.write("api-tokens.json", json.dumps({hosted.url: "acapi_x"}))
    hosted.refuse("GET", "/clusters", 401, "UNAUTHORIZED", "The token is unknown.")
    said = f"The token is unknown. Next: `anycloud api use {hosted.url}`.\n"
    assert cli("cluster", "list") == (1, "", said)


@pytest.mark.req("CLI-009", "CLI-011")
@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_a_refusal_is_one_sentence_on_stderr(cli: Any, api: Any, extra: list[str]) -> None:
    api.refuse("GET", "/clusters", 400, "CLIENT_VERSION_MISMATCH", "This API is 0.1.71, the client 0.1.70.")
    assert cli("cluster", "list", *extra) == (1, "", "This API is 0.1.71, the client 0.1.70.\n")


@pytest.mark.parametrize("body", [b"<html>no healthy upstream</html>", b"", b"[]", b'{"code": 5}'])
def test_an_error_that_is_not_the_contracts_is_told_by_its_status(cli: Any, api: Any, body: bytes) -> None:
    api.on("GET", "/clusters", body, status=502)
    assert cli("cluster", "list") == (1, "", f"The API at {api.url} answered 502 Bad Gateway.\n")


def test_an_answer_that_is_no_json_is_told(cli: Any, api: Any) -> None:
    api.on("GET", "/clusters", b"<html>")
    assert cli("cluster", "list") == (1, "", f"What answers at {api.url} isn't an Anycloud API.\n")


def test_an_answer_of_another_shape_gives_a_sentence_and_no_traceback(cli: Any, api: Any) -> None:
    api.on("GET", "/clusters", {"clusters": [{"name": "x"}]})
    run = cli("cluster", "list")
    assert (run.code, run.out) == (1, "")
    assert run.err == "Unexpected KeyError; ANYCLOUD_TRACEBACK=1 shows where.\n"


@pytest.mark.req("CL-002", "CLI-001")
def test_api_use_trades_the_sign_in_for_a_token_and_sends_later_commands_there(cli: Any, api: Any, hosted: Any) -> None:
    cli.write(".token", "ghp_me\n")
    hosted.on("POST", "/api-token", {"token": "acapi_new"})
    hosted.on("GET", "/node-pools", {"nodePools": []})
    assert cli("api", "use", f"{hosted.url}/") == (0, f"Commands go to {hosted.url}.\n", "")
    exchange = hosted.requests[0]
    assert (exchange.headers["authorization"], exchange.body) == ("Bearer ghp_me", None)
    assert "anycloud-github-token" not in exchange.headers
    assert json.loads((cli.directory / "api-tokens.json").read_text()) == {hosted.url: "acapi_new"}
    assert (cli.directory / "api-url").read_text().strip() == hosted.url
    for name in ("api-tokens.json", "api-url"):
        assert stat.S_IMODE((cli.directory / name).stat().st_mode) == 0o600
    assert cli("node-pool", "list").code == 0
    assert hosted.requests[1].headers["authorization"] == "Bearer acapi_new"
    assert api.requests == []


def test_api_use_keeps_the_tokens_of_other_apis(cli: Any, hosted: Any) -> None:
    cli.write(".token", "ghp_me")
    cli.write("api-tokens.json", '{"https://other": "acapi_other"}')
    hosted.on("POST", "/api-token", {"token": "acapi_new"})
    cli("api", "use", hosted.url)
    kept = {"https://other": "acapi_other", hosted.url: "acapi_new"}
    assert json.loads((cli.directory / "api-tokens.json").read_text()) == kept


@pytest.mark.req("CLI-001")
def test_api_use_local_goes_back(cli: Any, api: Any, hosted: Any) -> None:
    cli.write(".token", "ghp_me")
    hosted.on("POST", "/api-token", {"token": "acapi_new"})
    cli("api", "use", hosted.url)
    assert cli("api", "use", "local", "--json").json == {"url": api.url}
    assert (cli.directory / "api-url").read_text().strip() == api.url


def test_a_refused_sign_in_changes_nothing(cli: Any, api: Any, hosted: Any) -> None:
    cli.write(".token", "ghp_me")
    hosted.refuse("POST", "/api-token", 401, "UNAUTHORIZED", "GitHub doesn't know this token.")
    run = cli("api", "use", hosted.url)
    assert run == (1, "", f"{hosted.url} refused your GitHub sign-in: GitHub doesn't know this token.\n")
    assert (cli.directory / "api-url").read_text().strip() == api.url
    assert not (cli.directory / "api-tokens.json").exists()


def test_api_use_gives_a_hosted_api_time_to_come_back(cli: Any, hosted: Any) -> None:
    cli.write(".token", "ghp_me")
    again = refusal(503, "API_RESTARTING", "The API is restarting; try again in a moment.")
    hosted.on("POST", "/api-token", *[again] * 5, {"token": "acapi_new"})
    run = cli("api", "use", hosted.url)
    said = "The API is restarting; try again in a moment. Trying again.\n"
    assert run == (0, f"Commands go to {hosted.url}.\n", said)


def test_without_a_sign_in_api_use_tells_where_to_put_one(cli: Any, hosted: Any) -> None:
    run = cli("api", "use", hosted.url)
    assert run.code == 1
    assert run.err.startswith("No GitHub sign-in is here; run `anycloud login`, or put a GitHub token into ")
    assert hosted.requests == []


def test_the_sign_in_does_not_travel_in_clear(cli: Any) -> None:
    cli.write(".token", "ghp_me")
    run = cli("api", "use", "http://api.example.com")
    assert run == (1, "", "http://api.example.com isn't https, and your GitHub sign-in doesn't travel in clear.\n")


def test_a_directory_that_cannot_be_written_is_told(cli: Any, hosted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_me")
    hosted.on("POST", "/api-token", {"token": "acapi_new"})
    monkeypatch.setenv("ANYCLOUD_DIR", str(cli.directory / "api-url" / "below"))
    run = cli("api", "use", hosted.url)
    assert run.code == 1
    assert "Not a directory" in run.err


def test_a_hosted_api_that_restarts_is_given_ten_seconds_for_reads(cli: Any, hosted: Any) -> None:
    cli.write("api-url", hosted.url)
    cli.write("api-tokens.json", json.dumps({hosted.url: "acapi_x"}))
    hosted.refuse("GET", "/clusters", 503, "API_RESTARTING", "The API is restarting.")
    assert cli("cluster", "list") == (1, "", "The API is restarting. Trying again.\nThe API is restarting.\n")
    assert 5 < cli.clock.elapsed <= 10
    cli.clock.on_sleep = lambda: hosted.on("GET", "/clusters", CLUSTERS)
    assert cli("cluster", "list").code == 0


@pytest.mark.req("OPEN-021")
def test_a_write_is_not_repeated_after_an_answer(cli: Any, hosted: Any) -> None:
    cli.write("api-url", hosted.url)
    cli.write("api-tokens.json", json.dumps({hosted.url: "acapi_x"}))
    hosted.refuse("PUT", "/secrets/s", 503, "API_RESTARTING", "The API is restarting.")
    assert cli("secrets", "new", "s", "A=1") == (1, "", "The API is restarting.\n")
    assert len(hosted.requests) == 1


def test_a_write_that_nobody_saw_is_repeated(cli: Any, hosted: Any) -> None:
    cli.write("api-url", hosted.url)
    cli.write("api-tokens.json", json.dumps({hosted.url: "acapi_x"}))
    hosted.close()
    run = cli("secrets", "new", "s", "A=1")
    assert run.code == 1
    assert run.err.startswith(f"The API at {hosted.url} doesn't answer (connection refused)")
    assert 5 < cli.clock.elapsed <= 10


def test_a_local_api_with_a_live_supervisor_is_given_time_too(cli: Any, api: Any) -> None:
    cli.write("data/supervisor/state.json", json.dumps({"pid": os.getpid()}))
    api.refuse("GET", "/clusters", 503, "API_RESTARTING", "Restarting.")
    cli.clock.on_sleep = lambda: api.on("GET", "/clusters", CLUSTERS)
    assert cli("cluster", "list").code == 0

"""Whose token it is; refused and unavailable are never confused."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_common.github import GitHub, GitHubUser, Refused, Unavailable

from tests.support.sandbox import Sandbox
from tests.unit.outside.conftest import Outside

TOKEN = "gho_the-token"


async def test_the_sandbox_knows_its_tokens(sandbox: Sandbox) -> None:
    github = GitHub(f"{sandbox.url}/github")
    demo = await github.user("ghs_sandbox_demo")
    assert demo.login == "demo"
    assert (await github.user("ghs_sandbox_demo")).id == demo.id != (await github.user("ghs_sandbox_other")).id
    with pytest.raises(Refused):
        await github.user("gho_unknown")
    await github.close()


async def test_the_request_is_githubs(outside: Outside) -> None:
    outside.answer = (200, {"id": 7, "login": "octo", "name": "Octo"}, {})
    github = GitHub(outside.url)
    assert await github.user(TOKEN) == GitHubUser(7, "octo")
    seen = outside.seen[0]
    assert (seen.method, seen.path, seen.headers["Authorization"]) == ("GET", "/user", f"Bearer {TOKEN}")
    assert seen.headers["Accept"] == "application/vnd.github+json"
    assert seen.headers["User-Agent"] == "anycloud"
    await github.close()


@pytest.mark.parametrize(
    ("status", "body", "headers", "error"),
    [
        (401, {"message": "Bad credentials"}, {}, Refused),
        (403, {"message": "Resource not accessible by integration"}, {}, Refused),
        (403, {"message": "API rate limit exceeded"}, {"x-ratelimit-remaining": "0"}, Unavailable),
        (403, {"message": "secondary rate limit"}, {"retry-after": "60"}, Unavailable),
        (429, {"message": "slow down"}, {}, Unavailable),
        (500, {}, {}, Unavailable),
        (503, "<html>unicorn</html>", {}, Unavailable),
        (301, {}, {"location": "http://127.0.0.1:1/"}, Unavailable),
        (200, "<html>captive portal</html>", {}, Unavailable),
        (200, {"login": "octo"}, {}, Unavailable),
        (200, [], {}, Unavailable),
    ],
)
async def test_only_githubs_own_refusal_refuses_a_token(
    outside: Outside, status: int, body: Any, headers: dict[str, str], error: type[Exception]
) -> None:
    outside.answer = (status, body, headers)
    github = GitHub(outside.url)
    with pytest.raises(error) as caught:
        await github.user(TOKEN)
    assert TOKEN not in str(caught.value)
    await github.close()


async def test_a_github_that_is_down_is_unavailable() -> None:
    github = GitHub("http://127.0.0.1:1")
    with pytest.raises(Unavailable):
        await github.user(TOKEN)
    await github.close()


@pytest.mark.parametrize("token", ["a\r\nX-Evil: 1", "tök", "a\0b"])
async def test_a_token_that_fits_no_header_is_refused_unsent(outside: Outside, token: str) -> None:
    github = GitHub(outside.url)
    with pytest.raises(Refused):
        await github.user(token)
    assert outside.seen == []
    await github.close()

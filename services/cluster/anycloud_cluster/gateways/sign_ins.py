"""GitHub accounts, at GitHub or at what stands in for it."""

from __future__ import annotations

from urllib.parse import quote

from anycloud_common import github
from anycloud_common.github import GitHub
from anycloud_common.http_json import JsonClient, NoAnswer

from anycloud_cluster.domain.ports import GitHubAccount, OutsideError, SignInRefused

_SANDBOX_TOKEN = "ghs_sandbox_"  # noqa: S105 - before a login it makes that login's token in the sandbox


class GitHubSignIns:
    """Accounts of github.com."""

    def __init__(self, base_url: str = github.PUBLIC_URL) -> None:
        self._github = GitHub(base_url)
        self._http = JsonClient(base_url)

    async def account(self, token: str) -> GitHubAccount:
        try:
            user = await self._github.user(token)
        except github.Refused as error:
            raise SignInRefused(str(error)) from None
        except github.Unavailable as error:
            raise OutsideError("unreachable", str(error)) from None
        return GitHubAccount(str(user.id), user.login)

    async def find(self, login: str, token: str | None) -> GitHubAccount:
        headers = {"Accept": "application/vnd.github+json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        try:
            answer = await self._http.call("GET", f"/users/{quote(login, safe='')}", headers=headers)
        except NoAnswer as error:
            raise OutsideError("unreachable", f"GitHub can't be reached: {error}") from None
        if answer.status == 401:
            raise SignInRefused(answer.text("message") or "HTTP 401")
        if answer.status == 404:
            raise OutsideError("not_found", f"GitHub has no account {login}")
        body = answer.body if answer.ok and isinstance(answer.body, dict) else {}
        if not isinstance(body.get("id"), int) or not isinstance(body.get("login"), str):
            raise OutsideError("unreachable", f"GitHub answered {answer.status}: {answer.text('message') or 'no user'}")
        if body.get("type", "User") != "User":
            raise OutsideError("invalid", f"{login} is an {body['type']}, and only a user can be let in")
        return GitHubAccount(str(body["id"]), body["login"])

    async def close(self) -> None:
        await self._github.close()
        await self._http.close()


class SandboxSignIns(GitHubSignIns):
    """In the sandbox every login is an account."""

    def __init__(self, sandbox_url: str) -> None:
        super().__init__(f"{sandbox_url}/github")

    async def find(self, login: str, token: str | None) -> GitHubAccount:
        try:
            return await self.account(f"{_SANDBOX_TOKEN}{login}")
        except SignInRefused:
            raise OutsideError("not_found", f"GitHub has no account {login}") from None

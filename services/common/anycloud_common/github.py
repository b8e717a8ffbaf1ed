"""Who a GitHub token belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from anycloud_common.http_json import DEADLINE_S, Answer, JsonClient, NoAnswer

PUBLIC_URL = "https://api.github.com"


class Refused(Exception):
    """GitHub doesn't know the token, or the token may not say whose it is."""


class Unavailable(Exception):
    """GitHub gave no usable answer, or asks us to wait; nothing is known about the token."""


@dataclass(frozen=True)
class GitHubUser:
    """An account: `id` never changes and is its identity, `login` may be renamed."""

    id: int
    login: str


class GitHub:
    """GitHub's REST API, or what stands in for it at another base URL (no closing slash needed)."""

    def __init__(self, base_url: str = PUBLIC_URL, deadline_s: float = DEADLINE_S) -> None:
        self._http = JsonClient(base_url, deadline_s)

    async def user(self, token: str) -> GitHubUser:
        """The account of a token. Raises Refused or Unavailable; cache the answer by a hash of the token."""
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        if not token.isascii() or not token.isprintable():
            raise Refused("the GitHub token has characters that no token has")
        try:
            answer = await self._http.call("GET", "/user", headers=headers)
        except NoAnswer as error:
            raise Unavailable(f"GitHub can't be reached: {error}") from None
        if answer.status == 401 or (answer.status == 403 and not _limited(answer)):
            raise Refused(f"GitHub refused the token: {answer.text('message') or answer.status}")
        return _user(answer)

    async def close(self) -> None:
        await self._http.close()


def _limited(answer: Answer) -> bool:
    """A rate limit, which GitHub answers as 403 too."""
    return answer.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in answer.headers


def _user(answer: Answer) -> GitHubUser:
    body = answer.body if answer.ok and isinstance(answer.body, dict) else {}
    number, login = body.get("id"), body.get("login")
    if not isinstance(number, int) or not isinstance(login, str):
        raise Unavailable(f"GitHub answered {answer.status}: {answer.text('message') or 'no user'}")
    return GitHubUser(number, login)

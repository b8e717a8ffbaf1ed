"""A hosted API over HTTP, as the user."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from anycloud_common.http_json import Answer, JsonClient, NoAnswer

from anycloud_cluster.domain.ports import Fenced, Inventory, OutsideError, Referenced, SignInRefused

FENCE: Final = "AnyCloud-Installer-Delete"
WITHDRAW: Final = "AnyCloud-Installer-Withdraw"
BRIEF: Final = "AnyCloud-Installer"
_VERSION: Final = "AnyCloud-Client-Version"
_DEADLINE_S: Final = 5.0  # several calls fit into the time that the gateway gives a request
_ENDED: Final = "terminated"


class HttpHostedApi:
    def __init__(self, version: str) -> None:
        self._version = version

    async def exchange(self, url: str, github_token: str) -> str:
        answer = await self._call(url, "POST", "/v1/api-token", github_token, {BRIEF: "1"})
        if answer.status == 401:
            raise SignInRefused(_text(answer))
        if answer.status == 403:
            raise OutsideError("auth", _text(answer))
        token = answer.text("token")
        if not answer.ok or not token:
            raise _unusable(url, answer)
        return token

    async def served_version(self, url: str, token: str) -> str:
        answer = await self._call(url, "GET", "/v1/system-release", token)
        version = answer.text("servedVersion")
        if not answer.ok or not version:
            raise _unusable(url, answer)
        return version

    async def answers(self, url: str) -> bool:
        try:
            health = await self._call(url, "GET", "/healthz", None)
            refusal = await self._call(url, "GET", "/v1/system-release", None)
        except OutsideError:
            return False
        return health.ok and refusal.status == 401 and refusal.text("code") == "UNAUTHORIZED"

    async def fence(self, url: str, token: str, cluster_id: str, delete_id: str) -> Fenced | Referenced:
        answer = await self._delete(url, token, cluster_id, {FENCE: delete_id})
        if answer.ok:
            return Fenced()
        if answer.status == 409 and answer.text("code") == "CLUSTER_REFERENCED":
            return Referenced(answer.text("message"))
        raise _unusable(url, answer)

    async def withdraw(self, url: str, token: str, cluster_id: str, delete_id: str) -> None:
        answer = await self._delete(url, token, cluster_id, {WITHDRAW: delete_id})
        if not answer.ok:
            raise _unusable(url, answer)

    async def inventory(self, url: str, token: str) -> Inventory:
        pools = await self._list(url, token, "/v1/node-pools", "nodePools")
        deployments = await self._list(url, token, "/v1/deployments", "deployments")
        workloads = await self._list(url, token, "/v1/workloads?stateClass=active", None)
        return Inventory(
            node_pools=tuple(str(p["name"]) for p in pools if p.get("state") != _ENDED or p.get("releasing")),
            deployments=tuple(str(d["id"]) for d in deployments if d.get("state") != _ENDED),
            services=tuple(str(w["id"]) for w in workloads if w.get("deploymentId") is None),
        )

    async def _delete(self, url: str, token: str, cluster_id: str, headers: dict[str, str]) -> Answer:
        return await self._call(url, "DELETE", f"/v1/clusters/{quote(cluster_id)}", token, headers)

    async def _list(self, url: str, token: str, path: str, key: str | None) -> list[dict[str, Any]]:
        """The array of an answer: under a key, or the answer itself."""
        answer = await self._call(url, "GET", path, token)
        items = answer.body.get(key) if key is not None and isinstance(answer.body, dict) else answer.body
        if not answer.ok or not isinstance(items, list):
            raise _unusable(url, answer)
        return [item for item in items if isinstance(item, dict)]

    async def _call(
        self, url: str, method: str, path: str, token: str | None, headers: dict[str, str] | None = None
    ) -> Answer:
        """A client a call: an installer asks seldom, and of an address that changes from cluster to cluster."""
        sent = {_VERSION: self._version, **(headers or {})}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        client = JsonClient(url, _DEADLINE_S)
        try:
            return await client.call(method, path, headers=sent)
        except NoAnswer as error:
            raise OutsideError("unreachable", f"the API at {url} can't be reached: {error}") from None
        finally:
            await client.close()


def _text(answer: Answer) -> str:
    return answer.text("message") or f"HTTP {answer.status}"


def _unusable(url: str, answer: Answer) -> OutsideError:
    return OutsideError("unreachable", f"the API at {url} answered {answer.status}: {_text(answer)}")

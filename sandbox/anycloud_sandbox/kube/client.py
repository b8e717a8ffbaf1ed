"""A client of the Kubernetes API for the sandbox's own parts: the node agent, the chart player, `kubectl` over SSH."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import orjson

from anycloud_sandbox.kube.resources import RESOURCES, KubeError
from anycloud_sandbox.state import Json

MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
TIMEOUT = aiohttp.ClientTimeout(total=10)


def path_of(plural: str, namespace: str = "", name: str = "", sub: str = "") -> str:
    resource = RESOURCES[plural]
    parts = ["apis" if resource.group else "api", resource.api_version]
    parts += ["namespaces", namespace] if resource.namespaced and namespace else []
    return "/" + "/".join([*parts, plural, *filter(None, (name, sub))])


class KubeClient:
    """Raises KubeError for every answer that is not a success, with code 0 when there was none."""

    def __init__(self, endpoint: str, tls: ssl.SSLContext, headers: Mapping[str, str] | None = None) -> None:
        self._endpoint = endpoint
        connector = aiohttp.TCPConnector(ssl=tls, limit=0, keepalive_timeout=3000)
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, timeout=TIMEOUT)

    async def call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
        **params: Any,
    ) -> Json:
        data = orjson.dumps(body) if body is not None else None
        every = {"Content-Type": kind, **(headers or {})} if data else headers
        try:
            async with self._session.request(
                method, self._endpoint + path, data=data, headers=every, params=params
            ) as answer:
                raw = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise KubeError(0, "Unreachable", str(error) or type(error).__name__) from error
        document: Json = orjson.loads(raw) if answer.content_type == "application/json" else {"text": raw.decode()}
        if answer.status >= 400:
            raise KubeError(answer.status, document.get("reason", ""), document.get("message", ""))
        return document

    async def find(self, path: str) -> Json | None:
        try:
            return await self.call("GET", path)
        except KubeError as error:
            if error.code == 404:
                return None
            raise

    async def apply(self, plural: str, namespace: str, body: Json, manager: str) -> Json:
        path = path_of(plural, namespace, body["metadata"]["name"])
        full = {"apiVersion": RESOURCES[plural].api_version, "kind": RESOURCES[plural].kind, **body}
        return await self.call("PATCH", path, full, APPLY, fieldManager=manager, force="true")

    async def delete(self, plural: str, namespace: str, name: str, **options: Any) -> None:
        """Removes what may be gone already."""
        try:
            await self.call("DELETE", path_of(plural, namespace, name), options)
        except KubeError as error:
            if error.code not in (404, 409):
                raise

    async def follow(self, path: str, **params: Any) -> AsyncIterator[Json]:
        """List, then watch, for ever, over one selection: SYNC events with all `items`, and each change between.

        Ends (to be called again by the caller, who waits as it likes) when the connection or the history is lost.
        """
        found = await self.call("GET", path, **params)
        yield {"type": "SYNC", "items": found["items"]}
        params |= {"watch": "true", "resourceVersion": found["metadata"]["resourceVersion"]}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        try:
            async with self._session.get(self._endpoint + path, params=params, timeout=timeout) as answer:
                while line := await answer.content.readline():
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        return
                    yield event
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise KubeError(0, "Unreachable", str(error) or type(error).__name__) from error

    async def close(self) -> None:
        await self._session.close()

"""A client of the Kubernetes API for the sandbox's own parts: the node agent, the chart player, `kubectl` over SSH."""

import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import orjson

from anycloud_sandbox.kube.store import PLURALS, RESOURCES, KubeError
from anycloud_sandbox.state import Json

UNREACHABLE = (aiohttp.ClientError, TimeoutError)


def path_of(plural: str, namespace: str = "", *names: str) -> str:
    resource = RESOURCES[plural]
    root = f"/{'apis' if '/' in resource.api_version else 'api'}/{resource.api_version}"
    place = f"/namespaces/{namespace}" if resource.scope == "namespaced" and namespace else ""
    return "/".join([root + place, plural, *names])


class KubeClient:
    """Raises KubeError for every answer that is not a success, with code 0 when there was none."""

    def __init__(self, endpoint: str, ca: str, pem: str = "", headers: Mapping[str, str] | None = None) -> None:
        """Trusts the CA; signs in by the certificate and key in the file `pem`, or by headers."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.load_verify_locations(cadata=ca)
        if pem:
            tls.load_cert_chain(pem)
        connector = aiohttp.TCPConnector(ssl=tls, limit=0, keepalive_timeout=3000)
        timeout = aiohttp.ClientTimeout(total=10, sock_connect=10)
        self._session = aiohttp.ClientSession(endpoint, connector=connector, headers=headers, timeout=timeout)
        self.close = self._session.close

    async def call(self, method: str, path: str, body: Json | None = None, kind: str = "json", **options: Any) -> Json:
        """`kind` is that of the body: json, merge-patch+json, apply-patch+yaml; `options` are aiohttp's."""
        options["headers"] = {"Content-Type": f"application/{kind}", **options.get("headers", {})}
        try:
            async with self._session.request(method, path, data=orjson.dumps(body), **options) as answer:
                raw = await answer.read()
        except UNREACHABLE as error:
            raise KubeError(0, "Unreachable", f"{error!r}") from error
        document: Json = orjson.loads(raw) if answer.content_type == "application/json" else {"text": raw.decode()}
        if answer.status >= 400:
            raise KubeError(answer.status, document.get("reason", ""), document.get("message", ""))
        return document

    async def patch(self, path: str, body: Json) -> Json:
        return await self.call("PATCH", path, body, "merge-patch+json")

    async def apply(self, body: Json, manager: str) -> Json:
        """Server-side apply of a whole manifest, in `default` where it names no namespace."""
        path = path_of(PLURALS[body["kind"]], body["metadata"].get("namespace", "default"), body["metadata"]["name"])
        params = {"fieldManager": manager, "force": "true"}
        return await self.call("PATCH", path, body, "apply-patch+yaml", params=params)

    async def find(self, path: str) -> Json | None:
        try:
            return await self.call("GET", path)
        except KubeError as error:
            if error.code != 404:
                raise
        return None

    async def ensure(self, path: str, body: Json) -> Json:
        """The object of that name in a collection, made now or before."""
        try:
            return await self.call("POST", path, body)
        except KubeError as error:
            if error.code != 409:
                raise
        return await self.call("GET", f"{path}/{body['metadata']['name']}")

    async def delete(self, path: str, **options: Any) -> None:
        """Removes what may be gone already, or be another by now."""
        try:
            await self.call("DELETE", path, options)
        except KubeError as error:
            if error.code not in (404, 409):
                raise

    async def follow(self, path: str, **params: str) -> AsyncIterator[Json]:
        """List, then watch: one SYNC event with all `items`, then each change, until the connection is lost."""
        found = await self.call("GET", path, params=params)
        yield {"type": "SYNC", "items": found["items"]}
        params |= {"watch": "true", "resourceVersion": found["metadata"]["resourceVersion"]}
        try:
            async with self._session.get(path, params=params, timeout=aiohttp.ClientTimeout(total=None)) as answer:
                while (line := await answer.content.readline()) and (event := orjson.loads(line))["type"] != "ERROR":
                    yield event
        except (*UNREACHABLE, ValueError) as error:
            raise KubeError(0, "Unreachable", f"{error!r}") from error

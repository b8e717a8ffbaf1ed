"""Buckets of the sandbox's clouds and the objects in them."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from anycloud_providers.protocol import Bucket, Content, StoredObject
from anycloud_providers.sandbox.calls import Calls, Json


class SandboxBuckets:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def create(self, name: str, region: str, tags: Mapping[str, str]) -> Bucket:
        body = {"name": name, "region": region, "tags": dict(tags)}
        return await self._calls.call("objects", "CreateBucket", body, _bucket)

    async def head(self, name: str) -> Bucket:
        return await self._calls.call("objects", "HeadBucket", {"name": name}, _bucket)

    async def set_versioning(self, name: str, *, enabled: bool) -> Bucket:
        await self._calls.call("objects", "SetVersioning", {"name": name, "enabled": enabled}, lambda _: None)
        return await self.head(name)

    async def delete(self, name: str) -> None:
        await self._calls.delete("objects", "DeleteBucket", {"name": name})


class SandboxObjects:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def put(
        self, bucket: str, key: str, data: bytes, *, if_match: str | None = None, if_absent: bool = False
    ) -> StoredObject:
        body: Json = {"bucket": bucket, "key": key, "data": base64.b64encode(data).decode()}
        if if_match is not None:
            body["ifMatch"] = if_match
        if if_absent:
            body["ifNoneMatch"] = "*"
        return await self._calls.call(
            "objects",
            "PutObject",
            body,
            lambda answer: StoredObject(key, answer["version"], answer["etag"], len(data), latest=True),
        )

    async def get(self, bucket: str, key: str, version: str | None = None) -> Content:
        body = {"bucket": bucket, "key": key} | ({"version": version} if version else {})
        return await self._calls.call("objects", "GetObject", body, _content)

    async def list(self, bucket: str, prefix: str = "") -> Sequence[StoredObject]:
        body = {"bucket": bucket, "prefix": prefix}
        return await self._calls.call("objects", "ListObjects", body, lambda answer: _stored(answer["objects"]))

    async def list_versions(self, bucket: str, prefix: str = "") -> Sequence[StoredObject]:
        body = {"bucket": bucket, "prefix": prefix}
        return await self._calls.call("objects", "ListVersions", body, lambda answer: _stored(answer["versions"]))

    async def delete_version(self, bucket: str, key: str, version: str) -> None:
        body = {"bucket": bucket, "key": key, "version": version}
        await self._calls.call("objects", "DeleteVersion", body, lambda _: None)


def _bucket(answer: Json) -> Bucket:
    item = answer["bucket"]
    return Bucket(item["name"], item["region"], item["tags"], item["versioning"], item["managed"])


def _content(answer: Json) -> Content:
    return Content(base64.b64decode(answer["data"], validate=True), answer["etag"], answer["version"])


def _stored(items: Sequence[Json]) -> Sequence[StoredObject]:
    return [StoredObject(item["key"], item["version"], item["etag"], item["size"], item["latest"]) for item in items]

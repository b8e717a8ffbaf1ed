"""Buckets with versions and conditional writes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets

from anycloud_sandbox.faults import WorldError
from anycloud_sandbox.state import Json, State


class Buckets:
    """Names are a provider's own; an object's versions are listed newest first."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._buckets = state.load("buckets")
        self._objects: dict[str, dict[str, list[Json]]] = {}
        for document in state.load("objects").values():
            self._objects.setdefault(document["bucket"], {})[document["key"]] = document["versions"]

    def call(self, provider: str, action: str, account: str, body: Json) -> Json:
        name = body.get("name") or body.get("bucket") or ""
        place = f"{provider}/{name}"
        if action == "CreateBucket":
            return self._create(place, account, body)
        bucket = self._buckets.get(place)
        if bucket is None:
            raise WorldError("not_found", f"no bucket {name}")
        if bucket["account"] != account:
            raise WorldError("auth", f"access to bucket {name} is denied")
        return getattr(self, "_" + ACTIONS[action])(place, bucket, body)  # type: ignore[no-any-return]

    def _create(self, place: str, account: str, body: Json) -> Json:
        tags = body.get("tags") or {}
        bucket = {"name": body["name"], "region": body["region"], "tags": tags, "account": account}
        bucket |= {"versioning": False, "managed": bool(tags)}
        found = self._buckets.setdefault(place, bucket)
        if any(found[name] != bucket[name] for name in ("account", "region", "tags")):
            raise WorldError("conflict", f"bucket {body['name']} exists")
        self._state.put("buckets", place, found)
        return self._head(place, found, body)

    def _head(self, place: str, bucket: Json, body: Json) -> Json:
        return {"bucket": {name: value for name, value in bucket.items() if name != "account"}}

    def _delete(self, place: str, bucket: Json, body: Json) -> Json:
        if self._objects.get(place):
            raise WorldError("conflict", f"bucket {bucket['name']} is not empty")
        del self._buckets[place]
        self._state.put("buckets", place, None)
        return {}

    def _set_versioning(self, place: str, bucket: Json, body: Json) -> Json:
        bucket["versioning"] = bool(body["enabled"])
        self._state.put("buckets", place, bucket)
        return self._head(place, bucket, body)

    def _put_object(self, place: str, bucket: Json, body: Json) -> Json:
        versions = self._objects.get(place, {}).get(body["key"], [])
        current = versions[0]["etag"] if versions else None
        if body.get("ifNoneMatch") and current:
            raise WorldError("conflict", f"{body['key']} exists")
        if body.get("ifMatch") and body["ifMatch"] != current:
            raise WorldError("conflict", f"{body['key']} has changed")
        try:
            raw = base64.b64decode(body["data"], validate=True)
        except binascii.Error as error:
            raise WorldError("invalid", "data must be base64") from error
        new = {"version": secrets.token_hex(8), "etag": hashlib.sha256(raw).hexdigest(), "data": body["data"]}
        self._keep(place, body["key"], [new, *(versions if bucket["versioning"] else [])])
        return {"etag": new["etag"], "version": new["version"]}

    def _get_object(self, place: str, bucket: Json, body: Json) -> Json:
        for version in self._objects.get(place, {}).get(body["key"], []):
            if body.get("version") in (None, version["version"]):
                return version
        raise WorldError("not_found", f"no object {body['key']} in bucket {bucket['name']}")

    def _list_objects(self, place: str, bucket: Json, body: Json) -> Json:
        return {"objects": [_line(key, versions[0], True) for key, versions in self._under(place, body)]}

    def _list_versions(self, place: str, bucket: Json, body: Json) -> Json:
        found = self._under(place, body)
        return {"versions": [_line(key, item, item is all_[0]) for key, all_ in found for item in all_]}

    def _delete_version(self, place: str, bucket: Json, body: Json) -> Json:
        versions = self._objects.get(place, {}).get(body["key"], [])
        self._keep(place, body["key"], [item for item in versions if item["version"] != body["version"]])
        return {}

    def _under(self, place: str, body: Json) -> list[tuple[str, list[Json]]]:
        prefix = body.get("prefix") or ""
        return sorted(item for item in self._objects.get(place, {}).items() if item[0].startswith(prefix))

    def _keep(self, place: str, key: str, versions: list[Json]) -> None:
        inside = self._objects.setdefault(place, {})
        document = {"bucket": place, "key": key, "versions": versions}
        if versions:
            inside[key] = versions
        else:
            inside.pop(key, None)
        self._state.put("objects", f"{place}/{key}", document if versions else None)


def _line(key: str, version: Json, latest: bool) -> Json:
    size = len(base64.b64decode(version["data"]))
    return {"key": key, "etag": version["etag"], "version": version["version"], "size": size, "latest": latest}


ACTIONS = {
    "HeadBucket": "head",
    "DeleteBucket": "delete",
    "SetVersioning": "set_versioning",
    "PutObject": "put_object",
    "GetObject": "get_object",
    "ListObjects": "list_objects",
    "ListVersions": "list_versions",
    "DeleteVersion": "delete_version",
}

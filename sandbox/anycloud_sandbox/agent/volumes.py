"""What a container sees: files of its volumes, its environment, and its own paths in both."""

from __future__ import annotations

import base64
import os
import re
import time
from pathlib import Path

from anycloud_sandbox.kube.client import KubeClient, path_of
from anycloud_sandbox.kube.resources import KubeError, dig, seconds_of
from anycloud_sandbox.state import Json

_ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


class ConfigError(Exception):
    """A Secret, ConfigMap or key that a container names is not there (yet)."""


class Volumes:
    """Of one Pod, below `folder`; claims live beside the machine's Pods and outlive them."""

    def __init__(self, client: KubeClient, pod: Json, folder: Path, machine: Path) -> None:
        self._client, self._pod, self._folder, self._machine = client, pod, folder, machine
        self._namespace: str = pod["metadata"]["namespace"]
        self.renew_at = float("inf")  # when the first token is due, in seconds since the epoch

    async def prepare(self, rotate_after: float) -> None:
        """Makes all volumes; called again it renews what is projected."""
        self.renew_at = float("inf")
        for volume in self._pod["spec"].get("volumes") or []:
            folder = self._place(volume)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path, data in (await self._files(volume, rotate_after)).items():
                _write(folder / path, data)

    def mount(self, container: Json, root: Path) -> None:
        volumes = {volume["name"]: self._place(volume) for volume in self._pod["spec"].get("volumes") or []}
        for mount in container.get("volumeMounts") or []:
            link = root / mount["mountPath"].lstrip("/")
            link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(volumes[mount["name"]] / mount.get("subPath", ""))

    def _place(self, volume: Json) -> Path:
        if claim := dig(volume, "persistentVolumeClaim.claimName"):
            return self._machine / "volumes" / f"{self._namespace}_{claim}"
        if host := dig(volume, "hostPath.path"):
            return self._machine / "rootfs" / str(host).lstrip("/")
        return self._folder / str(volume["name"])

    async def _files(self, volume: Json, rotate_after: float) -> dict[str, bytes]:
        sources = dig(volume, "projected.sources") or [volume]
        files: dict[str, bytes] = {}
        for source in sources:
            if token := source.get("serviceAccountToken"):
                files[token["path"]] = await self._token(token, rotate_after)
            elif "downwardAPI" in source:
                for item in source["downwardAPI"]["items"]:
                    files[item["path"]] = str(dig(self._pod, item["fieldRef"]["fieldPath"])).encode()
            for kind, field in (("secret", "secretName"), ("configMap", "name")):
                if about := source.get(kind):
                    data = await self.data(kind, about.get("name") or about[field], about.get("optional", False))
                    items = about.get("items") or [{"key": key, "path": key} for key in data]
                    files |= {item["path"]: data[item["key"]] for item in items}
        return files

    async def _token(self, source: Json, rotate_after: float) -> bytes:
        meta = self._pod["metadata"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
        spec: Json = {"expirationSeconds": source.get("expirationSeconds", 3600), "boundObjectRef": bound}
        if source.get("audience"):
            spec["audiences"] = [source["audience"]]
        path = path_of("serviceaccounts", self._namespace, self._pod["spec"]["serviceAccountName"], "token")
        status = (await self._client.call("POST", path, {"spec": spec}))["status"]
        now = time.time()
        self.renew_at = min(self.renew_at, now + (seconds_of(status["expirationTimestamp"]) - now) * rotate_after)
        return str(status["token"]).encode()

    async def data(self, kind: str, name: str, optional: bool = False) -> dict[str, bytes]:
        """What a Secret or ConfigMap holds."""
        plural = {"secret": "secrets", "configMap": "configmaps"}[kind]
        found = await self._client.find(path_of(plural, self._namespace, name))
        if found is None and not optional:
            raise ConfigError(f'{kind.lower()} "{name}" not found')
        data = (found or {}).get("data") or {}
        return {key: base64.b64decode(text) if kind == "secret" else text.encode() for key, text in data.items()}

    async def environment(self, container: Json) -> dict[str, str]:
        """`envFrom` in order, the later wins; `env` wins over all of it."""
        env: dict[str, str] = {}
        for source in container.get("envFrom") or []:
            kind = "secret" if "secretRef" in source else "configMap"
            ref = source[f"{kind}Ref"]
            for key, value in (await self.data(kind, ref["name"], ref.get("optional", False))).items():
                if _ENV_NAME.fullmatch(source.get("prefix", "") + key):
                    env[source.get("prefix", "") + key] = value.decode()
        for item in container.get("env") or []:
            value = item.get("value", "") if "valueFrom" not in item else await self._value_from(item["valueFrom"])
            if value is not None:
                env[item["name"]] = value
        return env

    async def _value_from(self, source: Json) -> str | None:
        if "fieldRef" in source:
            return str(dig(self._pod, source["fieldRef"]["fieldPath"]))
        kind = "secret" if "secretKeyRef" in source else "configMap"
        ref = source[f"{kind}KeyRef"]
        data = await self.data(kind, ref["name"], ref.get("optional", False))
        if ref["key"] in data:
            return data[ref["key"]].decode()
        if ref.get("optional"):
            return None
        raise ConfigError(f"couldn't find key {ref['key']} in {kind} {self._namespace}/{ref['name']}")


def own_path(text: str, container: Json, root: Path) -> str:
    """A value that is a mount path, or lies below one, as it is here."""
    for mount in container.get("volumeMounts") or []:
        path = mount["mountPath"].rstrip("/")
        if text == path or text.startswith(path + "/"):
            return str(root / text.lstrip("/"))
    return text


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all: a reader sees the old token or the new one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    new.rename(path)


__all__ = ["ConfigError", "KubeError", "Volumes", "own_path"]

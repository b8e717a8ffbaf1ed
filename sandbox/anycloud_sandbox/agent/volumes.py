"""What a container sees: files of its volumes, its environment, and its own paths in both."""

import base64
import os
import time
from pathlib import Path

from anycloud_sandbox.kube.client import KubeClient, path_of
from anycloud_sandbox.kube.objects import dig, seconds_of
from anycloud_sandbox.state import Json


class ConfigError(Exception):
    """A Secret, ConfigMap or key that a container names is not there (yet)."""


class Volumes:
    """Of one Pod, below `folder`; claims live beside the machine's Pods and outlive them."""

    renew_at: float | None = None  # when the first token is due, in seconds since the epoch; None before `prepare`

    def __init__(self, client: KubeClient, pod: Json, folder: Path, machine: Path) -> None:
        self._client, self._pod, self._folder, self._machine = client, pod, folder, machine
        self._volumes: list[Json] = pod["spec"].get("volumes") or []

    async def prepare(self, rotate_after: float) -> None:
        """Makes all volumes; called again it renews what is projected."""
        renew_at = float("inf")
        for volume in self._volumes:
            self._place(volume).mkdir(mode=0o700, parents=True, exist_ok=True)
            for source in dig(volume, "projected.sources") or [volume]:
                files = await self._files(source)
                if token := source.get("serviceAccountToken"):
                    status = await self._token(token)
                    files = {token["path"]: status["token"].encode()}
                    life = seconds_of(status["expirationTimestamp"]) - time.time()
                    renew_at = min(renew_at, time.time() + life * rotate_after)
                for name, data in files.items():
                    _write(self._place(volume) / name, data)
        self.renew_at = renew_at

    def mount(self, container: Json, root: Path) -> None:
        places = {volume["name"]: self._place(volume) for volume in self._volumes}
        for mount in container.get("volumeMounts") or []:
            link = root / mount["mountPath"].lstrip("/")
            link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(places[mount["name"]] / mount.get("subPath", ""))

    def _place(self, volume: Json) -> Path:
        if claim := dig(volume, "persistentVolumeClaim.claimName"):
            return self._machine / "volumes" / f"{self._pod['metadata']['namespace']}_{claim}"
        host: str | None = dig(volume, "hostPath.path")
        return self._machine / "rootfs" / host.lstrip("/") if host else self._folder / volume["name"]

    async def _files(self, source: Json) -> dict[str, bytes]:
        if about := source.get("downwardAPI"):
            return {
                item["path"]: str(dig(self._pod, item["fieldRef"]["fieldPath"])).encode() for item in about["items"]
            }
        for kind in ("secret", "configMap"):
            if about := source.get(kind):
                data = await self._data(kind, about.get("secretName") or about["name"], about)
                names = {item["key"]: item["path"] for item in about.get("items") or []} or {key: key for key in data}
                return {path: data[key] for key, path in names.items()}
        return {}

    async def _token(self, source: Json) -> Json:
        meta, spec = self._pod["metadata"], self._pod["spec"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
        asked: Json = {"expirationSeconds": source.get("expirationSeconds", 3600), "boundObjectRef": bound}
        asked |= {"audiences": [source["audience"]]} if "audience" in source else {}
        path = path_of("serviceaccounts", meta["namespace"], spec["serviceAccountName"], "token")
        return dict((await self._client.call("POST", path, {"spec": asked}))["status"])

    async def _data(self, kind: str, name: str, ref: Json) -> dict[str, bytes]:
        """What a Secret or ConfigMap holds."""
        path = path_of("secrets" if kind == "secret" else "configmaps", self._pod["metadata"]["namespace"], name)
        found = await self._client.find(path)
        if found is None and not ref.get("optional"):
            raise ConfigError(f'{kind.lower()} "{name}" not found')
        data = (found or {}).get("data") or {}
        return {key: base64.b64decode(text) if kind == "secret" else text.encode() for key, text in data.items()}

    async def environment(self, container: Json) -> dict[str, str]:
        """`envFrom` in order, the later wins; `env` wins over all of it."""
        env: dict[str, str] = {}
        for source in container.get("envFrom") or []:
            ((name, ref),) = ((key, value) for key, value in source.items() if key.endswith("Ref"))
            data = await self._data(name.removesuffix("Ref"), ref["name"], ref)
            env |= {key: value.decode() for key, value in data.items()}
        for item in container.get("env") or []:
            source = item.get("valueFrom") or {}
            if "fieldRef" in source:
                env[item["name"]] = str(dig(self._pod, source["fieldRef"]["fieldPath"]))
            elif ref := source.get("secretKeyRef"):
                data = await self._data("secret", ref["name"], ref)
                if ref["key"] in data:
                    env[item["name"]] = data[ref["key"]].decode()
                elif not ref.get("optional"):
                    raise ConfigError(f"couldn't find key {ref['key']} in Secret {ref['name']}")
            else:
                env[item["name"]] = item.get("value", "")
        return env


def own_path(text: str, container: Json, root: Path) -> str:
    """A value that is a mount path, or lies below one, as it is here."""
    paths = [mount["mountPath"].rstrip("/") for mount in container.get("volumeMounts") or []]
    return str(root / text.lstrip("/")) if any(text == path or text.startswith(path + "/") for path in paths) else text


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all: a reader sees the old token or the new one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    new.rename(path)

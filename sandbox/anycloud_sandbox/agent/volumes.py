"""What containers see: a Pod's volumes as directories, and the environment, arguments and paths of each container."""

import asyncio
import base64
import hashlib
import os
import re
import shutil
import time
from pathlib import Path

from anycloud_sandbox.kube.client import KubeClient, path_of
from anycloud_sandbox.kube.store import dig, seconds_of
from anycloud_sandbox.state import Json

LOOPBACK = "127.0.0.1"
REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


class ConfigError(Exception):
    """A Secret, ConfigMap or key that a container names is not there (yet)."""


class Volumes:
    """Of one Pod, below `folder`; claims and host paths live beside the machine's Pods and outlive them."""

    renew_at: float | None = None  # when the first token is due, in seconds since the epoch; None before `prepare`

    def __init__(self, client: KubeClient, pod: Json, folder: Path, machine: Path, address: str) -> None:
        self._client, self._pod, self._folder, self._machine = client, pod, folder, machine
        self._address, self._places, self._lock = address, dict[str, Path](), asyncio.Lock()
        self.root = folder / "rootfs"

    async def ensure(self, rotate_after: float) -> None:
        async with self._lock:
            if self.renew_at is None:
                await self.prepare(rotate_after)

    async def prepare(self, rotate_after: float) -> None:
        """Makes all volumes and mounts them; called again it renews what is projected."""
        renew_at, spec = float("inf"), self._pod["spec"]
        for volume in spec.get("volumes") or []:
            place = self._places[volume["name"]] = await self._place(volume)
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            for source in dig(volume, "projected.sources") or [volume]:
                files = await self._files(source)
                if token := source.get("serviceAccountToken"):
                    status = await self._token(token)
                    files = {token["path"]: status["token"].encode()}
                    life = seconds_of(status["expirationTimestamp"]) - time.time()
                    renew_at = min(renew_at, time.time() + life * rotate_after)
                for name, data in files.items():
                    _write(place / name, data)
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for container in (*(spec.get("initContainers") or []), *spec["containers"]):
            for path, place in self._mounts(container).items():
                link = self.root / path.lstrip("/")
                link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                if not link.is_symlink():
                    link.symlink_to(place)
        self.renew_at = renew_at

    async def _place(self, volume: Json) -> Path:
        here: Path = self._folder / "volumes" / volume["name"]
        host: str | None = dig(volume, "hostPath.path")
        if claim := dig(volume, "persistentVolumeClaim.claimName"):
            namespace = self._pod["metadata"]["namespace"]
            found = await self._client.find(path_of("persistentvolumeclaims", namespace, claim))
            name = dig(found or {}, "spec.volumeName")
            behind = await self._client.find(path_of("persistentvolumes", "", name)) if name else None
            here, host = self._machine / "volumes" / f"{namespace}_{claim}", dig(behind or {}, "spec.hostPath.path")
        if dig(volume, "emptyDir.medium") == "Memory":
            return _in_memory(here)
        return self._machine / "rootfs" / host.lstrip("/") if host else here

    def _mounts(self, container: Json) -> dict[str, Path]:
        """Where each mount path of a container really is."""
        found = container.get("volumeMounts") or []
        return {it["mountPath"].rstrip("/"): self._places[it["name"]] / it.get("subPath", "") for it in found}

    async def _files(self, source: Json) -> dict[str, bytes]:
        if about := source.get("downwardAPI"):
            return {item["path"]: self._field(item["fieldRef"]["fieldPath"]).encode() for item in about["items"]}
        for kind in ("secret", "configMap"):
            if about := source.get(kind):
                data = await self._data(kind, about.get("secretName") or about["name"], about)
                names = {item["key"]: item["path"] for item in about.get("items") or []} or {key: key for key in data}
                return {path: data[key] for key, path in names.items() if key in data or not about.get("optional")}
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
        """`envFrom` in order, the later wins; `env` wins over all of it, and may name what came before."""
        env: dict[str, str] = {}
        for source in container.get("envFrom") or []:
            ((name, ref),) = ((key, value) for key, value in source.items() if key.endswith("Ref"))
            env |= {key: value.decode() for key, value in (await self._data(name[:-3], ref["name"], ref)).items()}
        for item in container.get("env") or []:
            source = item.get("valueFrom") or {}
            if "fieldRef" in source:
                env[item["name"]] = self._field(source["fieldRef"]["fieldPath"])
            elif ref := source.get("secretKeyRef"):
                data = await self._data("secret", ref["name"], ref)
                if ref["key"] not in data and not ref.get("optional"):
                    raise ConfigError(f"couldn't find key {ref['key']} in Secret {ref['name']}")
                env |= {item["name"]: data[ref["key"]].decode()} if ref["key"] in data else {}
            else:
                env[item["name"]] = expanded(item.get("value", ""), env)
        return env

    def _field(self, path: str) -> str:
        return self._address if path in ("status.podIP", "status.hostIP") else str(dig(self._pod, path))

    def own(self, container: Json, text: str) -> str:
        """A value that is a mount path, or lies below one, as it is here; the machine's own loopback is its address."""
        mounts = self._mounts(container)
        for path in sorted(mounts, key=len, reverse=True):
            if text == path or text.startswith(path + "/"):
                return str(mounts[path]) + text.removeprefix(path)
        return self._address if text == LOOPBACK and self._pod["spec"].get("hostNetwork") else text


def expanded(text: str, env: dict[str, str]) -> str:
    """$(NAME) as its value, if it has one; $$ as $."""
    return REFERENCE.sub(lambda found: "$" if found[1] else env.get(found[2], found[0]), text)


def forget(folder: Path, pod: str = "*") -> None:
    """What a machine's Pods (or one of them) have in memory."""
    for link in folder.glob(f"pods/{pod}/volumes/*"):
        if link.is_symlink():
            shutil.rmtree(link.resolve(), ignore_errors=True)


def _in_memory(link: Path) -> Path:
    """A directory in memory (with a short path, as those of sockets must be), found by a link for whoever cleans up."""
    parent = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp")  # noqa: S108  (mode and owner are looked at)
    base = parent / f"anycloud-sandbox-{os.getuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    if base.stat().st_uid != os.getuid() or base.is_symlink():
        raise PermissionError(f"{base} is somebody else's")
    place = base / hashlib.sha256(bytes(link)).hexdigest()[:12]
    link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(place)
    return place


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all: a reader sees the old token or the new one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.touch(mode=0o600)
    new.write_bytes(data)
    new.rename(path)

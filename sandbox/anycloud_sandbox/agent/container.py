"""Containers as processes (started under a shim, found again after the agent was killed), and what they see."""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from anycloud_sandbox.agent import shim
from anycloud_sandbox.kube.client import KubeClient, path_of
from anycloud_sandbox.kube.store import dig, seconds_of
from anycloud_sandbox.state import Json

LOG_BYTES = 1 << 20
MARK = "ANYCLOUD_SANDBOX_RUN"  # in the environment of every process of a container: its run's directory


class Run:
    """One run of a container: its number, directory, and the shim that keeps it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, int(folder.name)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, pod_uid: str, image: str, argv: list[str], env: dict[str, str], cwd: Path) -> None:
        """The shim is recorded before it is told what to start: no command runs that no record names."""
        self.folder.mkdir(mode=0o700, parents=True)
        command = [sys.executable, "-I", "-S", shim.__file__, str(self.folder)]
        env = env | {MARK: str(self.folder)}
        with (self.folder / "shim.err").open("wb") as err:
            self._process = subprocess.Popen(  # noqa: S603
                command, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=err, stderr=err, start_new_session=True
            )
        record: Json = {"pid": self._process.pid, "startTime": _start_time(self._process.pid)}
        record |= {"podUid": pod_uid, "image": image}
        (self.folder / "shim.json").write_text(json.dumps(record))
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"argv": argv, "logBytes": LOG_BYTES}).encode() + b"\n")
        self._process.stdin.close()

    @property
    def pid(self) -> int:
        """Of the shim while it lives, else 0; a number that was given to another process since does not count."""
        record = _read(self.folder / "shim.json") or {"pid": 0, "startTime": 0}
        return int(record["pid"]) if _start_time(record["pid"]) == record["startTime"] else 0

    @property
    def image(self) -> str:
        """The pinned reference that it was started from."""
        return str((_read(self.folder / "shim.json") or {}).get("image", ""))

    @property
    def exit(self) -> Json | None:
        """How it ended; 137 when its keeper was killed with it. None while it runs."""
        if (found := _read(self.folder / "exit.json")) or self.pid:
            return found
        lost = {"exitCode": 137, "startedAt": self.started_at, "finishedAt": self.started_at}
        return _read(self.folder / "exit.json") or lost  # it may have ended between the two looks

    @property
    def started_at(self) -> float:
        return (self.folder / "shim.json").stat().st_mtime

    def signal(self, number: int) -> None:
        if pid := self.pid:
            os.kill(pid, number)

    async def wait(self) -> Json:
        if pid := self.pid:
            descriptor, ended = os.pidfd_open(pid), asyncio.Event()
            asyncio.get_running_loop().add_reader(descriptor, ended.set)
            try:
                await ended.wait()
            finally:
                asyncio.get_running_loop().remove_reader(descriptor)
                os.close(descriptor)
        if self._process:
            self._process.wait()
        if not (self.folder / "exit.json").exists():
            await asyncio.to_thread(_end_all, self.folder)
        return self.exit or {}


def runs_in(folder: Path) -> list[Run]:
    """Of one container, oldest first."""
    return sorted((Run(path.parent) for path in folder.glob("*/shim.json")), key=lambda run: run.number)


def next_run(folder: Path) -> Run:
    """Not started yet; the last two runs keep their logs."""
    found = runs_in(folder)
    for old in found[:-1]:
        shutil.rmtree(old.folder)
    return Run(folder / str(found[-1].number + 1 if found else 0))


def kill_everything(machine: Path, pod: str = "*", number: int = signal.SIGUSR1) -> None:
    """Power cut: every container that is recorded on a machine (or of one Pod) ends now."""
    for record in machine.glob(f"pods/{pod}/runs/*/shim.json"):
        Run(record.parent).signal(number)


def _end_all(folder: Path) -> None:
    """What a killed shim left: all processes of a container end together."""
    mark = f"{MARK}={folder}".encode()
    while left := [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if _says(path, mark)]:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _says(environ: Path, mark: bytes) -> bool:
    try:
        return mark in environ.read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return False


def _read(path: Path) -> Json | None:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return None


def _start_time(pid: int) -> int | None:
    """In clock ticks since boot; None for a process that is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


class ConfigError(Exception):
    """A Secret, ConfigMap or key that a container names is not there (yet)."""


class Volumes:
    """Files and environment of one Pod, below `folder`; claims live beside the machine's Pods and outlive them."""

    renew_at: float | None = None  # when the first token is due, in seconds since the epoch; None before `prepare`

    def __init__(self, client: KubeClient, pod: Json, folder: Path, machine: Path) -> None:
        self._client, self._pod, self._folder, self._machine = client, pod, folder, machine
        self._volumes, self._spec = pod["spec"].get("volumes") or [], pod["spec"]["containers"][0]
        self.root = folder / "rootfs"

    async def prepare(self, rotate_after: float) -> None:
        """Makes all volumes and mounts them; called again it renews what is projected."""
        renew_at, places = float("inf"), {volume["name"]: self._place(volume) for volume in self._volumes}
        for volume in self._volumes:
            places[volume["name"]].mkdir(mode=0o700, parents=True, exist_ok=True)
            for source in dig(volume, "projected.sources") or [volume]:
                files = await self._files(source)
                if token := source.get("serviceAccountToken"):
                    status = await self._token(token)
                    files = {token["path"]: status["token"].encode()}
                    life = seconds_of(status["expirationTimestamp"]) - time.time()
                    renew_at = min(renew_at, time.time() + life * rotate_after)
                for name, data in files.items():
                    _write(places[volume["name"]] / name, data)
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for mount in self._spec.get("volumeMounts") or []:
            link = self.root / mount["mountPath"].lstrip("/")
            link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(places[mount["name"]] / mount.get("subPath", ""))
        self.renew_at = renew_at

    def _place(self, volume: Json) -> Path:
        if claim := dig(volume, "persistentVolumeClaim.claimName"):
            return self._machine / "volumes" / f"{self._pod['metadata']['namespace']}_{claim}"
        host: str | None = dig(volume, "hostPath.path")
        return self._machine / "rootfs" / host.lstrip("/") if host else self._folder / "volumes" / volume["name"]

    async def _files(self, source: Json) -> dict[str, bytes]:
        if about := source.get("downwardAPI"):
            pairs = ((item["path"], dig(self._pod, item["fieldRef"]["fieldPath"])) for item in about["items"])
            return {path: str(value).encode() for path, value in pairs}
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

    async def environment(self) -> dict[str, str]:
        """`envFrom` in order, the later wins; `env` wins over all of it."""
        env: dict[str, str] = {}
        for source in self._spec.get("envFrom") or []:
            ((name, ref),) = ((key, value) for key, value in source.items() if key.endswith("Ref"))
            env |= {key: value.decode() for key, value in (await self._data(name[:-3], ref["name"], ref)).items()}
        for item in self._spec.get("env") or []:
            source = item.get("valueFrom") or {}
            if "fieldRef" in source:
                env[item["name"]] = str(dig(self._pod, source["fieldRef"]["fieldPath"]))
            elif ref := source.get("secretKeyRef"):
                data = await self._data("secret", ref["name"], ref)
                if ref["key"] not in data and not ref.get("optional"):
                    raise ConfigError(f"couldn't find key {ref['key']} in Secret {ref['name']}")
                env |= {item["name"]: data[ref["key"]].decode()} if ref["key"] in data else {}
            else:
                env[item["name"]] = item.get("value", "")
        return env

    def own_path(self, text: str) -> str:
        """A value that is a mount path, or lies below one, as it is here."""
        paths = [mount["mountPath"].rstrip("/") for mount in self._spec.get("volumeMounts") or []]
        mine = any(text == path or text.startswith(path + "/") for path in paths)
        return str(self.root / text.lstrip("/")) if mine else text


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all: a reader sees the old token or the new one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.touch(mode=0o600)
    new.write_bytes(data)
    new.rename(path)

"""The world outside in memory. Each call of it is counted, and one of them can be the last that a process makes."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import yaml
from anycloud_cluster.domain import k3s
from anycloud_cluster.domain.ports import (
    ApiImage,
    Certificate,
    Connection,
    Fenced,
    GitHubAccount,
    Inventory,
    Output,
    OutsideError,
    Referenced,
    SignInRefused,
    SshSession,
    SshTarget,
)
from anycloud_common.kube import Foreign, KubeError
from anycloud_common.kube.names import ANNOTATION_INTENT
from anycloud_providers.protocol import Provider, ProviderError, ProviderKind

from tests.support.fake_provider import FakeCloud

T = TypeVar("T")
Json = dict[str, Any]

DIGEST = "sha256:" + "ab" * 32
IMAGE = f"ghcr.io/anycloud-sh/api@{DIGEST}"
SIGN_IN = "ghs_sandbox_demo"
INSTALLER_TOKEN = "installer-account-token"
READS = ("list", "find", "describe", "head", "get", "kube.uid", "version", "is-active", "-m", "server-ca.crt")
CA = "-----BEGIN CERTIFICATE-----\nserver CA\n-----END CERTIFICATE-----\n"
AWS = {"cloudProvider": "AWS", "accessKeyId": "account.key", "secretAccessKey": "very-secret-key"}


class Killed(BaseException):
    """The process ends here: nothing after this is run or stored."""


class _CountedCloud(FakeCloud):
    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def call(self, account: str, action: str, work: Callable[[], T]) -> T:
        result = super().call(account, action, work)
        self._world.touch(f"cloud.{action}")
        return result


@dataclass
class Certificates:
    signed: list[str] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)

    @property
    def valid(self) -> set[str]:
        return set(self.signed) - set(self.revoked)


class World:
    """All of it. `kill_at` n: the process ends right after the n-th call that has an effect, before it hears of it.

    After a mere read nothing is otherwise than after the effect before it, once that is stored; and it is stored by the
    time of the next one.
    """

    def __init__(self) -> None:
        self.cloud = _CountedCloud(self)
        self.calls: list[str] = []
        self.effects = 0
        self.kill_at: int | None = None
        self.dead = False
        self.faults: dict[str, list[Exception]] = {}
        # GitHub
        self.refused: set[str] = set()
        # DNS
        self.url_known = True
        self.records: dict[str, str] = {}
        self.certificates = Certificates()
        # the management machine
        self.config: str | None = None
        self.k3s = "inactive"
        self.transcript: list[tuple[str, str]] = []
        self.corrupt = False
        self.architecture = "x86_64"
        # Kubernetes
        self.uid = "uid-of-kube-system"
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.kube_down = False
        self.foreign: set[tuple[str, str]] = set()
        self.cut_off = 0  # so many installs of the API's chart don't come to their end
        self.record = "pending-install"  # what Helm's record says of them
        # the hosted API
        self.serving = False
        self.version = "0.1.70"
        self.pools: list[str] = []
        self.services: list[str] = []
        self.fences: list[str] = []
        self.withdrawn: list[str] = []
        self.questions: list[str] = []

    def touch(self, call: str) -> None:
        """Counts a call whose work is done, and ends the process if it is the last one."""
        if self.dead:
            raise Killed
        self.calls.append(call)
        self.effects += not any(word in call for word in READS)
        if self.kill_at is not None and self.effects >= self.kill_at:
            self.dead = True
            raise Killed

    def fault(self, call: str, *errors: Exception) -> None:
        """The next calls of that name fail before any work."""
        self.faults.setdefault(call, []).extend(errors)

    def check(self, call: str) -> None:
        if self.dead:
            raise Killed
        waiting = self.faults.get(call)
        if waiting:
            raise waiting.pop(0)

    def copy(self) -> World:
        """The same world for another life."""
        other = copy.deepcopy(self)
        other.calls, other.effects, other.kill_at, other.dead = [], 0, None, False
        return other

    def go_on(self) -> None:
        """What happens outside by itself: machines start and end, K3s starts, the API is installed and served."""
        self.cloud.settle()
        if self.k3s == "activating":
            self.k3s = "active"
        if ("HelmChart", "kube-system", "anycloud-api") in self.objects and not any(
            machine.state in ("stopping", "terminated") for machine in self.cloud.machines()
        ):
            self._cut_off() if self.cut_off else self._serve()

    def _serve(self) -> None:
        self.serving = True

    def _cut_off(self) -> None:
        """A Job that has given up, the record that it waits for, and the Pod that says so."""
        for key, body in cut_off_install(self.record).items():
            self.objects.setdefault(key, body)

    @property
    def machines_alive(self) -> int:
        return sum(machine.state != "terminated" for machine in self.cloud.machines())


class Clouds:
    def __init__(self, world: World) -> None:
        self._world = world

    def open(self, kind: ProviderKind, credential: Mapping[str, Any]) -> Provider:
        if credential.get("secretAccessKey") == "revoked":
            self._world.cloud.revoked.add(credential["accessKeyId"].split(".")[0])
        if kind != "AWS":
            raise ProviderError("invalid", f"no {kind} here")
        return self._world.cloud.provider(credential["accessKeyId"].split(".")[0])


class SignIns:
    def __init__(self, world: World) -> None:
        self._world = world

    async def account(self, token: str) -> GitHubAccount:
        self._world.check("github.account")
        if not token.startswith("ghs_sandbox_") or token in self._world.refused:
            raise SignInRefused("Bad credentials")
        login = token.removeprefix("ghs_sandbox_")
        return GitHubAccount(str(sum(login.encode())), login)

    async def find(self, login: str, token: str | None) -> GitHubAccount:
        if login == "octo-org":
            raise OutsideError("invalid", f"{login} is an Organization, and only a user can be let in")
        if login == "nobody":
            raise OutsideError("not_found", f"GitHub has no account {login}")
        return GitHubAccount(str(sum(login.encode())), login)


class Images:
    def __init__(self, world: World) -> None:
        self._world = world

    async def api_image(self, version: str) -> ApiImage:
        self._world.check("registry.resolve")
        return ApiImage(IMAGE, version, "sha256:" + "cd" * 32)


class Names:
    def __init__(self, world: World) -> None:
        self._world = world

    def url(self, name: str) -> str | None:
        return f"https://{name}" if self._world.url_known else None

    async def publish(self, name: str, address: str, token: str) -> str:
        self._checked("dns.publish", token)
        self._world.records[name] = address
        self._world.touch("dns.publish")
        return f"https://{name}"

    async def delete(self, name: str, token: str) -> None:
        self._checked("dns.delete", token)
        self._world.records.pop(name, None)
        self._world.touch("dns.delete")

    async def sign(self, name: str, request_pem: str, token: str) -> Certificate:
        self._checked("dns.sign", token)
        if name not in self._world.records:
            raise OutsideError("not_found", f"no record {name}")
        certificate_id = f"cert-{len(self._world.certificates.signed) + 1}"
        self._world.certificates.signed.append(certificate_id)
        self._world.touch("dns.sign")
        return Certificate(certificate_id, f"certificate {certificate_id}")

    async def revoke(self, certificate_id: str, token: str) -> None:
        self._checked("dns.revoke", token)
        self._world.certificates.revoked.append(certificate_id)
        self._world.touch("dns.revoke")

    def _checked(self, call: str, token: str) -> None:
        self._world.check(call)
        if token in self._world.refused:
            raise SignInRefused("Bad credentials")


class Ssh:
    def __init__(self, world: World) -> None:
        self._world = world

    @asynccontextmanager
    async def open(self, target: SshTarget) -> AsyncIterator[SshSession]:
        self._world.check("ssh.open")
        yield _Session(self._world)


class _Session:
    def __init__(self, world: World) -> None:
        self._world = world

    async def run(self, command: str, stdin: str = "") -> Output:
        self._world.check("ssh.run")
        self._world.transcript.append((command, stdin))
        output = self._answer(command, stdin)
        self._world.touch(f"ssh {command.rsplit(maxsplit=1)[-1]}")
        return output

    def _answer(self, command: str, stdin: str) -> Output:
        world = self._world
        if command == k3s.IS_ACTIVE:
            return Output(0 if world.k3s == "active" else 3, f"{world.k3s}\n", "")
        if command == k3s.ARCHITECTURE:
            return Output(0, f"{world.architecture}\n", "")
        if command == k3s.WRITE_CONFIG:
            world.config = stdin
            return Output(0, "", "")
        if command == k3s.INSTALL:
            if world.corrupt:
                return Output(k3s.CHECKSUM_FAILED, "", "the SHA-256 of the K3s binary is not the recorded one\n")
            world.k3s = "activating"
            return Output(0, "", "")
        if command == k3s.APPLY:
            for body in yaml.safe_load_all(stdin):
                meta = body["metadata"]
                world.objects[body["kind"], meta.get("namespace", ""), meta["name"]] = body
            return Output(0, "", "")
        if command == k3s.GET_TOKEN:
            data = {"token": base64.b64encode(INSTALLER_TOKEN.encode()).decode()}
            return Output(0, json.dumps({"data": data}), "")
        if command == k3s.SERVER_CA:
            return Output(0, CA, "")
        return Output(127, "", "command not found\n")


class Clusters:
    def __init__(self, world: World) -> None:
        self._world = world

    def open(self, connection: Connection) -> Kubernetes:
        return Kubernetes(self._world)


class Kubernetes:
    def __init__(self, world: World) -> None:
        self._world = world

    async def uid(self) -> str:
        self._check("kube.uid")
        self._world.touch("kube.uid")
        return self._world.uid

    async def get(self, kind: str, name: str, namespace: str) -> Json | None:
        self._check("kube.get")
        found = self._world.objects.get((kind, namespace, name))
        self._world.touch(f"kube.get {kind}")
        return found

    async def ensure(self, kind: str, body: Json, owner: Mapping[str, str]) -> Json:
        self._check("kube.ensure")
        meta = body["metadata"]
        if (kind, meta["name"]) in self._world.foreign:
            raise Foreign(kind, meta["namespace"], meta["name"])
        key = (kind, meta["namespace"], meta["name"])
        existing = self._world.objects.setdefault(key, body)
        intent = existing["metadata"]["annotations"][ANNOTATION_INTENT]
        if intent != meta["annotations"][ANNOTATION_INTENT]:
            raise Foreign(kind, meta["namespace"], meta["name"])
        self._world.touch(f"kube.ensure {kind}")
        return existing

    async def list(self, kind: str, namespace: str, labels: Mapping[str, str]) -> list[Json]:
        self._check("kube.list")
        self._world.touch(f"kube.list {kind}")
        if (kind, namespace) == ("Pod", "anycloud"):
            return [api_pod()] if self._world.serving else []
        found = [body for (of, ns, _), body in self._world.objects.items() if (of, ns) == (kind, namespace)]
        return [body for body in found if labels.items() <= body["metadata"].get("labels", {}).items()]

    async def delete(self, kind: str, name: str, namespace: str, uid: str) -> bool:
        self._check("kube.delete")
        existing = self._world.objects.get((kind, namespace, name))
        if existing is not None and existing["metadata"]["uid"] == uid:
            del self._world.objects[kind, namespace, name]
            self._world.cut_off -= kind == "Job"
        self._world.touch(f"kube.delete {kind}")
        return True

    async def close(self) -> None:
        return None

    def _check(self, call: str) -> None:
        self._world.check(call)
        if self._world.kube_down:
            raise KubeError("unreachable", "get namespaces: connection refused")


class Hosted:
    """The hosted API at the cluster's URL."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def exchange(self, url: str, github_token: str) -> str:
        self._check("hosted.exchange")
        if github_token in self._world.refused:
            raise SignInRefused("Bad credentials")
        self._world.touch("hosted.exchange")
        return "acapi_brief"

    async def served_version(self, url: str, token: str) -> str:
        self._check("hosted.version")
        self._world.touch("hosted.version")
        return self._world.version

    async def answers(self, url: str) -> bool:
        if self._world.dead:
            raise Killed
        return self._world.serving

    async def fence(self, url: str, token: str, cluster_id: str, delete_id: str) -> Fenced | Referenced:
        self._check("hosted.fence")
        self._world.questions.append(delete_id)
        if delete_id in self._world.withdrawn:
            raise OutsideError("unreachable", "409: taken back")
        if self._world.pools:
            self._world.touch("hosted.fence")
            return Referenced(f"{len(self._world.pools)} node pools must be deleted first.")
        self._world.fences.append(delete_id)
        self._world.touch("hosted.fence")
        return Fenced()

    async def withdraw(self, url: str, token: str, cluster_id: str, delete_id: str) -> None:
        self._check("hosted.withdraw")
        self._world.withdrawn.append(delete_id)
        self._world.touch("hosted.withdraw")

    async def inventory(self, url: str, token: str) -> Inventory:
        self._check("hosted.inventory")
        deployments = tuple(f"dep-{pool}" for pool in self._world.pools if not pool.startswith("empty"))
        return Inventory(tuple(self._world.pools), deployments, tuple(self._world.services))

    def _check(self, call: str) -> None:
        self._world.check(call)
        if not self._world.serving:
            raise OutsideError("unreachable", "connection refused")


def api_pod(revision: int = 1, image: str = IMAGE, ready: bool = True) -> Json:
    return {
        "metadata": {"name": "anycloud-api-1", "labels": {"anycloud.sh/revision": str(revision)}},
        "status": {
            "containerStatuses": [{"imageID": image, "state": {"running": {}}}],
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def cut_off_install(status: str) -> dict[tuple[str, str, str], Json]:
    name = "helm-install-anycloud-api"
    ended = {"exitCode": 1, "message": "Release status is 'failed'; waiting for operator intervention"}
    labels = {"owner": "helm", "name": "anycloud-api", "status": status}
    pod_labels = {"helmcharts.helm.cattle.io/chart": "anycloud-api"}
    return {
        ("Job", "kube-system", name): {
            "metadata": {"uid": "uid-of-job"},
            "status": {"conditions": [{"type": "Failed", "status": "True"}]},
        },
        ("Secret", "anycloud", "sh.helm.release.v1.anycloud-api.v1"): {
            "metadata": {"name": "sh.helm.release.v1.anycloud-api.v1", "uid": "uid-of-record", "labels": labels}
        },
        ("Pod", "kube-system", f"{name}-1"): {
            "metadata": {"labels": pod_labels},
            "status": {"containerStatuses": [{"state": {"waiting": {}}, "lastState": {"terminated": ended}}]},
        },
    }

"""The outside world as cluster sees it. What a cloud is asked is `anycloud_providers.protocol`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from anycloud_providers.protocol import Provider, ProviderKind

ErrorKind = Literal["capacity", "quota", "auth", "throttled", "conflict", "not_found", "unreachable", "invalid"]


class OutsideError(Exception):
    """A call to the world outside failed; the kinds mean what they do in `anycloud_providers.protocol`."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message


class SignInRefused(Exception):
    """GitHub, or what stands on it, doesn't accept the user's GitHub token (any more)."""


class Clouds(Protocol):
    def open(self, kind: ProviderKind, credential: Mapping[str, Any]) -> Provider:
        """The cloud of a credential, which has the contract's shape. Raises ProviderError(invalid) when this
        installation has no way to it, or the credential lacks a field."""
        ...


@dataclass(frozen=True)
class GitHubAccount:
    id: str
    login: str


class SignIns(Protocol):
    """GitHub accounts."""

    async def account(self, token: str) -> GitHubAccount:
        """Whose token it is. Raises SignInRefused, or OutsideError(unreachable)."""
        ...

    async def find(self, login: str, token: str | None) -> GitHubAccount:
        """The user account of that login. Raises OutsideError: `not_found` for none, `invalid` for an organisation."""
        ...


@dataclass(frozen=True)
class ApiImage:
    """The hosted API's image as its registry has it now: pinned by digest, and the chart that it names."""

    pinned: str
    chart_version: str
    chart_digest: str


class Images(Protocol):
    async def api_image(self, version: str) -> ApiImage:
        """The published image of that version. Raises OutsideError: `not_found` when none is published."""
        ...


@dataclass(frozen=True)
class SshTarget:
    """A machine and the keys by which both sides know each other. `host_key` is its public key, `user_key` private."""

    address: str
    port: int
    host_key: str
    user_key: str = field(repr=False)


@dataclass(frozen=True)
class Output:
    status: int
    stdout: str = field(repr=False)
    stderr: str


class SshSession(Protocol):
    async def run(self, command: str, stdin: str = "") -> Output:
        """Runs one command. Secrets go through `stdin` only. Raises OutsideError(unreachable)."""
        ...


class Ssh(Protocol):
    def open(self, target: SshTarget) -> AbstractAsyncContextManager[SshSession]:
        """A connection as the machine's one user. Raises OutsideError: `unreachable`, or `auth` when the machine shows
        another host key or refuses ours."""
        ...


@dataclass(frozen=True)
class Certificate:
    """A certificate for an origin: `id` is what revokes it, `pem` goes before the key."""

    id: str
    pem: str


class Names(Protocol):
    """DNS records below our domain and their origin certificates, kept for whoever's GitHub account made them.

    All calls raise SignInRefused, or OutsideError: `conflict` when another account holds the record.
    """

    def url(self, name: str) -> str | None:
        """The URL that the record `name` will stand for; None where only the record itself tells. Asks nobody."""
        ...

    async def publish(self, name: str, address: str, token: str) -> str:
        """Makes the record, proxied, and gives its URL; the same again is success."""
        ...

    async def delete(self, name: str, token: str) -> None:
        """Repeating it is success."""
        ...

    async def sign(self, name: str, request_pem: str, token: str) -> Certificate:
        """Each call makes another certificate."""
        ...

    async def revoke(self, certificate_id: str, token: str) -> None:
        """Repeating it is success."""
        ...


class HostedApi(Protocol):
    """A hosted API at its URL, spoken to as a user of it."""

    async def exchange(self, url: str, github_token: str) -> str:
        """A short-lived API token. Raises SignInRefused, or OutsideError: `auth` when the account isn't let in."""
        ...

    async def served_version(self, url: str, token: str) -> str:
        """The version that it says it serves. Raises OutsideError."""
        ...

    async def answers(self, url: str) -> bool:
        """Whether an API answers there at all: it is up, and refuses a call without token in our way."""
        ...

    async def fence(self, url: str, token: str, cluster_id: str, delete_id: str) -> Fenced | Referenced:
        """Asks it to take no new node pools. Raises OutsideError."""
        ...

    async def withdraw(self, url: str, token: str, cluster_id: str, delete_id: str) -> None:
        """Takes that question back, and makes it void if it is still on its way. Raises OutsideError."""
        ...

    async def inventory(self, url: str, token: str) -> Inventory:
        """What stands on the cluster. Raises OutsideError."""
        ...


@dataclass(frozen=True)
class Fenced:
    """It takes no new node pools, and has none."""


@dataclass(frozen=True)
class Referenced:
    """Node pools are there."""

    message: str


@dataclass(frozen=True)
class Inventory:
    """Names of node pools that aren't gone, and ids of the Deployments and the workloads that live on them."""

    node_pools: tuple[str, ...]
    deployments: tuple[str, ...]
    services: tuple[str, ...]


@dataclass(frozen=True)
class Connection:
    """The installer's way into its cluster: that account's token, the server's CA (PEM), the endpoint; nothing else."""

    endpoint: str
    ca: str
    token: str = field(repr=False)


class Cluster(Protocol):
    """The part of a Kubernetes cluster that installing an API needs. All calls raise KubeError."""

    async def uid(self) -> str:
        """UID of the kube-system Namespace."""
        ...

    async def get(self, kind: str, name: str, namespace: str) -> dict[str, Any] | None: ...

    async def ensure(self, kind: str, body: dict[str, Any], owner: Mapping[str, str]) -> dict[str, Any]:
        """Raises Foreign too."""
        ...

    async def list(self, kind: str, namespace: str, labels: Mapping[str, str]) -> list[dict[str, Any]]: ...

    async def delete(self, kind: str, name: str, namespace: str, uid: str) -> bool:
        """That very object; False while it is on its way out."""
        ...

    async def close(self) -> None: ...


class Clusters(Protocol):
    def open(self, connection: Connection) -> Cluster: ...

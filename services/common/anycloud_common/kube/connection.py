"""Whether a cluster is still the recorded one, new enough, and lets us do what we need."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from anycloud_common.kube.client import Kube, ServerVersion
from anycloud_common.kube.errors import KubeError
from anycloud_common.kube.names import NAMESPACE_SYSTEM

# The pinned agent is v1.35: a kubelet may be three minor versions older than its server, and never newer.
SUPPORTED_MAJOR = 1
SUPPORTED_MINORS = range(35, 39)

_REVIEWS_AT_ONCE = 8


class Permission(NamedTuple):
    """One verb on one resource. `namespace` None: in all Namespaces, or a resource of the whole cluster."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    namespace: str | None = None

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        subresource = f"/{self.subresource}" if self.subresource else ""
        scope = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {resource}{subresource}{scope}"


class ConnectionReport(NamedTuple):
    """What one check found. `problems` are sentences for the user; none means that the connection may be used.

    `version` is None and `missing` is empty when the identity was already another one: nothing else is asked then.
    """

    uid: str
    version: ServerVersion | None
    missing: tuple[Permission, ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


async def cluster_uid(kube: Kube) -> str:
    """The identity of a cluster: the UID of its Namespace kube-system. Raises KubeError."""
    system = await kube.get("Namespace", NAMESPACE_SYSTEM)
    if system is None:
        raise KubeError("not_found", f"the cluster has no Namespace {NAMESPACE_SYSTEM}", 404, "get", "namespaces")
    return str(system["metadata"]["uid"])


async def check_connection(kube: Kube, expected_uid: str, needed: Sequence[Permission]) -> ConnectionReport:
    """Compares the identity, then reads version and permissions. Raises KubeError when the cluster can't be asked."""
    uid = await cluster_uid(kube)
    if uid != expected_uid:
        problem = f"The cluster at this endpoint has the kube-system UID {uid}; {expected_uid} is recorded."
        return ConnectionReport(uid, None, (), (problem,))
    version, missing = await _ask(kube, needed)
    problems = [*_version_problems(version), *_permission_problems(missing)]
    return ConnectionReport(uid, version, missing, tuple(problems))


async def _ask(kube: Kube, needed: Sequence[Permission]) -> tuple[ServerVersion, tuple[Permission, ...]]:
    slots = asyncio.Semaphore(_REVIEWS_AT_ONCE)

    async def allowed(permission: Permission) -> bool:
        async with slots:
            return await kube.access_review(
                permission.verb, permission.group, permission.resource, permission.subresource, permission.namespace
            )

    try:
        async with asyncio.TaskGroup() as group:
            version = group.create_task(kube.version())
            answers = [group.create_task(allowed(permission)) for permission in needed]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    missing = (permission for permission, answer in zip(needed, answers, strict=True) if not answer.result())
    return version.result(), tuple(missing)


def _version_problems(version: ServerVersion) -> list[str]:
    if version.major == SUPPORTED_MAJOR and version.minor in SUPPORTED_MINORS:
        return []
    window = f"v{SUPPORTED_MAJOR}.{SUPPORTED_MINORS[0]} to v{SUPPORTED_MAJOR}.{SUPPORTED_MINORS[-1]}"
    return [f"The cluster runs Kubernetes {version.git_version}; {window} are supported."]


def _permission_problems(missing: Sequence[Permission]) -> list[str]:
    if not missing:
        return []
    return [f"The cluster denies Anycloud: {', '.join(map(str, missing))}."]

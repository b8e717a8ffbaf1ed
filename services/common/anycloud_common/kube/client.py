"""The one Kubernetes client of the services: dict in, dict out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from anycloud_common.clock import Clock, SystemClock
from anycloud_common.kube import tokens
from anycloud_common.kube.errors import Foreign, KubeError
from anycloud_common.kube.fields import adopt_created_fields
from anycloud_common.kube.identity import BoundTransport
from anycloud_common.kube.kinds import KINDS, Kind, Object
from anycloud_common.kube.names import ANNOTATION_INTENT
from anycloud_common.kube.transport import DEADLINE_S, Request, TokenFile, Transport
from anycloud_common.release_values import ReleaseValues
from anycloud_common.settings import Settings

FIELD_MANAGER = "anycloud"
_PAGE = 500
_HANDOVERS = 5  # as often as the server itself tries a patch again

Objects = list[Object]


@dataclass(frozen=True)
class ServerVersion:
    """Version of an API server, such as v1.36.5+k3s1."""

    major: int
    minor: int
    git_version: str


class Kube:
    """Calls to one API server as one identity. `kind` is a key of KINDS; names are those of `metadata`.

    Every call has a deadline and raises KubeError (see there for the reasons). Close it when done.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @classmethod
    def from_token(cls, endpoint: str, ca_pem: str, token: str, deadline_s: float = DEADLINE_S) -> Kube:
        """A connection with a bearer token to `https://address:port`, whose certificate that CA has signed."""
        return cls(Transport(endpoint, ca_pem, lambda: token, deadline_s))

    @classmethod
    def in_cluster(cls, settings: Settings, clock: Clock | None = None, deadline_s: float = DEADLINE_S) -> Kube:
        """A connection as the Pod's own ServiceAccount, to the cluster that the release values name and to no other.
        Raises KubeError(auth) when the account's files are missing, ReleaseValuesError."""
        directory = settings.serviceaccount_dir
        host = settings.kubernetes_host or ""
        endpoint = f"https://{f'[{host}]' if ':' in host else host}:{settings.kubernetes_port}"
        try:
            ca_pem = (directory / "ca.crt").read_text()
        except OSError as error:
            raise KubeError("auth", f"the ServiceAccount's ca.crt can't be read: {error.strerror}") from None
        token = TokenFile(directory / "token", clock or SystemClock())
        if settings.release_values is None:
            return cls(Transport(endpoint, ca_pem, token, deadline_s))
        identity = ReleaseValues.load(settings.release_values).cluster.identity
        return cls(BoundTransport(identity, endpoint, ca_pem, token, deadline_s))

    async def close(self) -> None:
        await self._transport.close()

    async def get(self, kind: str, name: str, ns: str | None = None) -> Object | None:
        """The object, or None when there is none of that name."""
        where = KINDS[kind]
        if where.get_by_list:
            found, _ = await self.list(kind, ns, fields=f"metadata.name={name}")
            return found[0] if found else None
        try:
            return await self._transport.call(Request("get", where.resource, "GET", where.path(ns, name)))
        except KubeError as error:
            if error.reason == "not_found":
                return None
            raise

    async def list(
        self,
        kind: str,
        ns: str | None = None,
        labels: Mapping[str, str] | str | None = None,
        fields: str | None = None,
    ) -> tuple[Objects, str]:
        """All matching objects at one moment, and the resource version of that moment. `ns` None: all Namespaces.

        Read in pages; when the server forgets the moment between two pages, it is read again in one piece.
        """
        try:
            return await self._list(kind, ns, _selectors(labels, fields), _PAGE)
        except KubeError as error:
            if error.status != 410:
                raise
        return await self._list(kind, ns, _selectors(labels, fields), None)

    async def create(self, kind: str, body: Object) -> Object:
        """Creates the object and returns it as stored. KubeError(conflict) when the name is taken."""
        where = KINDS[kind]
        path = where.path(_namespace(body))
        query = {"fieldManager": FIELD_MANAGER}
        request = Request("create", where.resource, "POST", path, query, _typed(where, body))
        return await self._transport.call(request)

    async def ensure(self, kind: str, body: Object, owner: Mapping[str, str]) -> Object:
        """Creates the object; when one of that name exists, it is ours only if it shows the same owner and intent.

        `owner` are labels that the body carries too; the body also carries ANNOTATION_INTENT. Returns the object as
        stored: its UID is to be recorded. Raises Foreign when the existing one isn't ours, and KubeError(conflict)
        while an earlier one of ours is being deleted.
        """
        wanted = body["metadata"]
        if not owner or not _carries(wanted, owner, _intent(wanted)) or _intent(wanted) is None:
            raise ValueError("an object to be ensured needs its owner labels and its intent annotation")
        try:
            return await self.create(kind, body)
        except KubeError as error:
            if error.reason != "conflict":
                raise
            conflict = error
        existing = await self.get(kind, wanted["name"], _namespace(body))
        if existing is None:
            raise conflict  # gone again, or its Namespace is: the caller's next pass creates it
        if not _carries(existing["metadata"], owner, _intent(wanted)):
            raise Foreign(kind, _namespace(body), wanted["name"])
        if existing["metadata"].get("deletionTimestamp"):
            raise KubeError("conflict", f"{kind} {wanted['name']} is still being deleted", conflict.status)
        return existing

    async def apply(self, kind: str, body: Object) -> Object:
        """Server-side apply of an object that exists, as stored afterwards.

        `metadata.uid` is required: KubeError(conflict) when the object of that name is another one, KubeError of
        conflict or not_found when there is none. Fields that we set before and that the body lacks are removed.
        """
        if not body["metadata"].get("uid"):
            raise ValueError("apply needs metadata.uid, or it could take over a stranger's object")
        await self._own_created_fields(kind, body)
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}  # the UID says that it is ours: edits are undone
        return await self._patch(kind, body, "application/apply-patch+yaml", _typed(KINDS[kind], body), query)

    async def patch(self, kind: str, name: str, ns: str | None, uid: str, change: Object) -> Object:
        """JSON merge patch (null removes a field), for objects that others made, such as Nodes.

        KubeError(conflict) when the object of that name has another UID.
        """
        metadata = {**change.get("metadata", {}), "name": name, "uid": uid}
        body = {**change, "metadata": {**metadata, "namespace": ns} if ns else metadata}
        return await self._patch(kind, body, "application/merge-patch+json", body)

    async def delete(self, kind: str, name: str, ns: str | None, uid: str) -> bool:
        """Deletes that very object. True: it is gone, or its name is another object's now. False: it is on its way,
        held by finalizers or a grace period. Dependents go in the background."""
        where = KINDS[kind]
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        request = Request("delete", where.resource, "DELETE", where.path(ns, name), body=options)
        try:
            await self._transport.call(request)
        except KubeError as error:
            if error.reason == "not_found":
                return True
            if error.reason != "conflict":
                raise
            existing = await self.get(kind, name, ns)
            if existing is not None and existing["metadata"]["uid"] == uid:
                raise
            return True
        return False

    async def token_review(self, token: str, audiences: Sequence[str]) -> tokens.TokenIdentity | None:
        """Whose ServiceAccount token that is; None when the cluster doesn't accept it for one of the audiences."""
        spec = {"token": token, "audiences": list(audiences)}
        return tokens.identity(await self._review("TokenReview", spec), audiences)

    async def access_review(
        self, verb: str, group: str, resource: str, subresource: str = "", ns: str | None = None
    ) -> bool:
        """Whether our own identity may do that. `ns` None or empty: in all Namespaces."""
        attributes = {
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
            "namespace": ns or "",
        }
        status = await self._review("SelfSubjectAccessReview", {"resourceAttributes": attributes})
        return status.get("allowed") is True

    async def version(self) -> ServerVersion:
        """The server's version. KubeError(unreachable) when it doesn't say one."""
        answer = await self._transport.call(Request("get", "version", "GET", "/version"))
        text = str(answer.get("gitVersion", ""))
        numbers = text.removeprefix("v").split(".")
        if len(numbers) < 2 or not (numbers[0].isdecimal() and numbers[1].isdecimal()):
            raise KubeError("unreachable", f"the server's version {text!r} can't be read")
        return ServerVersion(int(numbers[0]), int(numbers[1]), text)

    async def pod_log(
        self,
        ns: str,
        pod: str,
        *,
        tail: int | None = None,
        previous: bool = False,
        follow: bool = False,
        container: str | None = None,
    ) -> AsyncIterator[bytes]:
        """The lines of a container's log, each with its end of line, while they come when following.

        KubeError(not_found) without such a Pod, (invalid) when the container hasn't started or has no previous run.
        """
        query = {"previous": "true"} if previous else {}
        if tail is not None:
            query["tailLines"] = str(tail)
        if follow:
            query["follow"] = "true"
        if container:
            query["container"] = container
        request = Request("get", "pods/log", "GET", KINDS["Pod"].path(ns, pod, "log"), query)
        async with self._transport.stream(request, idle_s=None if follow else DEADLINE_S) as lines:
            async for line in lines:
                yield line

    def watch(
        self,
        kind: str,
        ns: str | None,
        labels: Mapping[str, str] | str | None,
        *,
        resource_version: str,
        timeout_s: int,
        idle_s: float,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Context manager of the raw lines of a watch from that resource version on, bookmarks included.

        The server ends it after `timeout_s`. Only the reflector needs it.
        """
        query = {
            **_selectors(labels, None),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_s),
        }
        where = KINDS[kind]
        return self._transport.stream(Request("watch", where.resource, "GET", where.path(ns), query), idle_s)

    async def _list(
        self, kind: str, ns: str | None, selectors: dict[str, str], page: int | None
    ) -> tuple[Objects, str]:
        where = KINDS[kind]
        query = {**selectors, "limit": str(page)} if page else selectors
        items: Objects = []
        while True:
            answer = await self._transport.call(Request("list", where.resource, "GET", where.path(ns), query))
            items += answer.get("items") or []
            metadata = answer.get("metadata") or {}
            if not metadata.get("continue"):
                return items, metadata.get("resourceVersion", "")
            query = {**query, "continue": metadata["continue"]}

    async def _own_created_fields(self, kind: str, body: Object) -> None:
        """Hands the fields that we created over to our applies; nothing to do from the second apply on."""
        name, namespace = body["metadata"]["name"], _namespace(body)
        for attempt in range(_HANDOVERS):
            stored = await self.get(kind, name, namespace)
            if stored is None or stored["metadata"]["uid"] != body["metadata"]["uid"]:
                return  # the apply will be refused
            handover = adopt_created_fields(stored, FIELD_MANAGER)
            if handover is None:
                return
            try:
                await self._patch(kind, body, "application/json-patch+json", handover)
            except KubeError as error:
                if error.reason != "conflict" or attempt == _HANDOVERS - 1:
                    raise
            # a controller wrote in between, or the handover is done: what is stored tells

    async def _patch(
        self, kind: str, target: Object, content_type: str, change: Any, query: Mapping[str, str] | None = None
    ) -> Object:
        where = KINDS[kind]
        path = where.path(_namespace(target), target["metadata"]["name"])
        query = query or {"fieldManager": FIELD_MANAGER}
        return await self._transport.call(Request("patch", where.resource, "PATCH", path, query, change, content_type))

    async def _review(self, kind: str, spec: Object) -> Object:
        where = KINDS[kind]
        body = _typed(where, {"spec": spec})
        answer = await self._transport.call(Request("create", where.resource, "POST", where.path(), body=body))
        return answer.get("status") or {}


def _typed(kind: Kind, body: Object) -> Object:
    return {**body, "apiVersion": kind.api_version, "kind": kind.name}


def _namespace(body: Object) -> str | None:
    namespace: str | None = body["metadata"].get("namespace")
    return namespace


def _intent(metadata: Object) -> str | None:
    intent: str | None = (metadata.get("annotations") or {}).get(ANNOTATION_INTENT)
    return intent


def _carries(metadata: Object, owner: Mapping[str, str], intent: str | None) -> bool:
    labels = metadata.get("labels") or {}
    return owner.items() <= labels.items() and _intent(metadata) == intent


def _selectors(labels: Mapping[str, str] | str | None, fields: str | None) -> dict[str, str]:
    text = labels if isinstance(labels, str) else ",".join(f"{key}={value}" for key, value in (labels or {}).items())
    query = {"labelSelector": text} if text else {}
    return {**query, "fieldSelector": fields} if fields else query

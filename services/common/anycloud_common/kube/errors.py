"""What can go wrong at a Kubernetes API, classified once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from anycloud_common.kube.kinds import KINDS

Reason = Literal["unreachable", "auth", "forbidden", "not_found", "conflict", "throttled", "invalid"]


class KubeError(Exception):
    """A call failed. The text names verb and resource, and keeps the server's own words.

    unreachable  no answer, a broken one, or a server error; the call may have taken effect
    auth         the server doesn't accept our token
    forbidden    our identity lacks the permission `verb` on `resource`
    not_found    no such object, or no such kind on this server
    conflict     the object exists already, was replaced or changed meanwhile, or is being deleted; `status` is 410
                 when a resource version is too old
    throttled    too many requests
    invalid      the server will never accept this request

    `retry_after` are the seconds for which the server wants to be left alone, 0 when it didn't say.
    """

    def __init__(self, reason: Reason, message: str, status: int = 0, verb: str = "", resource: str = "") -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message
        self.status = status
        self.verb = verb
        self.resource = resource
        self.retry_after = 0.0


class Foreign(Exception):
    """An object of that name exists and isn't ours. It was left as it is."""

    def __init__(self, kind: str, namespace: str | None, name: str) -> None:
        where = f"{namespace}/{name}" if namespace else name
        super().__init__(f"{kind} {where} exists and does not belong to Anycloud")
        self.kind = kind
        self.namespace = namespace
        self.name = name

    @property
    def remedy(self) -> str:
        """The command by which an administrator removes the object."""
        scope = f"-n {self.namespace} " if self.namespace else ""
        return f"kubectl {scope}delete {KINDS[self.kind].resource} {self.name}"


_REASONS: dict[int, Reason] = {
    401: "auth",
    403: "forbidden",
    404: "not_found",
    409: "conflict",
    410: "conflict",
    429: "throttled",
}


def from_status(status: int, answer: Mapping[str, Any], verb: str, resource: str) -> KubeError:
    """The error of an HTTP answer; `answer` is the server's Status object, or empty when there was none."""
    reason = _special(answer) or _REASONS.get(status) or ("unreachable" if status >= 500 else "invalid")
    text = answer.get("message") or f"HTTP {status}"
    return KubeError(reason, f"{verb} {resource}: {text}", status, verb, resource)


def _special(answer: Mapping[str, Any]) -> Reason | None:
    """Two refusals whose HTTP code misleads.

    Creating in a Namespace that is being deleted is 403, and no permission is missing. A patch that carries the UID
    of a replaced object may be 422, and the request is well formed.
    """
    causes = (answer.get("details") or {}).get("causes") or []
    if any(cause.get("reason") == "NamespaceTerminating" for cause in causes):
        return "conflict"
    if any(cause.get("field") == "metadata.uid" for cause in causes):
        return "conflict"
    return None

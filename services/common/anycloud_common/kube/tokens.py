"""What a TokenReview says about a workload's token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PREFIX = "system:serviceaccount:"
_EXTRA = "authentication.kubernetes.io/"


@dataclass(frozen=True)
class TokenIdentity:
    """The ServiceAccount of a token, and the Pod and Node that it is bound to, where it is bound.

    The token of a Pod that is already being deleted is still accepted: compare with the live Pod.
    """

    namespace: str
    service_account: str
    service_account_uid: str
    pod_name: str | None
    pod_uid: str | None
    node_name: str | None


def identity(status: Mapping[str, Any], audiences: Sequence[str]) -> TokenIdentity | None:
    """Reads a TokenReview's status; None unless the token is authenticated for one of the audiences asked for.

    A server that ignores audiences lists none in its answer, and such an answer doesn't count.
    """
    if status.get("authenticated") is not True or status.get("error"):
        return None
    if not set(audiences) & set(status.get("audiences") or []):
        return None
    user = status.get("user") or {}
    username = str(user.get("username", ""))
    namespace, _, account = username.removeprefix(_PREFIX).partition(":")
    if not username.startswith(_PREFIX) or not namespace or not account:
        return None
    extra = user.get("extra") or {}
    return TokenIdentity(
        namespace,
        account,
        str(user.get("uid", "")),
        _only(extra, "pod-name"),
        _only(extra, "pod-uid"),
        _only(extra, "node-name"),
    )


def _only(extra: Mapping[str, Any], key: str) -> str | None:
    values = extra.get(_EXTRA + key) or []
    return str(values[0]) if len(values) == 1 else None

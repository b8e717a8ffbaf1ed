"""What the API server's audit log says of one caller, against what a role lets him do."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Json = dict[str, Any]

_CREDENTIAL = "authentication.kubernetes.io/credential-id"


class Use(NamedTuple):
    """One verb on one resource, as rules of a role say it; `resource` has its subresource behind a slash."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        name, _, subresource = self.resource.partition("/")
        name = f"{name}.{self.group}" if self.group else name
        return f"{self.verb} {name}/{subresource}" if subresource else f"{self.verb} {name}"


class Asked(NamedTuple):
    """A request for a resource. `namespace` and `name` are empty where it has none."""

    use: Use
    namespace: str
    name: str
    status: int


def asked_with(requests: Iterable[Json], tokens: Iterable[str]) -> list[Asked]:
    """What was asked with one of these ServiceAccount tokens: the server logs which token it was, not only whose."""
    credentials = {f"JTI={_id(token)}" for token in tokens}
    found = []
    for event in requests:
        shown = set(event["user"].get("extra", {}).get(_CREDENTIAL, ()))
        about = event.get("objectRef")
        if about and shown & credentials:
            resource = "/".join(part for part in (about["resource"], about.get("subresource")) if part)
            use = Use(about.get("apiGroup", ""), resource, event["verb"])
            status = int(event.get("responseStatus", {}).get("code", 0))
            found.append(Asked(use, about.get("namespace", ""), about.get("name", ""), status))
    return found


def refused(asked: Iterable[Asked]) -> list[str]:
    """Each request that the role didn't allow, once."""
    return sorted({f"{one.use} in {one.namespace or 'the cluster'}" for one in asked if one.status == 403})


def granted(rules: Iterable[Json]) -> set[Use]:
    """All that rules of a role let somebody do."""
    return {
        Use(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def paths_asked_with(requests: Iterable[Json], tokens: Iterable[str]) -> set[str]:
    """What was asked with these tokens that is no resource, such as the server's version."""
    credentials = {f"JTI={_id(token)}" for token in tokens}
    ours = (event for event in requests if set(event["user"].get("extra", {}).get(_CREDENTIAL, ())) & credentials)
    return {event["requestURI"].partition("?")[0] for event in ours if not event.get("objectRef")}


def told(reasons: Mapping[Use, str], uses: Iterable[Use]) -> list[str]:
    """For people: one line a reason."""
    by_reason: dict[str, list[str]] = {}
    for use in sorted(uses):
        by_reason.setdefault(reasons.get(use, "not on the list"), []).append(str(use))
    return [f"  {', '.join(found)}: {reason}" for reason, found in by_reason.items()]


def _id(token: str) -> str:
    payload = token.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["jti"])

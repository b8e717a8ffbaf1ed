"""What changed between two readings of a collection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from anycloud_common.kube.kinds import Object

Key = tuple[str, str]
EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class Event(NamedTuple):
    """One change. `old` is absent for ADDED, `new` for DELETED; both belong to one object, that is, to one UID."""

    type: EventType
    old: Object | None
    new: Object | None


def key_of(obj: Object) -> Key:
    """Namespace (empty for cluster-wide kinds) and name."""
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def keyed(objects: Iterable[Object]) -> dict[Key, Object]:
    return {key_of(obj): obj for obj in objects}


def changes(old: Mapping[Key, Object], new: Mapping[Key, Object]) -> list[Event]:
    """Events that lead from one reading to the other. Deletions come first: a freed name may be taken again."""
    gone = [key for key, obj in old.items() if key not in new or not _same(obj, new[key])]
    events = [Event("DELETED", old[key], None) for key in gone]
    for key, obj in new.items():
        before = old.get(key)
        if before is None or not _same(before, obj):
            events.append(Event("ADDED", None, obj))
        elif _version(before) != _version(obj):
            events.append(Event("MODIFIED", before, obj))
    return events


def _same(one: Object, two: Object) -> bool:
    return bool(one["metadata"].get("uid") == two["metadata"].get("uid"))


def _version(obj: Object) -> str | None:
    version: str | None = obj["metadata"].get("resourceVersion")
    return version

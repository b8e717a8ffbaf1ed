"""Field ownership of an object that we created by POST and now apply.

A POST records our fields under operation Update, an apply records them under operation Apply, and the server takes
the two for different owners: a field that we created and later leave out would stay for ever. Before the first apply
the Update entry therefore becomes the Apply entry, as kubectl does when it changes over to server-side apply. Done
after it, that apply would add to the lists of the POST: a Deployment would roll out a mixture of both templates, and a
Service whose named port has another number would be refused.
"""

from __future__ import annotations

from typing import Any

Fields = dict[str, Any]


def adopt_created_fields(obj: dict[str, Any], manager: str) -> list[dict[str, Any]] | None:
    """JSON patch that makes the manager's Update entry its Apply entry; None when there is no Update entry.

    The patch is refused (409 or 422) when the object changed since it was read.
    """
    metadata = obj["metadata"]
    entries = metadata.get("managedFields") or []
    created = [entry for entry in entries if _is_of(entry, manager, "Update")]
    applied = [entry for entry in entries if _is_of(entry, manager, "Apply")]
    if not created:
        return None
    merged = {**(applied or created)[0], "operation": "Apply"}
    for entry in created:
        merged["fieldsV1"] = _union(merged["fieldsV1"], entry["fieldsV1"])
    others = [entry for entry in entries if entry not in created and entry not in applied]
    return [
        {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
        {"op": "replace", "path": "/metadata/managedFields", "value": [*others, merged]},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
    ]


def _is_of(entry: dict[str, Any], manager: str, operation: str) -> bool:
    return entry.get("manager") == manager and entry.get("operation") == operation and not entry.get("subresource")


def _union(one: Fields, two: Fields) -> Fields:
    """Both trees in one. An empty tree is the field itself, which beside fields below it is spelled "."."""
    if not one or not two:
        return {".": {}, **one, **two} if one or two else {}
    return {
        key: _union(one[key], two[key]) if key in one and key in two else {**one, **two}[key] for key in {**one, **two}
    }

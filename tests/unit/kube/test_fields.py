"""Ownership of created fields is handed over to what applies, and to nobody else."""

from __future__ import annotations

from typing import Any

from anycloud_common.kube.fields import adopt_created_fields


def entry(manager: str, operation: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields, **more}


def handed_over(*entries: dict[str, Any]) -> list[dict[str, Any]] | None:
    obj = {"metadata": {"uid": "u", "resourceVersion": "7", "managedFields": list(entries)}}
    return adopt_created_fields(obj, "anycloud")


def test_created_and_applied_fields_become_one_entry_beside_those_of_others() -> None:
    created = entry("anycloud", "Update", {"f:data": {".": {}, "f:a": {}, "f:b": {}}})
    applied = entry("anycloud", "Apply", {"f:data": {"f:a": {}}, "f:spec": {}})
    status = entry("anycloud", "Update", {"f:status": {}}, subresource="status")
    theirs = entry("kubectl", "Update", {"f:data": {"f:c": {}}})
    patch = handed_over(created, applied, status, theirs)
    assert patch is not None
    merged = {**applied, "fieldsV1": {"f:data": {".": {}, "f:a": {}, "f:b": {}}, "f:spec": {}}}
    assert {"op": "replace", "path": "/metadata/managedFields", "value": [status, theirs, merged]} in patch
    assert {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"} in patch


def test_a_field_owned_whole_stays_so_beside_fields_below_it() -> None:
    patch = handed_over(entry("anycloud", "Update", {"f:x": {}}), entry("anycloud", "Apply", {"f:x": {"f:y": {}}}))
    assert patch is not None
    assert patch[1]["value"][0]["fieldsV1"] == {"f:x": {".": {}, "f:y": {}}}


def test_what_was_created_and_never_applied_counts_as_applied() -> None:
    patch = handed_over(entry("anycloud", "Update", {"f:a": {}}))
    assert patch is not None
    assert patch[1]["value"] == [entry("anycloud", "Apply", {"f:a": {}})]


def test_nothing_is_handed_over_without_a_created_entry() -> None:
    assert handed_over() is None
    assert handed_over(entry("anycloud", "Apply", {"f:a": {}})) is None
    assert handed_over(entry("kubectl", "Update", {"f:a": {}}), entry("anycloud", "Apply", {"f:a": {}})) is None

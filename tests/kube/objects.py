"""Bodies of objects that the tests make."""

from __future__ import annotations

from typing import Any

from anycloud_common.kube import Object
from anycloud_common.kube.names import ANNOTATION_INTENT

OWNER = {"anycloud.sh/deployment": "dep-1"}
INTENT = {ANNOTATION_INTENT: "dep-1/test"}


def metadata(name: str, ns: str | None = None, **more: Any) -> Object:
    """Metadata of an object of ours; `uid=` for one that is to be applied."""
    base: Object = {"name": name, "labels": dict(OWNER), "annotations": dict(INTENT), **more}
    return {**base, "namespace": ns} if ns else base


def config_map(ns: str, name: str = "c", *, uid: str | None = None, **data: str) -> Object:
    return {"metadata": metadata(name, ns, **({"uid": uid} if uid else {})), "data": data}


def strangers(ns: str, name: str = "c", **data: str) -> Object:
    """An object without our marks."""
    return {"metadata": {"name": name, "namespace": ns}, "data": data}


def pod_spec(image: str = "registry.invalid/none", **more: Any) -> Object:
    return {"containers": [{"name": "main", "image": image, "command": ["/main"]}], **more}


def deployment(ns: str, name: str = "d", *, uid: str | None = None, replicas: int = 1, **pod: Any) -> Object:
    """One whose Pods no Node takes."""
    labels = {"app": name}
    spec = pod_spec(nodeSelector={"test/none": "none"}, **pod)
    return {
        "metadata": metadata(name, ns, **({"uid": uid} if uid else {})),
        "spec": {
            "replicas": replicas,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": {**labels, **OWNER}}, "spec": spec},
        },
    }

"""What stands in for images that clusters run besides the product's: manifests for the sandbox's registry."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anycloud_control_plane.programs import find

HELM_JOB = "rancher/klipper-helm"
_DEVICE_PLUGIN = "nvcr.io/nvidia/k8s-device-plugin"  # the node agent counts GPUs by itself
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def stand_ins(folders: Sequence[Path], registry: str) -> dict[str, Any]:
    """By the image's name, for any version of it; `paths` are those of klipper-helm's container."""
    helm = {
        "env": {"REGISTRY": registry, "HELM": str(find("helm", folders))},
        "paths": {"CONFIG": "/config", "CONTENT": "/chart", "TMP": "/tmp", "ACCOUNT": _ACCOUNT},  # noqa: S108
        "command": [sys.executable, "-m", "anycloud_control_plane.helm_job"],
    }
    idle = {"env": {}, "command": ["/bin/sleep", "infinity"]}
    found = {HELM_JOB: helm, _DEVICE_PLUGIN: idle}
    return {name: {"accelerator": "none", "labels": {}, **manifest} for name, manifest in found.items()}

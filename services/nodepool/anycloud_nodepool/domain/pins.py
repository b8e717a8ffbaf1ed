"""What pool VMs install. The agent is of the oldest supported minor: a kubelet is never newer than its server."""

from __future__ import annotations

from typing import Final

K3S_VERSION: Final = "v1.35.7+k3s1"
# Of the file `k3s` for amd64.
K3S_SHA256: Final = "5fc25309c53031e0cf03f7ee85f6f60969381ff3649039ffda19e30f5c26947a"
K3S_URL: Final = f"https://github.com/k3s-io/k3s/releases/download/{K3S_VERSION.replace('+', '%2B')}/k3s"

DEVICE_PLUGIN_IMAGE: Final = (
    "nvcr.io/nvidia/k8s-device-plugin:v0.20.0@sha256:a61ba9fd8efb82f3a79f877f7580e02c1e8e7593f62473644bc9c79e315c3312"
)

"""What a new cluster is made of, each thing pinned. A cluster's record keeps the pins that it was begun with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

# K3s server: release and SHA-256 of its amd64 binary. Agents are older on purpose (kubelets may never be newer).
K3S_VERSION: Final = "v1.36.5+k3s1"
K3S_SHA256: Final = "d73847bcd3c5fccef0115b372e2f9a91f3032dc84bbf71518a4617565294d313"

# The image of the Jobs by which K3s's helm-controller installs charts.
HELM_JOB_IMAGE: Final = "rancher/klipper-helm@sha256:e89ce639d4e7aec131aaf7aecb7fd9b3b26f21f5604bdc37c2336b8901a2d9b0"

TRAEFIK_CHART: Final = "https://traefik.github.io/charts/traefik/traefik-41.3.0.tgz"
TRAEFIK_VERSION: Final = "v3.7.13"
TRAEFIK_DIGEST: Final = "sha256:24841fe2de7304c149343d877d2923b4c8800a38ba015dea9174c23b20e344a0"


@dataclass(frozen=True)
class Pins:
    k3s_version: str
    k3s_sha256: str
    helm_job_image: str


CURRENT: Final = Pins(K3S_VERSION, K3S_SHA256, HELM_JOB_IMAGE)


def k3s_url(version: str) -> str:
    """Where the binary of that release is."""
    return f"https://github.com/k3s-io/k3s/releases/download/{quote(version)}/k3s"

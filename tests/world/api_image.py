"""The project itself as a container image: that of the API, and by its entry point that of Helm's Jobs.

What it needs of others was built ahead; this adds the tree as it is now, Helm, and the API's chart.
"""

from __future__ import annotations

import base64
import io
import tarfile
import tempfile
from pathlib import Path

from tests.kube.assets.location import locate
from tests.kube.helm import CHART
from tests.world.assets import location
from tests.world.assets.images import LIBRARIES, TREE, below, install, layer, write_image

API = "ghcr.io/anycloud-sh/api@sha256:" + "5" * 64
HELM_JOB = "docker.io/anycloud-world/helm-job:1"
_CHARTS = "charts"  # helm-controller mounts over /chart, where the Job would look else
_HOW = {
    "Entrypoint": ["/usr/bin/python3.11", "-m", "anycloud_control_plane.helm_job"],
    "User": "65532:65532",
    "Env": ["PATH=/usr/bin:/bin", f"CONTENT=/{_CHARTS}"],
}


def write(target: Path) -> None:
    """The archive, under the name of Helm's Jobs."""
    with tempfile.TemporaryDirectory() as scratch:
        packages, chart = Path(scratch) / "packages", Path(scratch) / "chart"
        install(packages, "--no-build-isolation", str(TREE))
        chart.write_bytes(base64.b64encode(_packed(CHART)))
        brought = [(locate("helm"), "usr/bin/helm"), (chart, f"{_CHARTS}/{CHART.name}.tgz.base64")]
        files = [*below(packages, LIBRARIES), *brought]
        layers = [(location.base() / "layer.tar").read_bytes(), layer(files)]
    with target.open("wb") as archive:
        write_image(archive, HELM_JOB, layers, _HOW)


def _packed(folder: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(folder, folder.name)
    return packed.getvalue()

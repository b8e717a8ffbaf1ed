"""Real Helm, as klipper-helm calls it in helm-controller's Jobs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.kube.assets.location import locate

CHART = Path(__file__).parents[2] / "deploy" / "charts" / "anycloud-api"
VALUES = Path(__file__).with_name("chart_values.yaml")
RELEASE = NAME = "anycloud-api"
NAMESPACE = "anycloud"
_SERVER_VERSION = "v1.36.5+k3s1"


class HelmError(Exception):
    """Helm ended with an error; the text is what it says."""


def helm(*words: str, kubeconfig: Path | None = None, values: dict[str, Any] | None = None) -> str:
    """What Helm prints; `values` go through stdin, as they hold a credential. Raises HelmError, MissingPrograms."""
    command = [str(locate("helm")), *words, *(["--values", "-"] if values is not None else [])]
    done = subprocess.run(
        command,
        input=json.dumps(values) if values is not None else None,
        stdin=None if values is not None else subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "KUBECONFIG": str(kubeconfig or os.devnull)},
    )
    if done.returncode != 0:
        raise HelmError(done.stderr.strip())
    return done.stdout


def values(**changes: Any) -> dict[str, Any]:
    """The values of a first release, with changes at the top level."""
    return {**yaml.safe_load(VALUES.read_text()), **changes}


def template(given: dict[str, Any], version: str = _SERVER_VERSION) -> str:
    """The manifests of an install on a cluster of that version, as text."""
    return helm("template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--kube-version", version, values=given)


def rendered(given: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """The manifests of an install by kind and name."""
    found = [manifest for manifest in yaml.safe_load_all(template(given)) if manifest]
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in found}


def rbac() -> list[dict[str, Any]]:
    """The manifests of templates/rbac.yaml, read without Helm: it is plain YAML but for the Namespace."""
    text = (CHART / "templates" / "rbac.yaml").read_text().replace("{{ .Release.Namespace }}", NAMESPACE)
    return list(yaml.safe_load_all(text))


def install(kubeconfig: Path, given: dict[str, Any]) -> str:
    return _release(kubeconfig, given, "install", "--create-namespace")


def upgrade(kubeconfig: Path, given: dict[str, Any], *more: str) -> str:
    return _release(kubeconfig, given, "upgrade", *more)


def uninstall(kubeconfig: Path) -> str:
    return helm("uninstall", RELEASE, "--namespace", NAMESPACE, kubeconfig=kubeconfig)


def status(kubeconfig: Path) -> tuple[int, str]:
    """Number and status of the newest record of the release."""
    found = json.loads(helm("status", RELEASE, "-n", NAMESPACE, "--output", "json", kubeconfig=kubeconfig))
    return found["version"], found["info"]["status"]


def _release(kubeconfig: Path, given: dict[str, Any], action: str, *more: str) -> str:
    words = [action, RELEASE, str(CHART), "--namespace", NAMESPACE, *more]
    return helm(*words, kubeconfig=kubeconfig, values=given)

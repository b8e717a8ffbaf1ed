"""A stranger's client: kubectl."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.sandbox import Management

MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
data: {colour: COLOUR}
"""


def kubectl(management: Management, *arguments: str, stdin: str | None = None) -> str:
    program = Path(sys.executable).with_name("kubectl")
    argv = [str(program), "--kubeconfig", str(management.kubeconfig), *arguments]
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout


def test_kubectl_applies_reads_labels_and_deletes(management: Management) -> None:
    apply = ("apply", "--validate=false", "-f", "-")
    assert "created" in kubectl(management, *apply, stdin=MANIFEST.replace("COLOUR", "red"))
    assert "configured" in kubectl(management, *apply, stdin=MANIFEST.replace("COLOUR", "blue"))
    assert "applied" in kubectl(management, *apply, "--server-side", "--force-conflicts", stdin=MANIFEST)
    kubectl(management, "label", "configmap", "settings", "seen=yes")
    assert "settings" in kubectl(management, "get", "configmaps", "-l", "seen=yes")
    assert "mgmt" in kubectl(management, "get", "nodes", "-o", "name")
    kubectl(management, "delete", "configmap", "settings")
    assert "settings" not in kubectl(management, "get", "configmaps")
